"""What turbo makes of a denoiser that knows small noise only, with a Gaussian start above its range and without.

    python benches/small_noise.py --mnist FOLDER [--minutes 3] [--weights drunet.pt] [--measurements 200]

Trains a small DRUNet (deepinv's class, widths 16 to 128) on MNIST digits with noise of sigma up to 50/255, as DPIR's is, then reconstructs
test digits with it: as it is, with `largest=50/255`, and beside our own network, which knows all levels, and which is then asked up to
50/255 alone. Needs qcs and deepinv.
"""

import argparse
import pathlib
import time
import warnings

import deepinv as dinv
import numpy as np
import torch

import qcs

LARGEST = 50 / 255
SHAPE = (1, 28, 28)


def trained(digits, minutes):
    torch.manual_seed(0)
    network = dinv.models.DRUNet(in_channels=1, out_channels=1, nc=(16, 32, 64, 128), nb=2, pretrained=None)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    x = torch.from_numpy(digits)
    began, step = time.process_time(), 0
    while (spent := time.process_time() - began) < 60 * minutes:
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, 2.0 * (1 - spent / (60 * minutes)) + 0.02)
        clean = x[torch.randint(len(x), (32,))]
        sigma = LARGEST * torch.rand(32)
        found = network(clean + sigma.view(-1, 1, 1, 1) * torch.randn_like(clean), sigma)
        loss = (found - clean).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 200 == 0:
            print(f"step {step}, {spent:.0f} s: loss {loss.item():.4f}", flush=True)
    return network.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--weights", type=pathlib.Path, help="kept here, and used if they are there")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--measurements", type=int, default=400)
    args = parser.parse_args()
    torch.set_num_threads(1)
    train = qcs.load_images(args.mnist / "train-images-idx3-ubyte", count=20000)
    truth = qcs.load_images(args.mnist / "t10k-images-idx3-ubyte", count=args.count)
    if args.weights and args.weights.exists():
        network = dinv.models.DRUNet(in_channels=1, out_channels=1, nc=(16, 32, 64, 128), nb=2, pretrained=None).eval()
        network.load_state_dict(torch.load(args.weights, weights_only=True))
    else:
        network = trained(train, args.minutes)
        if args.weights:
            torch.save(network.state_dict(), args.weights)
    known = train[:500]
    priors = {"our network, all levels": qcs.Prior.builtin()}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        priors["DRUNet as it is"] = qcs.Prior.from_torch(network, SHAPE).calibrate(known, count=64)
    print("as it is:", *(str(warning.message) for warning in said))
    priors["DRUNet, Gaussian start"] = qcs.Prior.from_torch(network, SHAPE, largest=LARGEST).calibrate(known, count=64)
    ours = qcs.Prior.builtin()

    def own(x, sigma):
        return np.stack([ours.denoise(image, float(level)) for image, level in zip(x, sigma)])

    priors["our network up to 50/255, Gaussian start"] = qcs.Prior.from_callable(own, SHAPE, largest=LARGEST).calibrate(known, count=32)
    for name, prior in priors.items():
        levels, errors = np.array(prior.table[2]), np.array(prior.table[3])
        shown = ", ".join(f"{s}: {np.interp(s, levels, errors) ** 0.5:.4f}" for s in (0.05, 0.1, 0.19, 0.25, 0.5, 1.0) if s < levels[-1])
        print(f"{name}: table to sigma {levels[-1]:.2f}, errors {shown}")
    for kind in ("gaussian", "hadamard"):
        for bits in (1, 2, 3, 4):
            problem = qcs.measure(truth, kind, measurements=args.measurements, bits=bits, seed=1)
            row = []
            for name, prior in priors.items():
                found = qcs.reconstruct(problem, prior=prior, progress=False, on_divergence="ignore")
                row.append(f"{name} {found.psnr:.2f} dB ({found.evaluations.mean():.0f})")
            print(f"{kind} {bits} bits: " + ", ".join(row), flush=True)


if __name__ == "__main__":
    main()
