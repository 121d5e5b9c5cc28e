//! The part of a test that runs in a process of its own: what goes wrong there fails the test.

use qcs_emulator::stand_in::Child;

#[test]
fn what_a_body_says_reaches_the_test_and_its_environment_is_its_own() {
    let ran = Child::new().env("QCS_TEST_WORD", "hello").run(|| {
        eprintln!(
            "{} from {}",
            std::env::var("QCS_TEST_WORD").unwrap(),
            std::process::id()
        );
    });
    assert!(ran.said.contains("hello from "), "{}", ran.said);
    assert!(!ran.said.contains(&format!("from {}\n", std::process::id())));
    assert!(std::env::var("QCS_TEST_WORD").is_err());
}

#[test]
#[should_panic(expected = "for this reason")]
fn a_body_that_panics_fails_the_test_with_its_message() {
    Child::new().run(|| panic!("for this reason"));
}

#[test]
#[should_panic(expected = "ended with exit status: 0")]
fn a_body_that_is_not_reached_fails_the_test() {
    if std::env::var_os("QCS_TEST_CHILD").is_some() {
        std::process::exit(0);
    }
    Child::new().env("QCS_TEST_CHILD", "1").run(|| {});
}

#[test]
#[should_panic(expected = "a test has one closure")]
fn a_second_body_in_a_test_is_refused() {
    Child::new().run(|| {});
    Child::new().run(|| {});
}
