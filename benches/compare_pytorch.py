"""Compares qcs with PyTorch on this machine: both sides alternate in one run, medians over the rounds.

    python benches/compare_pytorch.py [priors] [turbo] [forward] [reconstruction] [memory] [--rounds 3] [--write]

Without a name all parts run but `turbo`, which wants the references of the method: `--references FOLDER`. `--write` also puts the table of each part into benches/results. Needs PyTorch
(weights/training/requirements.txt). Both sides have 2 threads. PyTorch runs in inference mode, in the better of its two memory
layouts, and EP in the faster of float64 and float32.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from itertools import product
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file

from pytorch_sampler import LAYOUTS, NCSNv2

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "weights" / "training"))

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"mnist": (1, 28), "cifar10": (3, 32), "celeba": (3, 64)}
THREADS = 2


def built(name, *target):
    """The program of a cargo target of this name, built if need be; cargo may build others on the way."""
    command = ["cargo", *target, "--message-format=json"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.splitlines()
    return next(m["executable"] for m in map(json.loads, lines) if m.get("executable") and m["target"]["name"] == name)


def run(command):
    """What a program prints as JSON, and the most memory it ever held, in MB."""
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} failed: {process.returncode}")
    return json.loads(output), usage.ru_maxrss * 1024 / 1e6


def network(preset, ngf):
    channels, _ = SIZES[preset]
    return NCSNv2(channels, ngf, torch.linspace(50, 0.01, 10)).eval()


# --- the shipped U-Nets -------------------------------------------------------------------------------------------------

PRIORS = [("mnist-unet", 8), ("mnist-unet", 1), ("cifar10-unet", 8), ("cifar10-unet", 1), ("photo", 1)]


def pytorch_prior(net, x, bf16, repetitions):
    """Milliseconds of an evaluation, with the U-Net's passes fused as in training."""
    sigma = torch.full((len(x),), 0.3)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        net.noise(x, sigma)
        start = time.perf_counter()
        for _ in range(repetitions):
            net.noise(x, sigma)
    return 1e3 * (time.perf_counter() - start) / repetitions


def priors(say, rounds):
    """Both sides in f32 and in bf16, PyTorch in the better of its layouts for each."""
    import prior as trained

    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)
    bench = built("step", "bench", "--bench", "step", "--no-run")
    say("| prior | image | batch | PyTorch f32 ms | qcs f32 ms | ratio | PyTorch bf16 ms | qcs bf16 ms | ratio | PyTorch's best / ours |\n"
        + 10 * "|---" + "|")
    for name, batch in PRIORS:
        weights = ROOT / "weights" / f"{name}.safetensors"
        net, metadata = trained.load(weights)
        channels, size = int(metadata["channels"]), int(metadata["image_size"])
        repetitions = 2 if size > 64 else 20
        theirs, ours = {}, {}
        for _ in range(rounds):
            for bf16 in (False, True):
                for layout in LAYOUTS.values():
                    x = torch.rand(batch, channels, size, size).to(memory_format=layout)
                    milliseconds = pytorch_prior(net.to(memory_format=layout), x, bf16, repetitions)
                    theirs.setdefault((bf16, layout), []).append(milliseconds)
                flags = ["--bf16"] if bf16 else []
                report, _ = run([bench, weights, 0, batch, 50, repetitions, "--json", *flags])
                ours.setdefault(bf16, []).append(report["network_ms"])
        best = {bf16: min(statistics.median(v) for (b, _), v in theirs.items() if b == bf16) for bf16 in (False, True)}
        mine = {bf16: statistics.median(v) for bf16, v in ours.items()}
        cells = [f"{best[b]:.1f} | {mine[b]:.1f} | {best[b] / mine[b]:.2f}" for b in (False, True)]
        say(f"| {name} | {channels}×{size}×{size} | {batch} | {' | '.join(cells)} | {min(best.values()) / min(mine.values()):.2f} |")


# --- turbo, from end to end ---------------------------------------------------------------------------------------------

TURBO = [("ten digits, 1 bit, M = 400", "mnist-unet", "demo-digits.idx3-ubyte",
          ["--matrix", "ill-conditioned", "--kappa", "1000", "-m", "400", "--sigma", "0.05", "--bits", "1"]),
         ("a photograph of 256×256, Hadamard, 2 bits, half as many measurements", "photo", "demo-photo.png",
          ["--matrix", "hadamard", "-m", "50%", "--sigma", "0.02", "--bits", "2"])]


