//! cuBLAS and cuSOLVER where they load, and what happens where they do not.

use qcs::ImageShape;
use qcs::files::npy;
use qcs::problem::{Ensemble, Spectrum};
use qcs_emulator::stand_in::Library::{self, Blas, Driver, Solver};
use serde_json::Value;

use crate::emulated::Emulated;

/// So many pixels that M can be large enough for cuBLAS.
const IMAGE: ImageShape = ImageShape::new(3, 16, 16);
const LARGE: usize = 520;

/// Two images, their measurements by a Gaussian A, whose spectrum the problem file does not tell, and states `x.npy`.
fn place(libraries: &[Library]) -> Emulated {
    let emulated = Emulated::with(libraries);
    let pixel = |i: usize| 0.5 + 0.5 * ((i * i % 97) as f32 / 15.0).sin();
    let pixels: Vec<f32> = (0..2 * IMAGE.len()).map(pixel).collect();
    npy::write(emulated.place.path("two.npy"), &[2, 3, 16, 16], &pixels).unwrap();
    emulated.place.succeeds(&format!(
        "measure two.npy -o p.safetensors -m {LARGE} --bits 2 --step 0.5 --seed 3"
    ));
    let state = |i: usize| ((i * 31 % 101) as f32 - 50.0) / 60.0;
    let states: Vec<f32> = (0..2 * IMAGE.len()).map(state).collect();
    npy::write(emulated.place.path("x.npy"), &[2, IMAGE.len()], &states).unwrap();
    emulated
}

/// The scores of `x.npy`, and what was said.
fn scores(emulated: &Emulated, flags: &str) -> (Vec<f32>, String) {
    let ran = emulated.succeeds(&format!(
        "likelihood --problem p.safetensors --x x.npy --beta 0.4 --out g.npy --force {flags}"
    ));
    let scores = npy::read(emulated.place.path("g.npy")).unwrap();
    (scores.to_f32().into_owned(), ran.stderr)
}

/// The largest difference, relative to the largest value.
fn difference(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    assert!(one.iter().chain(other).all(|value| value.is_finite()));
    let largest = one.iter().fold(0f32, |most, value| most.max(value.abs()));
    let error = one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    error / largest
}

/// Calls of a library function, and the times its work ran.
fn uses(stats: &Value, function: &str) -> (u64, u64) {
    let libraries = stats["libraries"].as_array().unwrap();
    let found = libraries.iter().find(|entry| entry["function"] == function);
    found.map_or((0, 0), |entry| {
        (entry["calls"].as_u64().unwrap(), entry["runs"].as_u64().unwrap())
    })
}

#[test]
fn a_likelihood_score_is_the_cpus_with_and_without_the_libraries() {
    let emulated = place(&[Driver, Blas, Solver]);
    let (cpu, _) = scores(&emulated, "--device cpu");
    let agrees = |other: &[f32], how: &str| {
        let error = difference(&cpu, other);
        println!("{how}: {error:.1e}");
        assert!(error < 1e-6, "{how}: {error:e}");
    };

    let (both, said) = scores(&emulated, "--device cuda");
    agrees(&both, "with both libraries");
    assert!(said.contains("A·Aᵀ factorised by cuSOLVER in "), "{said}");
    assert!(said.contains("products with U by cuBLAS 12.8.0"), "{said}");
    let stats = emulated.stats();
    // A trial, A·Aᵀ, U and its transpose to load their kernels, and in each of five iterations.
    assert_eq!(uses(&stats, "cublasDgemm_v2"), (14, 14));
    assert_eq!(uses(&stats, "cusolverDnDsyevd"), (1, 1));
    assert_eq!(uses(&stats, "cusolverDnDgesvd"), (0, 0));

    let (own, said) = scores(&emulated, "--device cuda --no-cublas");
    agrees(&own, "with our own products");
    assert!(said.contains("cuSOLVER") && !said.contains("products"), "{said}");
    assert_eq!(uses(&emulated.stats(), "cublasDgemm_v2"), (2, 2), "the trial and A·Aᵀ");

    emulated.link(&[Driver, Blas]);
    let (products, said) = scores(&emulated, "--device cuda");
    agrees(&products, "with cuBLAS only");
    let missing = "A·Aᵀ is factorised on the host: libcusolver was not found or does not load";
    assert!(said.contains(missing) && said.contains("by cuBLAS"), "{said}");

    emulated.link(&[Driver]);
    let (neither, said) = scores(&emulated, "--device cuda");
    agrees(&neither, "without libraries");
    for missing in [
        "A·Aᵀ is factorised on the host: libcublas was not found or does not load",
        "products with U by our own kernel: libcublas was not found or does not load",
    ] {
        assert!(said.contains(missing), "{said}");
    }
}

