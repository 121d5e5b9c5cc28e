//! Sampling on the device gives the CPU's samples, and the device is left alone meanwhile.

use std::ops::Range;

use qcs::engine::cpu::CpuEngine;
use qcs::engine::cuda::CudaEngine;
use qcs::engine::{Engine, Precision};
use qcs::files::npy;
use qcs::likelihood::Likelihood;
use qcs::methods::QcsSgmPlus;
use qcs::methods::{Algorithm, Inputs, Options, Preset};
use qcs::plan::{Op, Plan, Program, TensorId};
use qcs::prior::Prior;
use qcs::problem::{Cells, Ensemble, Problem, Sensing, Simulation};
use qcs::reconstruct::{Driver, Outcome, Unobserved};
use qcs::{ImageShape, Images};
use qcs_emulator::stand_in::{Child, Library};
use qcs_kernels::sampler::step::StepRecord;
use serde_json::Value;

use crate::emulated::Emulated;
use crate::{small, support};

/// MNIST's shape, with a small network.
const IMAGE: ImageShape = ImageShape::new(1, 28, 28);

/// Two images of 28×28, a network of four channels, three levels.
fn place() -> Emulated {
    let emulated = Emulated::new();
    emulated.place.model("small.safetensors", IMAGE, |_, metadata| {
        metadata.insert("num_classes".into(), "3".into());
    });
    let pixel = |i: usize| 0.5 + 0.5 * ((i * i % 89) as f32 / 9.0).sin();
    let pixels: Vec<f32> = (0..2 * IMAGE.len()).map(pixel).collect();
    npy::write(emulated.place.path("two.npy"), &[2, 1, 28, 28], &pixels).unwrap();
    emulated
}

const RUN: &str = "run two.npy --model small.safetensors -m 96 --kappa 50 --matrix ill-conditioned --sigma 0.05 \
                   --step-scale 0.3 --momentum 0.6 --seed 5 --quiet";

/// The largest difference of two runs' samples.
fn difference(emulated: &Emulated, method: &str, one: &str, other: &str) -> f32 {
    let read = |out: &str| {
        let path = emulated.place.path(&format!("{out}/{method}/samples.npy"));
        npy::read(&path).unwrap().to_f32().into_owned()
    };
    let (one, other) = (read(one), read(other));
    assert_eq!(one.len(), 2 * IMAGE.len());
    one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn samples_are_the_cpus_within_1e_3_for_both_methods_at_one_and_three_bits() {
    let emulated = place();
    for bits in [1, 3] {
        let (cpu, cuda) = (format!("cpu{bits}"), format!("cuda{bits}"));
        let line = format!("{RUN} --bits {bits} --method both --steps-per-level 2");
        emulated.succeeds(&format!("{line} --out {cpu} --device cpu"));
        emulated.succeeds(&format!("{line} --out {cuda} --device cuda --precision fp32"));
        for method in ["ep", "diag"] {
            let error = difference(&emulated, method, &cpu, &cuda);
            println!("{method}, {bits} bits: {error:.1e}");
            assert!(error < 1e-3, "{method}, {bits} bits: {error:e}");
        }
    }
}

/// One measurement of image 0 at the edge of what f64 holds drives its likelihood score out of f32's range.
#[test]
fn a_batch_that_diverged_does_not_end_the_next_one() {
    Child::new().finding(&[Library::Driver]).run(|| {
        let (prior, problem) = (small::prior(), small::problem());
        let cells = problem.cells();
        let (mut lower, mut upper) = (cells.lower().to_vec(), cells.upper().to_vec());
        (lower[3], upper[3]) = (1e200, f64::INFINITY);
        let cells = Cells::new(cells.m(), lower, upper).unwrap();
        let spectrum = problem.spectrum().unwrap().clone();
        let problem = Problem::new(problem.a().clone(), cells, 0.05).unwrap();
        let problem = problem.with_spectrum(spectrum).unwrap();
        let options = QcsSgmPlus {
            steps_per_level: Some(2),
            step_scale: Some(0.1),
            gamma: Some(1.0),
            ..QcsSgmPlus::geometric(5.0, 0.05, 4)
        };
        let options = options.over(QcsSgmPlus::of_preset(Preset::find("mnist").unwrap()));
        let driver = Driver {
            algorithm: &options.settings(Likelihood::default()).unwrap(),
            given: Inputs {
                prior: &prior,
                problem: Some(&problem),
                chains: 1,
            },
            first: 0,
            images: small::IMAGES,
            seed: 0,
            batch: 1,
        };
        let samples = |engine: &mut dyn Engine| match driver.run(engine, None, &mut Unobserved).unwrap() {
            Outcome::Finished(samples) => samples,
            Outcome::Stopped => panic!("nobody stopped the run"),
        };
        let cuda = samples(&mut CudaEngine::new(0, Some(Precision::Fp32)).unwrap());
        let cpu = samples(&mut CpuEngine::new(1));
        let named: Vec<_> = cuda.diverged.iter().map(|d| (d.image, d.level, d.step)).collect();
        assert_eq!(named, [(0, 1, 1)]);
        let pairs = cuda.states.data.iter().zip(&cpu.states.data);
        let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error < 1e-3, "the other images are the CPU's: {error}");
    });
}

