//! Measures the emulator: a 256³ SGEMM compiled from Rust, with and without the race detector.
//!
//! `cargo run --release -p qcs-emulator --example speed`

use qcs_emulator::{Device, LaunchConfig, Options, Params};

const PTX: &str = include_str!("../tests/ptx/kernels_sm_80.ptx");
const N: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for check_races in [false, true] {
        let device = Device::new(Options {
            check_races,
            ..Options::default()
        });
        let module = device.load(PTX)?;
        let ones = device.buffer(&vec![1f32; N * N]);
        let result = device.poisoned::<f32>(N * N);
        let config = LaunchConfig {
            grid: [2, 2, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
        };
        let n = N as u32;
        let params = Params::new()
            .value(n)
            .value(n)
            .value(n)
            .buffer(&ones)
            .buffer(&ones)
            .buffer(&result);
        for kernel in ["sgemm128", "sgemm128_sh"] {
            let fastest = (0..5)
                .map(|_| device.launch(&module, kernel, config, &params))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .min_by(|a, b| a.seconds.total_cmp(&b.seconds))
                .expect("five launches");
            assert!(result.read().iter().all(|x| *x == N as f32));
            println!(
                "{kernel:12} races checked: {check_races:5}  {:.4} s  {:6.0} M thread instructions/s",
                fastest.seconds,
                fastest.thread_instructions as f64 / fastest.seconds / 1e6
            );
        }
    }
    Ok(())
}
