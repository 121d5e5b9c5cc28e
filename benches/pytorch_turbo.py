"""Turbo in NumPy and PyTorch, for comparison: the float64 reference of the method with a shipped U-Net in f32.

    python benches/pytorch_turbo.py PROBLEM WEIGHTS REFERENCE_FOLDER [--bf16]

PROBLEM is what `qcs measure` writes, dense or Hadamard; REFERENCE_FOLDER holds the references of turbo and of operators (NumPy, SciPy).
Prints one JSON object: seconds without loading and without the decomposition of A, PSNR and evaluations of each image.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "weights" / "training"))
import prior as priors  # noqa: E402


def module(path):
    """A reference by its path: both are called reference.py."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def operator(tensors, metadata, folder, turbo):
    """A as the references want it: a matrix, or Walsh-Hadamard and DCT factors with signs and rows."""
    if "A" in tensors:
        return turbo.Dense(tensors["A"].astype(np.float64))
    operators = module(folder / "operators" / "reference.py")
    axes = json.loads(metadata["operator"])["axes"]
    kinds = {"hadamard": operators.hadamard, "dct": operators.dct, "identity": np.eye}
    factors = [kinds[axis["factor"]](axis["length"]) for axis in axes]
    shape = tuple(axis["length"] for axis in axes)
    return operators.Operator(factors, shape, tensors["signs"].astype(np.float64), tensors["rows"].astype(np.int64))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problem")
    parser.add_argument("weights")
    parser.add_argument("references", type=Path)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    with safe_open(args.problem, "np") as f:
        tensors, metadata = {name: f.get_tensor(name) for name in f.keys()}, f.metadata()
    with safe_open(args.weights, "np") as f:
        table = {name: f.get_tensor(name).astype(np.float64) for name in f.keys() if name.startswith("denoiser.")}
        variance = float(f.metadata()["denoiser.variance"])
    net, _ = priors.load(args.weights)
    truth = tensors["truth"]
    batch, *image = truth.shape
    turbo = module(args.references / "turbo" / "reference.py")

    def network(r, s):
        x = torch.from_numpy(r.reshape(-1, *image)).float().contiguous(memory_format=torch.channels_last)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            found = net.image(x, torch.from_numpy(s[:, 0]).float()).double().numpy()
        return (found.reshape(r.shape) - r) / s

    p = SimpleNamespace(A=operator(tensors, metadata, args.references, turbo), sigma=float(metadata["sigma"]),
                        lower=tensors["lower"].astype(np.float64), upper=tensors["upper"].astype(np.float64))
    mean = np.repeat(table["denoiser.mean"], np.prod(image) // table["denoiser.mean"].size)
    prior = SimpleNamespace(mean=mean, variance=variance, levels=table["denoiser.levels"], errors=table["denoiser.errors"])
    network(np.zeros((1, truth[0].size)), np.ones((1, 1)))
    began = time.perf_counter()
    d, *_, evaluations, _ = turbo.turbo(p, network, prior)
    seconds = time.perf_counter() - began
    error = ((d.clip(0, 1).reshape(truth.shape) - truth) ** 2).mean((1, 2, 3))
    print(json.dumps(dict(seconds=seconds, psnr=(-10 * np.log10(error)).tolist(), evaluations=evaluations.tolist())))


if __name__ == "__main__":
    main()