#[test]
fn turbo_is_the_cpus_within_1e_3_and_its_bits_do_not_depend_on_the_batch() {
    let emulated = place();
    emulated.place.model("turbo.safetensors", IMAGE, |tensors, metadata| {
        let levels: Vec<f32> = (0..12).map(|i| 0.01 * 2f32.powi(i)).collect();
        let errors = levels.iter().map(|s| 0.05 * s * s / (0.2 + s)).collect();
        tensors.insert("denoiser.mean".into(), (vec![784], vec![0.5; 784]));
        tensors.insert("denoiser.levels".into(), (vec![12], levels));
        tensors.insert("denoiser.errors".into(), (vec![12], errors));
        metadata.insert("denoiser.variance".into(), "0.1".into());
    });
    let line = "run two.npy --model turbo.safetensors -m 96 --kappa 50 --matrix ill-conditioned --sigma 0.05 --seed 5 \
                --method turbo --evaluations 4 --quiet";
    emulated.succeeds(&format!("{line} --out cpu --device cpu"));
    emulated.succeeds(&format!("{line} --out cuda --device cuda --precision fp32"));
    let stats = emulated.stats();
    assert_eq!(count(&stats, "/graph_launches"), 4, "one graph for each iteration");
    let error = difference(&emulated, "turbo", "cpu", "cuda");
    println!("turbo: {error:.1e}");
    assert!(error < 1e-3, "{error:e}");
    emulated.succeeds(&format!("{line} --out one --device cuda --precision fp32 --batch 1"));
    assert_eq!(difference(&emulated, "turbo", "one", "cuda"), 0.0);

    let line = line.replace("--evaluations 4", "--evaluations 1 --chains 2 --draw-steps 2");
    emulated.succeeds(&format!("{line} --out cpu2 --device cpu"));
    emulated.succeeds(&format!("{line} --out cuda2 --device cuda --precision fp32"));
    let draws = |out: &str| npy::read(emulated.place.path(&format!("{out}/turbo/samples.npy"))).unwrap();
    let (cpu, cuda) = (draws("cpu2"), draws("cuda2"));
    assert_eq!(cpu.shape, [2, 2, 1, 28, 28]);
    let (cpu, cuda) = (cpu.to_f32(), cuda.to_f32());
    let error = cpu
        .iter()
        .zip(cuda.iter())
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(error < 1e-3, "draws: {error:e}");
}

fn count(stats: &Value, path: &str) -> u64 {
    stats
        .pointer(path)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("{path} in {stats}"))
}

#[test]
fn inside_a_noise_level_nothing_is_copied_waited_for_or_allocated() {
    let stats = |steps: u64| {
        let child = Child::new().finding(&[Library::Driver]);
        let ran = child.env("QCS_TEST_STEPS", steps.to_string()).run(|| {
            sample_three_levels(std::env::var("QCS_TEST_STEPS").unwrap().parse().unwrap());
        });
        serde_json::from_str(&ran.stats).unwrap()
    };
    let (few, many) = (stats(1), stats(4));
    assert_eq!(count(&few, "/graph_launches"), 3, "one for each step of three levels");
    assert_eq!(count(&many, "/graph_launches"), 12);
    assert_eq!(count(&few, "/forks"), 1, "the likelihood is a branch of the graph");
    for what in [
        "/synchronisations",
        "/allocations",
        "/device_to_host/bytes",
        "/device_to_host/calls",
        "/device_to_device/calls",
        "/host_to_device/calls",
        "/memsets/calls",
        "/graph_instantiations",
    ] {
        assert_eq!(count(&few, what), count(&many, what), "{what}");
    }
    let bytes = |stats| count(stats, "/host_to_device/bytes");
    let records = size_of::<StepRecord>() as u64 * 3 * (4 - 1);
    assert_eq!(
        bytes(&many) - bytes(&few),
        records,
        "only the records of the additional steps"
    );
}

