//! A device that cannot be used, or fails: one line that says why and what to do, and nothing lost.

use qcs_emulator::stand_in::Library;

use crate::emulated::Emulated;
use crate::support::Place;

const RUN: &str = "run problem.safetensors --model model.safetensors --out run --quiet";

fn place() -> Emulated {
    Emulated::at(Place::with_problem(), &[Library::Driver])
}

#[test]
fn every_way_to_have_no_gpu_is_one_line_with_the_reason_and_the_way_out() {
    let emulated = place();
    for (environment, reason) in [
        (("QCS_EMU_NO_DEVICE", "1"), "no NVIDIA GPU is visible"),
        (("QCS_EMU_DRIVER_VERSION", "10020"), "too old: it is for CUDA 10.2"),
    ] {
        let line = format!("{RUN} --device cuda");
        emulated
            .run(&line, &[environment])
            .refuses(&line, 5, &[reason, "--device cpu"]);
        assert!(!emulated.place.path("run").exists(), "nothing is left behind");
    }
    let line = format!("{RUN} --device cuda:3");
    emulated.run(&line, &[]).refuses(&line, 5, &["cuda:3", "only 1 GPU"]);

    emulated.link(&[]);
    let line = format!("{RUN} --device cuda");
    emulated
        .run(&line, &[])
        .refuses(&line, 5, &["libcuda.so.1 was not found", "--device cpu"]);
}

#[test]
fn without_a_driver_auto_is_the_cpu_and_with_one_it_says_which_gpu() {
    let engine = |json: serde_json::Value| json["machine"]["engine"].as_str().unwrap().to_owned();
    let info = "info --model model.safetensors --json";
    let emulated = place();
    emulated.link(&[]);
    assert!(engine(emulated.succeeds(info).json()).starts_with("CPU"));

    emulated.link(&[Library::Driver]);
    let found = engine(emulated.succeeds(info).json());
    assert!(found.starts_with("cuda:0, qcs PTX emulator"), "{found}");
    assert!(found.contains("sm_80"), "{found}");

    let ran = emulated.run(info, &[("QCS_EMU_DRIVER_VERSION", "10020")]);
    assert!(engine(ran.json()).starts_with("CPU"));
    assert!(
        ran.stderr
            .contains("computing on the CPU: the NVIDIA driver is too old"),
        "{}",
        ran.stderr
    );
}

#[test]
fn kernels_that_the_driver_refuses_come_with_what_its_compiler_says() {
    let emulated = place();
    let line = format!("{RUN} --device cuda");
    let log = "ptxas application ptx input, line 12; error   : Illegal modifier '.xx'\nptxas fatal   : aborted";
    let ran = emulated.run(&line, &[("QCS_EMU_JIT_ERROR", log)]);
    ran.refuses(
        &line,
        5,
        &[
            "cuda:0: cannot load the kernels",
            "INVALID_PTX",
            "Illegal modifier '.xx'; ptxas fatal",
        ],
    );
}

#[test]
fn without_a_compiler_machine_code_for_the_gpu_is_tried() {
    let emulated = place();
    let line = format!("{RUN} --device cuda");
    for (sm, code) in [("70", "sm_70"), ("80", "sm_80"), ("90", "sm_90")] {
        let ran = emulated.run(&line, &[("QCS_EMU_NO_JIT", "1"), ("QCS_EMU_SM", sm)]);
        assert_eq!(ran.code, Some(5), "{}", ran.stderr);
        // The emulator cannot run it, and says what it got.
        for part in [
            "JIT_COMPILER_NOT_FOUND",
            "libnvidia-ptxjitcompiler.so.1",
            "the CPU works",
            &format!("qcs-emulator: the image is machine code for {code};"),
            &format!("machine code for {code} is refused too: CUDA_ERROR_NO_BINARY_FOR_GPU"),
        ] {
            assert!(ran.stderr.contains(part), "{part} in {}", ran.stderr);
        }
        assert_eq!(emulated.stats()["machine_code_loads"], 1);
    }
    let info = emulated.succeeds("info --model model.safetensors --device cuda");
    let kernels = "kernels     PTX for sm_80, compiled by the driver; the driver is for CUDA 12.8";
    assert!(info.stdout.contains(kernels), "{}", info.stdout);
    assert_eq!(emulated.stats()["machine_code_loads"], 0);
}

#[test]
fn a_full_device_says_how_much_was_needed_and_how_much_there_is() {
    let emulated = place();
    let line = format!("{RUN} --device cuda");
    for environment in [("QCS_EMU_MEMORY", "100000"), ("QCS_EMU_FAIL_ALLOC", "1")] {
        let ran = emulated.run(&line, &[environment]);
        ran.refuses(&line, 5, &["cuda:0: a batch needs", "bytes", "free", "--batch auto"]);
        std::fs::remove_dir_all(emulated.place.path("run")).unwrap();
    }
}

#[test]
fn a_kernel_that_fails_in_the_middle_ends_the_run_with_one_line() {
    let emulated = place();
    for kernel in ["langevin_propose:4", "ep_moments:7", "start_state", "denoise"] {
        let line = format!("{RUN} --device cuda --force");
        let ran = emulated.run(&line, &[("QCS_EMU_FAULT_KERNEL", kernel)]);
        ran.refuses(&line, 5, &["cuda:0: a kernel failed", "qcs check", "--resume"]);
    }
    // The device is whole again: the run goes on, or starts again, to its end.
    emulated.succeeds(&format!("{RUN} --device cuda --resume"));
}
