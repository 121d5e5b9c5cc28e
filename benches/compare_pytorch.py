"""Times the network's forward pass in PyTorch and in qcs, alternating, in one run.

    python benches/compare_pytorch.py [ROUNDS]

Needs PyTorch (weights/training/requirements.txt). PyTorch runs in inference mode with 2 threads, and the better of its two
memory layouts counts. Both sides use random weights: the time does not depend on them. Medians over the rounds.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "weights" / "training"))
from ncsnv2 import NCSNv2  # noqa: E402

SIZES = {"mnist": (1, 28), "cifar10": (3, 32), "celeba": (3, 64)}
CASES = [("mnist", 128, 8), ("mnist", 128, 1), ("cifar10", 128, 8), ("cifar10", 128, 1), ("celeba", 128, 1),
         ("mnist", 24, 8), ("mnist", 24, 1)]


def pytorch(net, x, repetitions):
    """Milliseconds of a forward pass."""
    sigma = torch.ones(x.shape[0])
    with torch.inference_mode():
        net(x, sigma)
        start = time.perf_counter()
        for _ in range(repetitions):
            net(x, sigma)
    return 1e3 * (time.perf_counter() - start) / repetitions


def qcs(bench, preset, ngf, batch, repetitions):
    """Milliseconds of the network within a Langevin step."""
    # Few measurements: the likelihood is not what is compared.
    command = [bench, preset, str(ngf), str(batch), "50", str(repetitions), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["network_ms"]


def built_bench():
    """The step benchmark's program, built if need be."""
    command = ["cargo", "bench", "--bench", "step", "--no-run", "--message-format=json"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.splitlines()
    messages = map(json.loads, lines)
    return next(m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "step")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    torch.set_num_threads(2)
    bench = built_bench()
    print(f"PyTorch {torch.__version__}, 2 threads\n\n| network | ngf | batch | PyTorch ms | qcs ms | ratio |\n|---|---|---|---|---|---|")
    for preset, ngf, batch in CASES:
        channels, size = SIZES[preset]
        net = NCSNv2(channels, ngf, torch.linspace(50, 0.01, 10)).eval()
        repetitions = 3 if ngf >= 128 else 20
        theirs, ours = {}, []
        for _ in range(rounds):
            for layout in (torch.contiguous_format, torch.channels_last):
                x = torch.rand(batch, channels, size, size).to(memory_format=layout)
                theirs.setdefault(layout, []).append(pytorch(net.to(memory_format=layout), x, repetitions))
            ours.append(qcs(bench, preset, ngf, batch, repetitions))
        best, mine = min(map(statistics.median, theirs.values())), statistics.median(ours)
        print(f"| {preset} | {ngf} | {batch} | {best:.1f} | {mine:.1f} | {best / mine:.2f} |", flush=True)


if __name__ == "__main__":
    main()