/// Without an observer: a run by the command line also keeps checkpoints, by the clock.
fn sample_three_levels(steps_per_level: usize) {
    let image = ImageShape::new(1, 8, 8);
    let prior = Prior::random_of_width(4, image, 0);
    let simulation = Simulation {
        bits: 1,
        step: None,
        sigma: 0.05,
        mean_square: 0.25,
        dither: false,
        seed: 0,
    };
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 10.0 },
        m: 40,
    };
    let images = Images::new(image, vec![0.5; 2 * image.len()]);
    let problem = Problem::simulate(images, sensing, &simulation).unwrap();
    let options = QcsSgmPlus {
        steps_per_level: Some(steps_per_level),
        step_scale: Some(0.1),
        ..QcsSgmPlus::geometric(1.0, 0.1, 3)
    };
    let options = options.over(QcsSgmPlus::of_preset(Preset::find("mnist").unwrap()));
    let driver = Driver {
        algorithm: &options.settings(Likelihood::default()).unwrap(),
        given: Inputs {
            prior: &prior,
            problem: Some(&problem),
            chains: 1,
        },
        first: 0,
        images: 2,
        seed: 0,
        batch: 8,
    };
    let mut engine = CudaEngine::new(0, Some(Precision::Fp32)).unwrap();
    let outcome = driver.run(&mut engine, None, &mut Unobserved).unwrap();
    assert!(matches!(outcome, Outcome::Finished(samples) if samples.diverged.is_empty()));
}

/// The bytes of the arena that a run of ops reads or writes, and those that it writes.
fn touched(plan: &Plan, run: &Range<usize>) -> [Vec<Range<usize>>; 2] {
    let place = |id: &TensorId| plan.tensor(*id).offset..plan.tensor(*id).offset + plan.tensor(*id).bytes;
    let (mut used, mut written) = (Vec::new(), Vec::new());
    for instruction in &plan.program(Program::Step)[run.clone()] {
        let operands = instruction.op.operands();
        written.extend(operands.writes.iter().map(place));
        written.push(instruction.scratch.clone());
        used.extend(operands.reads.iter().map(place));
    }
    used.extend(written.iter().cloned());
    [used, written]
}

#[test]
fn what_runs_at_once_shares_no_memory() {
    let (prior, problem) = (small::prior(), small::problem());
    let given = Inputs {
        prior: &prior,
        problem: Some(&problem),
        chains: 1,
    };
    let options = QcsSgmPlus::geometric(5.0, 0.05, 4).over(QcsSgmPlus::of_preset(Preset::find("mnist").unwrap()));
    let settings = options.settings(Likelihood::default()).unwrap();
    for precision in [Precision::Fp32, Precision::Fp16] {
        let target = qcs::engine::cuda::laid_out::target(precision);
        let plan = settings.passes(given)[0].compile(3, target.as_ref()).plan;
        let fork = plan.fork();
        assert!(fork.main.len() > 50 && fork.side.len() > 10, "{fork:?}");
        let rooms = |run: &Range<usize>, network: bool| {
            let mut ops = plan.program(Program::Step)[run.clone()].iter();
            ops.all(|instruction| matches!(instruction.op, Op::Network(_)) == network)
        };
        assert!(rooms(&fork.main, true) && rooms(&fork.side, false));
        let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let [main, side] = [&fork.main, &fork.side].map(|run| touched(&plan, run));
        for ([_, written], [used, _]) in [(&main, &side), (&side, &main)] {
            assert!(
                written.iter().all(|a| used.iter().all(|b| !overlap(a, b))),
                "{precision}"
            );
        }
        // The CPU computes one op after the other.
        let cpu = CpuEngine::new(1);
        let plan = settings.passes(given)[0].compile(3, cpu.target()).plan;
        assert!(plan.fork().main.is_empty() && plan.fork().side.is_empty());
    }
}

