//! NVTX ranges and the profiler's start and stop: what a profiler would see.

use super::{PTX, allocate, function, load, ok, scale, start, stats, upload};
use qcs_emulator::driver::*;
use qcs_emulator::libraries::*;
use qcs_emulator::stand_in::Child;
use std::path::Path;
use std::ptr::{null, null_mut};

#[test]
fn ranges_nest_and_are_counted_by_their_path() {
    let ran = Child::new().run(|| {
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
    });
    let text = ran.said;
    assert!(
        text.contains("no range is open in this thread") && text.contains("the name is null"),
        "{text}"
    );
}

#[test]
fn every_launch_leaves_a_line_with_its_range() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launches.jsonl");
    let name = path.to_str().expect("a plain path");
    Child::new()
        .env("QCS_EMU_LAUNCHES", name)
        .env("QCS_EMU_PROFILE", "1")
        .run(|| {
            start();
            let kernel = function(load(PTX).unwrap(), c"scale");
            let data = allocate(48).unwrap();
            upload(data, &[1.0; 12]);
            ok(scale(kernel, data, 2.0, 4, null_mut()));
            // SAFETY: all names are zero-terminated.
            unsafe {
                assert_eq!(nvtxRangePushA(c"step 1".as_ptr()), 0);
                assert_eq!(nvtxRangePushA(c"conv".as_ptr()), 1);
            }
            ok(scale(kernel, data, 2.0, 12, null_mut()));
        });
    let text = std::fs::read_to_string(&path).expect("the launches were written");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with(r#"{"range": "", "ranges_opened": 0, "report": {"kernel": "scale", "grid": [1, 1, 1]"#)
            && lines[0].contains(r#""bytes_read": 32, "bytes_written": 32"#),
        "{text}"
    );
    assert!(
        lines[1].starts_with(r#"{"range": "step 1 > conv", "ranges_opened": 2, "report""#)
            && lines[1].contains(r#""block": [12, 1, 1]"#)
            && lines[1].contains(r#""bytes_read": 64, "bytes_written": 64"#),
        "{text}"
    );
}

#[test]
fn the_profiler_is_started_and_stopped_in_a_context_only() {
    Child::new().run(|| {
        assert_eq!(cuProfilerStart(), NOT_INITIALIZED);
        start();
        ok(cuProfilerStart());
        ok(cuProfilerStop());
        ok(cuProfilerStart());
        let text = stats();
        assert!(text.contains(r#""profiler_starts": 2, "profiler_stops": 1"#), "{text}");
        qcs_emu_reset_stats();
        assert!(stats().contains(r#""profiler_starts": 0"#));
    });
}
