//! NVTX ranges and the profiler's start and stop: what a profiler would see.

use super::{child, ok, start, stats};
use qcs_emulator::driver::*;
use qcs_emulator::libraries::*;
use std::ptr::null;

#[test]
fn ranges_nest_and_are_counted_by_their_path() {
    let text = child("nvtx::child_ranges", &[]);
    assert!(
        text.contains("no range is open in this thread") && text.contains("the name is null"),
        "{text}"
    );
}

#[test]
#[ignore = "run by its parent in a process of its own"]
fn child_ranges() {
    // SAFETY: all names are zero-terminated, or null, which must be refused.
    unsafe {
        for _ in 0..2 {
            assert_eq!(nvtxRangePushA(c"level 3".as_ptr()), 0);
            assert_eq!(nvtxRangePushA(c"step 0".as_ptr()), 1);
            assert_eq!(nvtxRangePop(), 1);
            assert_eq!(nvtxRangePop(), 0);
        }
        assert!(nvtxRangePushA(null()) < 0);
    }
    assert!(nvtxRangePop() < 0);
    let text = stats();
    for part in [
        r#"{"range": "level 3", "opened": 2}"#,
        r#"{"range": "level 3 > step 0", "opened": 2}"#,
        r#""ranges_closed": 4"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_profiler_is_started_and_stopped_in_a_context_only() {
    child("nvtx::child_profiler", &[]);
}

#[test]
#[ignore = "run by its parent in a process of its own"]
fn child_profiler() {
    assert_eq!(cuProfilerStart(), NOT_INITIALIZED);
    start();
    ok(cuProfilerStart());
    ok(cuProfilerStop());
    ok(cuProfilerStart());
    let text = stats();
    assert!(text.contains(r#""profiler_starts": 2, "profiler_stops": 1"#), "{text}");
    qcs_emu_reset_stats();
    assert!(stats().contains(r#""profiler_starts": 0"#));
}