/// Bytes that the kernels bring with them: the table of `store_mixed`'s kinds, which a driver loads with the module.
const KERNEL_TABLES: u64 = 40;

#[test]
fn one_allocation_of_the_announced_size_holds_everything() {
    let emulated = place();
    emulated
        .succeeds("measure two.npy -o p.safetensors -m 96 --kappa 50 --matrix ill-conditioned --sigma 0.05 --seed 5");
    let info = emulated.succeeds(
        "info --model small.safetensors --problem p.safetensors --batch 2 --json --device cuda --precision fp32",
    );
    let announced = count(&info.json(), "/machine/batch_bytes");
    emulated.succeeds("run p.safetensors --model small.safetensors --out out --quiet --device cuda --precision fp32");
    let stats = emulated.stats();
    assert_eq!(count(&stats, "/allocations"), 1);
    assert_eq!(count(&stats, "/peak_bytes"), announced + KERNEL_TABLES);
    assert_eq!(count(&stats, "/bytes_in_use"), 0, "everything is given back");
}

#[test]
fn the_batch_that_auto_picks_fills_the_device_and_changes_nothing() {
    let emulated = place();
    let run = format!("{RUN} --steps-per-level 1 --precision fp32 --device cuda --chains 3");
    emulated.succeeds(&format!("{run} --out four --batch 4"));
    // What is kept free: a twentieth and 256 MiB.
    let taken = count(&emulated.stats(), "/peak_bytes");
    let memory = ((taken + (256 << 20)) * 20 / 19 + 1).to_string();
    let ran = emulated.run(
        &format!("{run} --out auto --batch auto"),
        &[("QCS_EMU_MEMORY", &memory)],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let config = emulated.place.text("auto/config.toml");
    assert!(config.contains("\nbatch = 4\n"), "{config}");
    let next = format!("{run} --out more --batch 5");
    let ran = emulated.run(&next, &[("QCS_EMU_MEMORY", &taken.to_string())]);
    ran.refuses(&next, 5, &["GiB", "--batch auto"]);
    let samples = |out: &str| emulated.place.read(&format!("{out}/ep/samples.npy"));
    emulated.succeeds(&format!("{run} --out one --batch 1"));
    assert!(samples("four") == samples("auto") && samples("one") == samples("auto"));
}

#[test]
fn what_the_host_hands_over_is_waited_for() {
    let ran = Child::new().finding(&[Library::Driver]).run(|| sample_three_levels(1));
    let stats: Value = serde_json::from_str(&ran.stats).unwrap();
    let copies = count(&stats, "/host_to_device/calls");
    assert!(copies > 20, "weights, A, keys, cells");
    assert!(count(&stats, "/synchronisations") >= copies, "{stats}");
}

/// Waits until the condition does not hold any more, or the child has ended.
fn wait_while(child: &mut std::process::Child, condition: impl Fn() -> bool) {
    while condition() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_bits() {
    let emulated = place();
    let run = format!("{RUN} --steps-per-level 2 --device cuda --precision fp32");
    emulated.succeeds(&format!("{run} --out whole"));
    let line = format!("{run} --out broken");
    let mut child = emulated
        .command(&line, &[("QCS_CHECKPOINT_SECONDS", "0")])
        .spawn()
        .unwrap();
    // After the first level.
    wait_while(&mut child, || {
        !emulated.place.path("broken/checkpoint-ep.safetensors").exists()
    });
    // SAFETY: a signal to our own child.
    unsafe { libc_kill(child.id() as i32, 15) };
    let code = child.wait().unwrap().code();
    // It may be faster than the signal.
    assert!([Some(130), Some(0)].contains(&code), "{code:?}");
    emulated.succeeds(&format!("{run} --out broken --resume"));
    let samples = |out: &str| emulated.place.read(&format!("{out}/ep/samples.npy"));
    assert!(samples("whole") == samples("broken"));
}

#[test]
fn eight_shards_one_of_them_killed_twice_are_the_run() {
    let emulated = Emulated::new();
    support::write_images(&emulated.place, "nine.npy", 9);
    emulated.succeeds("calibrate --model model.safetensors --images nine.npy --device cpu -o known.safetensors");
    let run = "run nine.npy -m 24 --bits 2 --step 0.5 --model known.safetensors --method ep,turbo --evaluations 2 --levels 3 \
               --steps-per-level 1 --step-scale 0.1 --seed 3 --device cuda --precision fp32 --quiet";
    emulated.succeeds(&format!("{run} --out whole"));
    for shard in 1..=8 {
        let line = format!(
            "{run} --out parts --shard {shard}/8 --resume --block 1 --threads {}",
            1 + shard % 3
        );
        // Before its first level, and after it.
        for file in ["config.toml", "checkpoint-ep.safetensors"]
            .iter()
            .filter(|_| shard == 5)
        {
            let mut child = emulated
                .command(&line, &[("QCS_CHECKPOINT_SECONDS", "0")])
                .spawn()
                .unwrap();
            let file = emulated.place.path(&format!("parts/shard-5-of-8/{file}"));
            wait_while(&mut child, || !file.exists());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        emulated.succeeds(&line);
    }
    emulated.succeeds("merge parts");
    support::assert_same_run(&emulated.place, "parts", "whole");
}

#[test]
fn a_run_takes_the_fastest_precision_and_a_score_the_exact_one() {
    let emulated = place();
    let run = format!("{RUN} --steps-per-level 1 --device cuda");
    emulated.succeeds(&format!("{run} --out default"));
    emulated.succeeds(&format!("{run} --out half --precision fp16"));
    emulated.succeeds(&format!("{run} --out single --precision fp32"));
    assert_eq!(difference(&emulated, "ep", "default", "half"), 0.0);
    assert!(difference(&emulated, "ep", "default", "single") > 0.0);
    let config = String::from_utf8(emulated.place.read("default/config.toml")).unwrap();
    assert!(config.contains("precision = \"fp16\""), "{config}");

    let score = "score --model small.safetensors --x two.npy --beta 0.3 --device cuda";
    emulated.succeeds(&format!("{score} --out default.npy"));
    emulated.succeeds(&format!("{score} --out single.npy --precision fp32"));
    assert!(emulated.place.read("default.npy") == emulated.place.read("single.npy"));
}

unsafe extern "C" {
    #[link_name = "kill"]
    fn libc_kill(process: i32, signal: i32) -> i32;
}

#[test]
fn scores_on_the_device_are_those_of_the_cpu() {
    let emulated = place();
    emulated.succeeds("measure two.npy -o p.safetensors -m 96 --matrix ill-conditioned --kappa 1000 --seed 2");
    let read = |name: &str| npy::read(emulated.place.path(name)).unwrap().to_f32().into_owned();
    let error = |a: &[f32], b: &[f32]| {
        let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v * v)).sum::<f64>().sqrt();
        norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut a.iter().copied())
    };
    let score = "score --model small.safetensors --x two.npy --beta 0.3";
    let likelihood = "likelihood --problem p.safetensors --x two.npy --beta 0.3";
    emulated.succeeds(&format!("{likelihood} --out l.npy --device cpu"));
    for architecture in ["70", "80"] {
        for (precision, bound) in [("fp32", 1e-5), ("fp16", 1e-3), ("tf32", 1e-3)] {
            // The CPU rounds alike; what is left is where a value lies so near to a tie that one of them rounds it up.
            emulated.succeeds(&format!(
                "{score} --out s.npy --force --device cpu --precision {precision}"
            ));
            let line = format!("{score} --out cuda.npy --force --device cuda --precision {precision}");
            let ran = emulated.run(&line, &[("QCS_EMU_SM", architecture)]);
            if (precision, architecture) == ("tf32", "70") {
                ran.refuses(&line, 5, &["TF32", "fp16"]);
                continue;
            }
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let error = error(&read("s.npy"), &read("cuda.npy"));
            println!("sm_{architecture} {precision}: {error:.1e}");
            assert!(error < bound, "sm_{architecture} {precision}: {error:e}");
        }
        let ran = emulated.run(
            &format!("{likelihood} --out cuda.npy --force --device cuda"),
            &[("QCS_EMU_SM", architecture)],
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let error = error(&read("l.npy"), &read("cuda.npy"));
        assert!(error < 1e-6, "sm_{architecture} likelihood: {error:e}");
    }
}
