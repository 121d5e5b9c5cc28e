use crate::harness::{expect32, run, run32};

fn f(x: f32) -> u32 {
    x.to_bits()
}

#[track_caller]
fn holds(comparison: &str, [a, b]: [u32; 2]) -> bool {
    let body = format!("setp.{comparison} %p, %ra, %rb; selp.u32 %r, 1, 0, %p");
    run32(&body, &[[a as u64, b as u64, 0]])[0] == 1
}

#[test]
fn integers_compare_by_signedness() {
    let minus_one = u32::MAX;
    assert!(holds("lt.s32", [minus_one, 0]) && !holds("lt.u32", [minus_one, 0]));
    assert!(holds("lo.u32", [0, minus_one]) && holds("hs.u32", [3, 3]));
    assert!(holds("eq.b32", [5, 5]) && holds("ne.s32", [5, 6]));
    assert!(holds("ge.s32", [5, 5]) && !holds("gt.s32", [5, 5]) && holds("le.s32", [5, 5]));
}

#[test]
fn unordered_comparisons_are_true_with_nan() {
    let nan = f(f32::NAN);
    for name in ["eq", "ne", "lt", "le", "gt", "ge", "num"] {
        assert!(!holds(&format!("{name}.f32"), [nan, f(1.0)]), "{name}");
    }
    for name in ["equ", "neu", "ltu", "leu", "gtu", "geu", "nan"] {
        assert!(holds(&format!("{name}.f32"), [nan, f(1.0)]), "{name}");
    }
    assert!(holds("ltu.f32", [f(1.0), f(2.0)]) && !holds("gtu.f32", [f(1.0), f(2.0)]));
    assert!(holds("eq.f32", [f(0.0), f(-0.0)]));
    assert!(
        holds("gt.f32", [1, 0]) && !holds("gt.ftz.f32", [1, 0]),
        "a subnormal, and flushed"
    );
}

#[test]
fn results_combine_with_a_predicate_and_have_a_complement() {
    let body = "setp.eq.s32 %q, %rc, 1; setp.lt.and.s32 %p|%q, %ra, %rb, %q; \
                selp.u32 %r, 1, 0, %p; selp.u32 %s, 2, 0, %q; or.b32 %r, %r, %s";
    // The complement is combined as well: (a >= b) and c.
    assert_eq!(run32(body, &[[1, 2, 1], [2, 1, 1], [1, 2, 0], [2, 1, 0]]), [1, 2, 0, 0]);
}

#[test]
fn wide_and_packed_types() {
    let body = "setp.gt.s64 %p, %da, %db; selp.u64 %d, 1, 0, %p;";
    assert_eq!(run(body, &[[1 << 40, 1, 0], [u64::MAX, 1, 0]]), [1, 0]);
    let body = "setp.lt.f64 %p, %da, %db; selp.u64 %d, 1, 0, %p;";
    assert_eq!(run(body, &[[1f64.to_bits(), 2f64.to_bits(), 0]]), [1]);
    let body = "setp.lt.f16x2 %p|%q, %ra, %rb; selp.u32 %r, 1, 0, %p; selp.u32 %s, 2, 0, %q; or.b32 %r, %r, %s";
    // Lower halves 1 < 2, upper halves 2 < 1.
    assert_eq!(run32(body, &[[0x4000_3c00, 0x3c00_4000, 0]]), [1]);
}

#[test]
fn set_writes_all_ones_or_one() {
    expect32("set.lt.u32.s32 %r, %ra, %rb", [1, 2, 0], u32::MAX);
    expect32("set.lt.f32.s32 %r, %ra, %rb", [1, 2, 0], f(1.0));
    expect32("set.lt.u32.s32 %r, %ra, %rb", [2, 2, 0], 0);
}

#[test]
fn selection_by_predicate_and_by_sign() {
    expect32("slct.u32.s32 %r, %ra, %rb, %rc", [10, 20, 0], 10);
    expect32("slct.u32.s32 %r, %ra, %rb, %rc", [10, 20, u32::MAX], 20);
    expect32("slct.u32.f32 %r, %ra, %rb, %rc", [10, 20, f(-0.5)], 20);
}

#[test]
fn predicate_logic() {
    let value = |logic: &str| {
        let body = format!("setp.ne.u32 %p, %ra, 0; setp.ne.u32 %q, %rb, 0; {logic}; selp.u32 %r, 1, 0, %p");
        run32(&body, &[[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]])
    };
    assert_eq!(value("and.pred %p, %p, %q"), [0, 0, 0, 1]);
    assert_eq!(value("or.pred %p, %p, %q"), [0, 1, 1, 1]);
    assert_eq!(value("xor.pred %p, %p, %q"), [0, 1, 1, 0]);
    assert_eq!(value("not.pred %p, %q"), [1, 0, 1, 0]);
    assert_eq!(value("mov.pred %p, %q"), [0, 1, 0, 1]);
}

#[test]
fn float_classes() {
    let class = |name: &str, x: f32| {
        let body = format!("testp.{name}.f32 %p, %ra; selp.u32 %r, 1, 0, %p");
        run32(&body, &[[f(x) as u64, 0, 0]])[0] == 1
    };
    assert!(class("finite", 1.0) && !class("finite", f32::INFINITY));
    assert!(class("infinite", f32::NEG_INFINITY) && class("notanumber", f32::NAN));
    assert!(class("number", f32::INFINITY) && class("normal", 1.0) && class("subnormal", 1e-45));
}