#[test]
fn a_singular_value_that_squaring_would_lose_goes_through_the_decomposition_of_a_itself() {
    let emulated = place(&[Driver, Blas, Solver]);
    // A = U·S·Vᵀ with singular values from 1 to 1e-7.
    let (m, n) = (24, IMAGE.len());
    let orthogonal = |size: usize, seed| {
        let gaussian = Ensemble::Gaussian.build(size, size, seed).unwrap().0;
        Spectrum::of(&gaussian).unwrap().u.unwrap()
    };
    let (u, v) = (orthogonal(m, 1), orthogonal(n, 2));
    let singular = |k: usize| 1e-7f64.powf(k as f64 / (m - 1) as f64);
    let entry = |at: usize| {
        let (row, column) = (at / n, at % n);
        (0..m).map(|k| u[row * m + k] * singular(k) * v[k * n + column]).sum()
    };
    let a: Vec<f64> = (0..m * n).map(entry).collect();
    npy::write(emulated.place.path("a.npy"), &[m, n], &a).unwrap();
    emulated
        .place
        .succeeds("measure two.npy -o p.safetensors --force --matrix a.npy --bits 3 --step 0.2 --sigma 1e-3 --seed 3");
    let (cpu, _) = scores(&emulated, "--device cpu");
    let (cuda, said) = scores(&emulated, "--device cuda");
    let error = difference(&cpu, &cuda);
    println!("by the singular values: {error:.1e}");
    assert!(error < 1e-6, "{error:e}");
    assert!(
        said.contains("A, ill-conditioned or of deficient rank, factorised by cuSOLVER in "),
        "{said}"
    );
    let stats = emulated.stats();
    assert_eq!(uses(&stats, "cusolverDnDsyevd"), (1, 1), "first the faster way");
    assert_eq!(uses(&stats, "cusolverDnDgesvd"), (1, 1));
    assert_eq!(uses(&stats, "cublasDgemm_v2"), (2, 2), "24 rows are few");
}

#[test]
fn more_measurements_than_pixels_are_no_reason_for_the_slow_decomposition() {
    let emulated = Emulated::with(&[Driver, Blas, Solver]);
    let image: Vec<f32> = (0..2 * 64).map(|i| (i * 7 % 13) as f32 / 13.0).collect();
    npy::write(emulated.place.path("two.npy"), &[2, 1, 8, 8], &image).unwrap();
    npy::write(emulated.place.path("x.npy"), &[2, 64], &image).unwrap();
    emulated
        .place
        .succeeds("measure two.npy -o p.safetensors -m 90 --bits 3 --step 0.2 --seed 3");
    let (cpu, _) = scores(&emulated, "--device cpu");
    let (cuda, said) = scores(&emulated, "--device cuda");
    assert!(difference(&cpu, &cuda) < 1e-6, "{:e}", difference(&cpu, &cuda));
    assert!(said.contains("A·Aᵀ factorised by cuSOLVER in "), "{said}");
    assert_eq!(uses(&emulated.stats(), "cusolverDnDgesvd"), (0, 0));
}

#[test]
fn libraries_of_cuda_11_to_13_are_found_by_their_names() {
    let emulated = place(&[Driver, Blas, Solver]);
    for (blas, solver) in [("11", "11"), ("12", "11"), ("13", "12")] {
        emulated.link(&[Driver]);
        // As an installation without the toolkit has them: by their versions only.
        for (library, version) in [("cublas", blas), ("cusolver", solver)] {
            let entry = emulated.place.path(&format!("lib/lib{library}.so.{version}"));
            std::fs::remove_file(&entry).unwrap();
            std::os::unix::fs::symlink(qcs_emulator::stand_in::shared_library().unwrap(), entry).unwrap();
        }
        let (_, said) = scores(&emulated, "--device cuda");
        assert!(
            said.contains("factorised by cuSOLVER") && said.contains("by cuBLAS"),
            "{blas}: {said}"
        );
    }
}