def turbo(say, rounds, references):
    """Both sides alternate, PyTorch in f32 and in bf16; neither loads nor factorises in the time, qcs packs its weights in it."""
    qcs, program = built("qcs", "build", "--release"), Path(__file__).with_name("pytorch_turbo.py")
    say("| problem | PyTorch s | PyTorch, bf16 s | qcs s | ratio to the better | PyTorch dB | qcs dB | evaluations, PyTorch | qcs |\n" + 9 * "|---" + "|")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, prior, images, flags in TURBO:
            problem, weights = folder / "problem.safetensors", ROOT / "weights" / f"{prior}.safetensors"
            subprocess.run([qcs, "--quiet", "measure", ROOT / "weights" / images, "-o", problem, "--force", *flags], check=True)
            theirs, ours = {False: [], True: []}, []
            for _ in range(rounds):
                for bf16, found in theirs.items():
                    found.append(run([sys.executable, program, problem, weights, references, *(["--bf16"] if bf16 else [])])[0])
                report, _ = run([qcs, "--quiet", "--threads", THREADS, "run", problem, "--model", weights, "--method", "turbo",
                                 "--out", folder / "run", "--force", "--json"])
                ours.append(report["methods"][0])
            seconds = {bf16: statistics.median(f["seconds"] for f in found) for bf16, found in theirs.items()}
            mine = statistics.median(m["seconds"] for m in ours)
            theirs = theirs[False][0]
            say(f"| {name} | {seconds[False]:.2f} | {seconds[True]:.2f} | {mine:.2f} | {min(seconds.values()) / mine:.2f} | "
                f"{statistics.mean(theirs['psnr']):.2f} | {ours[0]['psnr']['mean']:.2f} | "
                f"{statistics.mean(theirs['evaluations']):.1f} | {ours[0]['evaluations']['mean']:.1f} |")


# --- the network's forward pass -----------------------------------------------------------------------------------------

FORWARD = [("mnist", 128, 8), ("mnist", 128, 1), ("cifar10", 128, 8), ("cifar10", 128, 1), ("celeba", 128, 8),
           ("celeba", 128, 1), ("mnist", 24, 8), ("mnist", 24, 1)]


def pytorch_forward(net, x, repetitions):
    """Milliseconds of a forward pass."""
    sigma = torch.ones(x.shape[0])
    with torch.inference_mode():
        net(x, sigma)
        start = time.perf_counter()
        for _ in range(repetitions):
            net(x, sigma)
    return 1e3 * (time.perf_counter() - start) / repetitions


def qcs_forward(bench, preset, ngf, batch, repetitions):
    """Milliseconds of the network within a Langevin step; few measurements, as the likelihood is not compared here."""
    report, _ = run([bench, preset, ngf, batch, 50, repetitions, "--json"])
    return report["network_ms"]


def forward(say, rounds):
    """Both sides with random weights: the time does not depend on them."""
    torch.set_num_threads(THREADS)
    bench = built("step", "bench", "--bench", "step", "--no-run")
    say("| network | ngf | batch | PyTorch ms | qcs ms | ratio |\n|---|---|---|---|---|---|")
    for preset, ngf, batch in FORWARD:
        channels, size = SIZES[preset]
        net = network(preset, ngf)
        repetitions = 20 if ngf < 128 else 1 if preset == "celeba" and batch > 1 else 3
        theirs, ours = {}, []
        for _ in range(rounds):
            for layout in LAYOUTS.values():
                x = torch.rand(batch, channels, size, size).to(memory_format=layout)
                theirs.setdefault(layout, []).append(pytorch_forward(net.to(memory_format=layout), x, repetitions))
            ours.append(qcs_forward(bench, preset, ngf, batch, repetitions))
        best, mine = min(map(statistics.median, theirs.values())), statistics.median(ours)
        say(f"| {preset} | {ngf} | {batch} | {best:.1f} | {mine:.1f} | {best / mine:.2f} |")


# --- whole reconstructions ----------------------------------------------------------------------------------------------

def files(folder, qcs, preset, ngf, images):
    """A problem file with the preset's number of measurements, and a weights file; ngf of None is that in weights/."""
    problem, weights = folder / f"{preset}.problem.safetensors", folder / f"{preset}.safetensors"
    channels, size = SIZES[preset]
    if ngf is None:
        weights, source = ROOT / "weights" / "mnist.safetensors", ROOT / "weights" / "demo-digits.idx3-ubyte"
    else:
        save_file(network(preset, ngf).state_dict(), weights, {"image_size": str(size)})
        source = folder / "images.npy"
        numpy.save(source, numpy.random.default_rng(0).random((images, channels, size, size), numpy.float32))
    subprocess.run([qcs, "--quiet", "measure", source, "-o", problem, "--preset", preset, "--count", str(images),
                    "--matrix", "ill-conditioned", "--kappa", "1000", "--sigma", "0.05", "--bits", "1"], check=True)
    return problem, weights


