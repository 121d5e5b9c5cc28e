//! Arguments that make no sense: exit code 2 (5 for a device), and a line that names the flag or what it is about.

use crate::support::Place;

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    let place = Place::with_problem();
    place.model("other.safetensors", qcs::ImageShape::new(1, 12, 12), |_, _| {});
    let measure = [
        ("--sigma -1", "sigma is -1"),
        ("--sigma nan", "sigma is NaN"),
        ("--bits 0", "1 to 8 bits"),
        ("--bits 9", "1 to 8 bits"),
        ("--bits 300", "--bits"),
        ("--bits 2 --step 0", "step is 0"),
        ("--bits 2 --step -1", "step is -1"),
        ("--bits 2", "--step"),
        ("--bits 1 --step 0.5", "1-bit quantiser has no step"),
        ("--matrix ill-conditioned", "--kappa"),
        ("--matrix ill-conditioned --kappa 0.5", "kappa"),
        ("--matrix correlated", "--rho"),
        ("--matrix correlated --rho 1", "rho"),
        ("--matrix correlated --rho -0.2", "rho"),
        ("--kappa 10", "--kappa belongs to"),
        ("--rho 0.5", "--rho belongs to"),
        ("--matrix row-orthogonal -m 65", "65"),
        ("--matrix nonsense", "neither a file nor one of gaussian"),
        ("-m 0", "0 by 64"),
        ("-m fifty%", "400 or 50%"),
        ("-m 0%", "above 0 %"),
        ("--matrix separable --kappa 3 --rho 0.5", "exclude each other"),
        ("--matrix hadamard --kappa 3", "--kappa belongs to"),
        ("--matrix hadamard -m 65", "65 measurements of 64 pixels"),
        ("--matrix separable -m 11", "take 9"),
        ("--matrix blur", "blur:PIXELS"),
        ("--matrix blur:0", "above 0"),
        ("--matrix blur:1 -m 5", "a blur measures every pixel"),
        ("--matrix shrink:3", "the one must divide the other"),
        ("--matrix shrink:0", "the one must divide the other"),
        ("--matrix blocks:3", "the side must divide both"),
        ("--matrix blocks:4 -m 3", "4 blocks"),
        ("--bits 2 --step 1 --dither", "dither is for 1 bit"),
        ("-m 99999999999999", "these need none: hadamard"),
        ("--first 2 --count 2", "holds 3 images"),
        ("--count 0", "holds 3 images"),
        ("--preset imagenet", "mnist, cifar10, celeba"),
        ("--seed -1", "--seed"),
        ("--seed 9223372036854775808", "--seed"),
        ("--threads 100000", "--threads"),
        ("--frobnicate", "--frobnicate"),
    ];
    for (flags, says) in measure {
        let size = if flags.contains("-m ") { "" } else { "-m 16" };
        let line = format!("measure images.npy -o p.safetensors {size} {flags}");
        place.run(&line).refuses(&line, 2, &[says]);
        assert!(!place.path("p.safetensors").exists(), "{line} wrote a file");
    }

    let run = [
        ("--chains 0", "--chains must be at least 1"),
        ("--chains -2", "invalid value '-2' for '--chains"),
        ("--chains 16777216", "--chains"),
        ("--batch 0", "--batch must be at least 1"),
        ("--count 0", "--count must be at least 1"),
        ("--count 4", "4 images asked for, but the problem holds 3"),
        ("--levels 1", "--levels must be at least 2"),
        ("--levels 99999999", "--levels"),
        ("--sigma-begin 0.01", "sigma-begin > sigma-end"),
        ("--sigma-end -1", "sigma-begin > sigma-end"),
        ("--steps-per-level 0", "--steps-per-level"),
        ("--step-scale -1", "--step-scale"),
        ("--step-scale nan", "--step-scale"),
        ("--momentum 1", "--momentum must be at least 0 and below 1"),
        ("--momentum=-0.1", "--momentum"),
        ("--epsilon 0", "--epsilon"),
        ("--epsilon 1 --step-scale 1", "--epsilon"),
        ("--xi 0", "--xi"),
        ("--gamma -3", "--gamma"),
        ("--xi 1 --gamma 1", "--gamma"),
        ("--ep-iters 0", "--ep-iters"),
        ("--method map", "--method"),
        ("--bits 2", "--bits is about measuring images"),
        ("--preset imagenet", "unknown preset"),
        ("--shape 1,8", "C,H,W"),
    ];
    for (flags, says) in run {
        let model = if flags.contains("--model") {
            ""
        } else {
            "--model model.safetensors"
        };
        let line = format!("run problem.safetensors {model} --out run {flags}");
        place.run(&line).refuses(&line, 2, &[says]);
        assert!(!place.path("run").exists(), "{line} made a folder");
    }

    let others = [
        ("run --out run", "what should be reconstructed?"),
        ("run --resume --out run", "no run to resume"),
        ("run problem.safetensors", "--out"),
        (
            "score --x images.npy --beta 0 --model model.safetensors --out s.npy",
            "noise level",
        ),
        (
            "score --x images.npy --beta -1 --model model.safetensors --out s.npy",
            "noise level",
        ),
        (
            "likelihood --problem problem.safetensors --x images.npy --beta inf --out g.npy",
            "noise level",
        ),
        (
            "likelihood --problem problem.safetensors --x images.npy --beta 1 --method both --out g.npy",
            "both",
        ),
        (
            "likelihood --problem problem.safetensors --x images.npy --beta 1 --ep-iters 0 --out g.npy",
            "--ep-iters",
        ),
        ("sample --count 0 -o sheet.png --model model.safetensors", "--count"),
        ("eval images.npy", "--truth"),
        ("demo --out run --count 11", "holds 10 images"),
        ("completions tcsh", "tcsh"),
        ("", "Usage"),
        ("nonsense", "nonsense"),
    ];
    for (line, says) in others {
        let ran = place.run(line);
        assert_eq!(ran.code, Some(2), "qcs {line}\n{}", ran.stderr);
        assert!(
            ran.stderr.contains(says),
            "qcs {line} does not say {says:?}:\n{}",
            ran.stderr
        );
    }
}

#[test]
fn a_device_that_is_not_there_is_exit_code_5_and_one_that_cannot_be_is_2() {
    let place = Place::with_problem();
    for (device, code, says) in [
        ("cuda", 5, "driver"),
        ("metal", 2, "--device metal"),
        ("cuda:x", 2, "--device cuda:x"),
    ] {
        for command in [
            "run problem.safetensors --model model.safetensors --out run",
            "info",
            "demo --out run",
        ] {
            let line = format!("{command} --device {device}");
            place.run(&line).refuses(&line, code, &[says, "cpu"]);
        }
    }
    let line = "info --precision fp8";
    place.run(line).refuses(line, 2, &["fp8", "fp16"]);
    place.succeeds("info --model model.safetensors --device cpu");
}