#[test]
fn a_cublas_without_kernels_for_the_gpu_is_not_used() {
    let emulated = place(&[Driver, Blas, Solver]);
    let line = "likelihood --problem p.safetensors --x x.npy --beta 0.4 --out g.npy --device cuda";
    let ran = emulated.run(line, &[("QCS_EMU_FAIL_GEMM", "1")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let reason = "cuBLAS 12.8.0 is of no use here: cuBLAS cannot multiply by A: CUBLAS_STATUS_ARCH_MISMATCH";
    for part in [
        "products with U by our own kernel: ",
        "A·Aᵀ is factorised on the host: ",
    ] {
        assert!(ran.stderr.contains(&format!("{part}{reason}")), "{}", ran.stderr);
    }
}

#[test]
fn the_memory_that_cublas_takes_counts_before_a_batch_is_chosen() {
    let emulated = place(&[Driver, Blas, Solver]);
    emulated.place.model("rgb.safetensors", IMAGE, |_, metadata| {
        metadata.insert("num_classes".into(), "2".into());
    });
    let run = "run p.safetensors --model rgb.safetensors --steps-per-level 1 --step-scale 0.3 --ep-iters 1 --precision fp32 \
               --chains 2 --device cuda";
    let library = 64 << 20;
    let auto = |memory: u64, out: &str| {
        let environment = [
            ("QCS_EMU_MEMORY", memory.to_string()),
            ("QCS_EMU_BLAS_BYTES", library.to_string()),
        ];
        let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
        emulated.run(&format!("{run} --batch auto --out {out}"), &environment)
    };
    let fits = |memory: u64, out: &str| {
        let ran = auto(memory, out);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let config = emulated.place.text(&format!("{out}/config.toml"));
        assert!(config.contains("\nbatch = 4\n"), "{config}");
    };
    fits(16 << 30, "roomy");
    let taken = emulated.stats()["peak_bytes"].as_u64().unwrap() - library;
    // What is kept free: a twentieth and 256 MiB.
    let whole = (taken + (256 << 20)) * 20 / 19 + 1;
    fits(whole + library, "enough");
    auto(whole, "less").refuses(run, 5, &["one state needs"]);
}

#[test]
fn a_run_multiplies_by_cublas_inside_of_its_graph_on_every_gpu() {
    let emulated = place(&[Driver, Blas, Solver]);
    emulated.place.model("rgb.safetensors", IMAGE, |_, metadata| {
        metadata.insert("num_classes".into(), "2".into());
    });
    let run = |flags: &str, out: &str| {
        let line = format!(
            "run p.safetensors --model rgb.safetensors --steps-per-level 1 --step-scale 0.3 --ep-iters 2 --precision fp32 \
             --out {out} {flags}"
        );
        let ran = emulated.run(&line, &[("QCS_EMU_DEVICES", "2")]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            !ran.stderr.contains("qcs-emulator"),
            "nothing is refused: {}",
            ran.stderr
        );
        let samples = npy::read(emulated.place.path(&format!("{out}/ep/samples.npy"))).unwrap();
        (samples.to_f32().into_owned(), ran.stderr)
    };
    let (several, said) = run("--device cuda:0,1", "several");
    assert!(said.contains("products with U by cuBLAS 12.8.0"), "{said}");
    let stats = emulated.stats();
    let graphs = stats["graph_launches"].as_u64().unwrap();
    assert_eq!(graphs, 2 * 2, "two levels on two GPUs");
    // A·Aᵀ at once; on each GPU a trial, and U and its transpose once to load their kernels; in two iterations they are
    // captured, and run with every launch.
    assert_eq!(
        uses(&stats, "cublasDgemm_v2"),
        (1 + 2 * (3 + 4), 1 + 2 * 3 + graphs * 4)
    );
    assert_eq!(uses(&stats, "cublasCreate_v2").0, 2);
    assert_eq!(uses(&stats, "cublasDestroy_v2").0, 2, "each in its own context");

    let (own, _) = run("--device cuda:0 --no-cublas", "own");
    assert_eq!(uses(&emulated.stats(), "cublasDgemm_v2"), (2, 2));
    let error = difference(&own, &several);
    println!("cuBLAS and our kernel: {error:.1e}");
    assert!(error < 1e-3, "{error:e}");

    // The trial and A·Aᵀ succeed, what the session would capture does not: it goes on without.
    let line = "run p.safetensors --model rgb.safetensors --steps-per-level 1 --step-scale 0.3 --ep-iters 2 --precision fp32 \
                --out fallen --device cuda:0";
    let ran = emulated.run(line, &[("QCS_EMU_FAIL_GEMM", "3")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let note = "products with U by our own kernel: cuBLAS cannot multiply by";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    let fallen = npy::read(emulated.place.path("fallen/ep/samples.npy")).unwrap();
    assert_eq!(difference(&own, &fallen.to_f32()), 0.0, "as if there were no cuBLAS");
}

#[test]
fn bench_compares_our_product_with_cublas() {
    let emulated = Emulated::with(&[Driver, Blas, Solver]);
    let line = "bench products --preset mnist --ngf 4 --batch 2 -m 40 -r 2 --warm-up 1 --json --quiet --device";
    let names = |flags: &str| {
        let ran = emulated.succeeds(&format!("{line} {flags}"));
        let rows = ran.stdout.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        let name = |row: Value| {
            assert!(
                row["gflops"].as_f64().unwrap() > 0.0 && row["measurements"] == 40,
                "{row}"
            );
            row["name"].as_str().unwrap().to_owned()
        };
        rows.map(name).collect::<Vec<_>>()
    };
    assert_eq!(names("cuda"), ["products", "products_cublas"]);
    // The trial; one to load the kernel, and the captured one, three times.
    assert_eq!(uses(&emulated.stats(), "cublasDgemm_v2"), (3, 5));
    assert_eq!(names("cuda --no-cublas"), ["products"]);
    assert_eq!(names("cpu"), ["products"]);
    emulated.link(&[Driver]);
    assert_eq!(names("cuda"), ["products"]);
}