def qcs_reconstruction(qcs, folder, problem, weights, images, flags):
    """Seconds, mean PSNR, MB."""
    report, memory = run([qcs, "--threads", THREADS, "run", problem, "--model", weights, "--out", folder / "run", "--force",
                          "--json", "--batch", images, *flags])
    [method] = report["methods"]
    return method["seconds"], method["psnr"]["mean"], memory


def pytorch_reconstruction(problem, weights, layout, ep, flags):
    """Seconds, mean PSNR, MB."""
    sampler = Path(__file__).with_name("pytorch_sampler.py")
    report, memory = run([sys.executable, sampler, problem, weights, "--threads", THREADS, "--layout", layout, "--ep", ep,
                          *flags])
    return report["seconds"], statistics.mean(report["psnr"]), memory


def sampler_flags(sigma_begin, levels, steps_per_level):
    return ["--sigma-begin", sigma_begin, "--sigma-end", 0.01, "--levels", levels, "--steps-per-level", steps_per_level,
            "--step-scale", 1.5, "--momentum", 0, "--xi", 0.5, "--ep-iters", 5]


RECONSTRUCTIONS = [("cifar10", 128, 8, sampler_flags(50, 20, 1)), ("mnist", None, 10, sampler_flags(10, 60, 3))]


def reconstruction(say, rounds):
    """PyTorch's layout and precision are the fastest of a first round; then both sides alternate."""
    qcs = built("qcs", "build", "--release")
    say("| problem | batch | T·K | PyTorch's choice | PyTorch s | qcs s | ratio | PyTorch dB | qcs dB |\n" + 9 * "|---" + "|")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for preset, ngf, images, flags in RECONSTRUCTIONS:
            problem, weights = files(folder, qcs, preset, ngf, images)
            choices = list(product(LAYOUTS, ("float64", "float32")))
            first = {c: pytorch_reconstruction(problem, weights, *c, flags)[0] for c in choices}
            choice = min(choices, key=first.get)
            theirs, ours = [], []
            for _ in range(rounds):
                theirs.append(pytorch_reconstruction(problem, weights, *choice, flags))
                ours.append(qcs_reconstruction(qcs, folder, problem, weights, images, flags))
            (t, t_psnr, _), (o, o_psnr, _) = (map(statistics.median, zip(*side)) for side in (theirs, ours))
            name = f"{preset}, ngf {ngf}" if ngf else "mnist, weights/mnist.safetensors"
            steps = f"{flags[5]}·{flags[7]}"
            say(f"| {name} | {images} | {steps} | {', '.join(choice)} | {t:.2f} | {o:.2f} | {t / o:.2f} | {t_psnr:.1f} | "
                f"{o_psnr:.1f} |")


# --- memory -------------------------------------------------------------------------------------------------------------

def memory(say, _):
    """The most memory of a whole process that reconstructs eight CelebA-sized images, M = 4000."""
    qcs = built("qcs", "build", "--release")
    flags = sampler_flags(50, 2, 1)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        problem, weights = files(folder, qcs, "celeba", 128, 8)
        *_, ours = qcs_reconstruction(qcs, folder, problem, weights, 8, flags)
        theirs = {c: pytorch_reconstruction(problem, weights, *c, flags)[2] for c in product(LAYOUTS, ("float64", "float32"))}
    choice = min(theirs, key=theirs.get)
    say(f"| peak memory, celeba, ngf 128, batch 8 | MB |\n|---|---|\n| PyTorch, {', '.join(choice)} | {theirs[choice]:.0f} |\n"
        f"| qcs | {ours:.0f} |")


def processor():
    """The machine's processor and the widest vectors it has."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    flags = next(line for line in lines if line.startswith("flags")).split()
    return f"{model}, {'AVX-512' if 'avx512f' in flags else 'AVX2' if 'avx2' in flags else 'no AVX2'}"


def main():
    parts = {"priors": priors, "forward": forward, "reconstruction": reconstruction, "memory": memory, "turbo": turbo}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the tables into benches/results")
    parser.add_argument("--references", type=Path, help="folder with the references of turbo and of operators")
    args = parser.parse_args()
    chosen = args.parts or [name for name in parts if name != "turbo" or args.references]
    if "turbo" in chosen and not args.references:
        parser.error("turbo wants --references FOLDER")
    for name in chosen:
        lines = []

        def say(line):
            lines.append(line)
            print(line, flush=True)

        say(f"`python benches/compare_pytorch.py {name} --rounds {args.rounds} --write`, {date.today()}: PyTorch {torch.__version__}, "
            f"{THREADS} threads, {processor()}\n")
        parts[name](say, args.rounds, *([args.references] if name == "turbo" else []))
        if args.write:
            Path(__file__).with_name("results").joinpath(f"pytorch_{name}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
