"""Compares qcs with PyTorch on published networks of their real size, with random weights: the time does not depend on them.

    python benches/compare_published.py [ddpm-cifar10-32] [edm-ffhq-64] [ffhq_10m] [--rounds 3] [--batches 8,1] [--repetitions 3]
        [--loaded] [--folder F]

Without a name all three are run, ffhq_10m with batches 2 and 1. Both sides have 2 threads and alternate, each in a process of its own, whose
peak memory is what the system says; medians over the rounds. PyTorch runs in inference mode, in the better of its two memory layouts.
diffusers' `UNet2DModel` is its own code, the other two are the functions of torch that make the goldens (tests/goldens/make_published.py).
`--loaded` is for a machine that others use too: one thread each, and seconds of the processor in the place of the clock's, ours as the
difference of two runs that differ in their repetitions. `--folder` keeps the networks' files. Needs PyTorch and diffusers.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from compare_pytorch import ROOT, THREADS, built, run

sys.path.insert(0, str(ROOT / "tests" / "goldens"))
import make_published as families  # noqa: E402

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
CIFAR10 = dict(sample_size=32, in_channels=3, out_channels=3, block_out_channels=(128, 256, 256, 256), layers_per_block=2,
               down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"),
               up_block_types=("UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"), attention_head_dim=None, norm_eps=1e-6,
               flip_sin_to_cos=False, freq_shift=1, downsample_padding=0)
SIZES = {"ddpm-cifar10-32": 32, "edm-ffhq-64": 64, "ffhq_10m": 256}


def described(name):
    """The functions of torch of a network, without weights; what they are called on to learn the shapes should take no memory."""
    if name == "edm-ffhq-64":
        return families.Edm(3, 64, 128, (1, 2, 2, 2), 4, {2}, False, 0, shapes_only=True)
    return families.Adm(3, 128, (1, 1, 2, 2, 4, 4), 1, {4}, 0, shapes_only=True)


def write(name, folder):
    """The published file or folder of a network."""
    path = folder / name
    if name == "ddpm-cifar10-32":
        import diffusers
        diffusers.UNet2DModel(**CIFAR10).save_pretrained(path)
        diffusers.DDPMScheduler().save_pretrained(path)
        return path
    path = path.with_suffix(".pt")
    with torch.device("meta"):
        shapes = described(name).shapes
    torch.manual_seed(0)
    torch.save({k: torch.randn(s) / max(1, torch.Size(s[1:]).numel()) ** 0.5 for k, s in shapes.items()}, path)
    return path


def opened(name, path, layout):
    """A function of a batch of images."""
    if name == "ddpm-cifar10-32":
        import diffusers
        net = diffusers.UNet2DModel.from_pretrained(path).eval().to(memory_format=layout)
        return lambda x: net(x, torch.tensor(10.0)).sample
    with torch.device("meta"):
        net = described(name)
    precise = families.embedding
    families.embedding = lambda *told: precise(*told).float()
    net.weights = {k: v.to(memory_format=layout) if v.dim() == 4 else v for k, v in torch.load(path).items()}
    return lambda x: net.forward(x, torch.tensor(10.0))


def child(name, path, layout, batch, repetitions, is_loaded):
    """Milliseconds of a forward pass, printed."""
    torch.set_num_threads(1 if is_loaded else THREADS)
    clock = time.process_time if is_loaded else time.perf_counter
    with torch.inference_mode():
        forward = opened(name, path, LAYOUTS[layout])
        x = torch.rand(batch, 3, SIZES[name], SIZES[name]).to(memory_format=LAYOUTS[layout])
        forward(x)
        start = clock()
        for _ in range(repetitions):
            forward(x)
    print(json.dumps({"ms": 1e3 * (clock() - start) / repetitions}))


def qcs_forward(qcs, path, batch, repetitions, is_loaded):
    """Milliseconds of a forward pass, and the most memory in MB."""
    command = [qcs, "bench", "forward", "--model", path, "--batch", batch, "--json", "--threads", 1 if is_loaded else THREADS]
    if not is_loaded:
        report, memory = run([*command, "--repetitions", repetitions])
        return report["ms_mean"], memory
    seconds = []
    for count in (1, 1 + repetitions):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _, memory = run([*command, "--repetitions", count])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1e3 * (seconds[1] - seconds[0]) / repetitions, memory


def compare(name, path, qcs, batches, rounds, repetitions, is_loaded):
    for batch in batches:
        theirs, ours, memory = {layout: [] for layout in LAYOUTS}, [], {}
        for _ in range(rounds):
            for layout, times in theirs.items():
                command = [sys.executable, __file__, "--child", name, path, layout, batch, repetitions, int(is_loaded)]
                report, megabytes = run(command)
                times.append(report["ms"])
                memory[layout] = megabytes
            milliseconds, memory["qcs"] = qcs_forward(qcs, path, batch, repetitions, is_loaded)
            ours.append(milliseconds)
        layout = min(theirs, key=lambda layout: statistics.median(theirs[layout]))
        best, mine = statistics.median(theirs[layout]), statistics.median(ours)
        print(f"| {name} | {batch} | {best:.0f} | {mine:.0f} | {best / mine:.2f} | {memory[layout]:.0f} | {memory['qcs']:.0f} |", flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        name, path, layout, batch, repetitions, is_loaded = sys.argv[2:]
        return child(name, Path(path), layout, int(batch), int(repetitions), is_loaded == "1")
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *SIZES])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--batches")
    parser.add_argument("--loaded", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--qcs", help="a program that is built already")
    args = parser.parse_args()
    qcs = args.qcs or built("qcs", "build", "--release")
    print("| network | batch | PyTorch ms | qcs ms | ratio | PyTorch MB | qcs MB |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        for name in args.names or SIZES:
            usual = "2,1" if name == "ffhq_10m" else "8,1"
            batches = [int(batch) for batch in (args.batches or usual).split(",")]
            there = next(folder.glob(f"{name}*"), None)
            compare(name, there or write(name, folder), qcs, batches, args.rounds, args.repetitions, args.loaded)


if __name__ == "__main__":
    main()
