//! Several GPUs share the states of a run, and nobody can tell from the samples.

use serde_json::Value;

use crate::emulated::Emulated;

const THREE: [(&str, &str); 1] = [("QCS_EMU_DEVICES", "3")];

/// One image of the problem, so that the chains are the states; all of them in one batch.
fn run(emulated: &Emulated, out: &str, chains: usize, device: &str) -> Vec<u8> {
    let line = format!(
        "run problem.safetensors --model two.safetensors --count 1 --chains {chains} --batch {chains} \
         --steps-per-level 1 --precision fp32 --device {device} --out {out} --quiet"
    );
    let ran = emulated.run(&line, &THREE);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("qcs-emulator"),
        "nothing is refused: {}",
        ran.stderr
    );
    emulated.place.read(&format!("{out}/ep/samples.npy"))
}

/// A problem and a model of two levels.
fn place() -> Emulated {
    let emulated = Emulated::new();
    emulated.problem_and_model("two.safetensors", 2);
    emulated
}

/// A figure of each device.
fn each(stats: &Value, what: &str) -> Vec<u64> {
    let devices = stats["devices"].as_array().unwrap();
    devices.iter().map(|device| device[what].as_u64().unwrap()).collect()
}

#[test]
fn samples_do_not_depend_on_the_number_of_gpus() {
    let emulated = place();
    // Two levels of one step; an uneven batch, and one that leaves a GPU without work.
    for (chains, devices) in [(5, "1,0"), (2, "0,1,2")] {
        let one = run(&emulated, &format!("one{chains}"), chains, "cuda:0");
        assert_eq!(each(&emulated.stats(), "graph_launches"), [2, 0, 0]);
        let several = run(
            &emulated,
            &format!("{chains}{devices}"),
            chains,
            &format!("cuda:{devices}"),
        );
        assert!(one == several, "{chains} states on cuda:{devices}");

        let stats = emulated.stats();
        let working = |device: usize| devices.split(',').take(chains).any(|n| n == device.to_string());
        let launched: Vec<u64> = (0..3).map(|device| if working(device) { 2 } else { 0 }).collect();
        assert_eq!(
            each(&stats, "graph_launches"),
            launched,
            "{chains} states on cuda:{devices}"
        );
        assert_eq!(stats["foreign"]["calls"], 0, "every copy is to its own device");
        assert_eq!(each(&stats, "bytes_in_use"), [0, 0, 0]);
    }
}

#[test]
fn each_gpu_holds_its_part_of_the_batch_and_auto_counts_on_all() {
    let emulated = place();
    run(&emulated, "three", 3, "cuda:0");
    let taken = emulated.stats()["peak_bytes"].as_u64().unwrap();
    // What is kept free: a twentieth and 256 MiB.
    let memory = ((taken + (256 << 20)) * 20 / 19 + 1).to_string();
    run(&emulated, "five", 5, "cuda:0,1");
    let peaks = each(&emulated.stats(), "peak_bytes");
    assert_eq!(peaks[0], taken, "three of five states");
    assert!(peaks[1] < peaks[0] && peaks[2] == 0, "{peaks:?}");

    let line = "run problem.safetensors --model two.safetensors --count 1 --chains 7 --batch auto --precision fp32 \
                --steps-per-level 1 --device cuda:0,1 --out auto --quiet";
    let ran = emulated.run(line, &[("QCS_EMU_DEVICES", "2"), ("QCS_EMU_MEMORY", &memory)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let config = emulated.place.text("auto/config.toml");
    assert!(config.contains("\nbatch = 6\n"), "{config}");
}

#[test]
fn a_gpu_that_fails_is_named() {
    let emulated = place();
    let line = "run problem.safetensors --model two.safetensors --out run --quiet --device cuda:0,1";
    // The second start of a state is the second GPU's.
    let environment = [("QCS_EMU_DEVICES", "2"), ("QCS_EMU_FAULT_KERNEL", "start_state:2")];
    let ran = emulated.run(line, &environment);
    ran.refuses(line, 5, &["cuda:1: a kernel failed", "--device cuda:1"]);
    let line = "run problem.safetensors --model two.safetensors --out run --quiet --device cuda:0,2";
    let ran = emulated.run(line, &[("QCS_EMU_DEVICES", "2")]);
    ran.refuses(line, 5, &["cuda:2", "only 2 GPUs"]);
}
