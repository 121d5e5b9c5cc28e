"""QCS-SGM+ in PyTorch, as fast as plain PyTorch makes it: the opponent of `compare_pytorch.py`.

    python benches/pytorch_sampler.py PROBLEM WEIGHTS [--levels T] [--steps-per-level K] ...
    python benches/pytorch_sampler.py --check tests/goldens/ep_*.safetensors

A whole batch goes through each step at once: the network in inference mode, EP's rotations and the products with A as
matrix products. The first form reconstructs every image of a problem file of `qcs measure`, and prints one JSON object:
seconds and PSNR. The second compares the likelihood score with stored float64 scores.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path

import torch
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "weights" / "training"))
from ncsnv2 import NCSNv2, geometric  # noqa: E402

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def truncated_normal(lower, upper):
    """Mean and variance of standard normal variables in [lower, upper), by scaled complementary error functions.

    Reflected so that the midpoint is not negative: with E = phi(u)/phi(l) and N = Z/phi(l) the mean is (1 - E)/N and the
    variance 1 + (l - u·E)/N - mean². That cancels far out on a half-line, where its asymptotic series stands instead.
    """
    reflect = lower + upper < 0
    l = torch.where(reflect, -upper, lower)
    u = torch.where(reflect, -lower, upper).clamp(max=1e18)  # 0 times this is 0
    e = torch.exp((l - u) * (l + u) / 2)
    root = math.sqrt(0.5)
    n = math.sqrt(math.pi / 2) * (torch.special.erfcx(l * root) - e * torch.special.erfcx(u * root))
    mean = (1 - e) / n
    variance = 1 + (l - u * e) / n - mean * mean
    q = 1 / (l * l)
    variance = torch.where((l > 30) & (e == 0), q * (1 - q * (6 - 50 * q)), variance)
    return torch.where(reflect, -mean, mean), variance


class Likelihood:
    """The likelihood score of a batch of states [B, N] by expectation propagation, five iterations by default."""

    def __init__(self, a, u, eigenvalues, lower, upper, sigma, iterations=5, dtype=torch.float64):
        self.a, self.u, self.eigenvalues = a.to(dtype), u.to(dtype), eigenvalues.to(dtype)
        self.lower, self.upper = lower.to(dtype), upper.to(dtype)
        self.sigma2, self.iterations, self.dtype = sigma * sigma, iterations, dtype

    def score(self, x, beta):
        z = x.to(self.dtype) @ self.a.T
        d = 1 / (self.sigma2 + beta * beta * self.eigenvalues)
        h_f, tau_f = torch.zeros_like(z), torch.ones(len(z), 1, dtype=self.dtype)
        for _ in range(self.iterations):
            mean, variance = self.moments(z, h_f, tau_f)
            chi_a = variance.mean(1, keepdim=True).clamp(min=torch.finfo(self.dtype).tiny) / tau_f
            h_g = (h_f / tau_f + mean / tau_f.sqrt()) / chi_a - h_f
            tau_g = (1 / chi_a - tau_f).clamp(min=1e-6)
            w = 1 / (tau_g + d)
            chi_b = w.mean(1, keepdim=True)
            h_f = ((w / chi_b - 1) * (h_g @ self.u)) @ self.u.T
            tau_f = (d * w).mean(1, keepdim=True) / chi_b
        mean, _ = self.moments(z, h_f, tau_f)
        return (tau_f.sqrt() * mean) @ self.a

    def moments(self, z, h_f, tau_f):
        s = tau_f.sqrt()
        centre = -s * z - h_f / s
        return truncated_normal(centre + self.lower * s, centre + self.upper * s)


def sample(net, likelihood, shape, levels, steps_per_level, step_scale, momentum, xi, layout):
    """Annealed Langevin dynamics with momentum, adaptive gamma and the final denoising; returns states [B, N]."""
    batch = shape[0]
    x = torch.rand(shape)
    movement = torch.zeros(batch, x[0].numel())  # of the last step, in units of the noise level

    def prior(x, beta):
        return net(x.contiguous(memory_format=layout), torch.full((batch,), beta)).reshape(batch, -1)

    for beta in levels:
        alpha = step_scale * beta * beta
        for _ in range(steps_per_level):
            score = prior(x, beta)
            gradient = likelihood.score(x.reshape(batch, -1), beta).float()
            gamma = xi * score.norm(dim=1, keepdim=True) / gradient.norm(dim=1, keepdim=True)
            noise = math.sqrt(2 * alpha * (1 - momentum)) * torch.randn(batch, score.shape[1])
            movement = momentum * movement + (alpha * (score + gamma * gradient) + noise) / beta
            x = x + beta * movement.reshape(shape)
    return x.reshape(batch, -1) + levels[-1] ** 2 * prior(x, levels[-1])


def load_network(path, layout):
    with safe_open(path, "pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}
    ngf, channels = weights["begin_conv.weight"].shape[:2]
    sigmas = weights.setdefault("sigmas", torch.ones(1))
    net = NCSNv2(channels, ngf, sigmas)
    net.load_state_dict(weights)
    return net.eval().to(memory_format=layout)


def psnr(x, truth):
    """Of each image, clamped to [0, 1]."""
    error = (x.clamp(0, 1) - truth).square().mean(1)
    return (-10 * error.log10()).tolist()


def reconstruct(args):
    layout = LAYOUTS[args.layout]
    net = load_network(args.files[1], layout)
    with safe_open(args.files[0], "pt") as file:
        t = {name: file.get_tensor(name) for name in file.keys()}
        sigma = float(file.metadata()["sigma"])
    shape = t["truth"].shape
    likelihood = Likelihood(t["A"], t["U"], t["eigenvalues"], t["lower"], t["upper"], sigma, args.ep_iters, args.ep)
    levels = geometric(args.sigma_begin, args.sigma_end, args.levels).tolist()
    with torch.inference_mode():
        # Memory is allocated and kernels are chosen before the clock starts.
        net(torch.rand(shape).contiguous(memory_format=layout), torch.ones(shape[0]))
        start = time.perf_counter()
        x = sample(net, likelihood, shape, levels, args.steps_per_level, args.step_scale, args.momentum, args.xi, layout)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "psnr": psnr(x, t["truth"].reshape(shape[0], -1))}))


def check(path, dtype):
    """The worst relative error of the likelihood score over a golden file's levels and bits, after 5 iterations."""
    with safe_open(path, "pt") as file:
        t = {name: file.get_tensor(name) for name in file.keys()}
    sigma = t["sigma"].item() if "sigma" in t else 0.05
    eigenvalues, u = torch.linalg.eigh(t["A"] @ t["A"].T)
    worst = 0.0
    for name, expected in t.items():
        if not name.startswith(("ep_b", "score_ep_exact_b")):
            continue
        level, bits = name.removeprefix("ep_b").removeprefix("score_ep_exact_b").split("_q")
        lower, upper = t[f"lo_q{bits}"], t[f"hi_q{bits}"]
        likelihood = Likelihood(t["A"], u, eigenvalues, lower, upper, sigma, dtype=dtype)
        score = likelihood.score(t[f"x_b{level}"].float(), float(level)).double()
        error = ((score - expected).norm(dim=1) / expected.norm(dim=1)).max().item()
        print(f"{Path(path).name} {name}: {error:.1e}")
        worst = max(worst, error)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", help="a problem file and a weights file, or with --check goldens")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--layout", choices=LAYOUTS, default="contiguous")
    parser.add_argument("--ep", type=lambda name: getattr(torch, name), default=torch.float64, help="float64 or float32")
    parser.add_argument("--ep-iters", type=int, default=5)
    parser.add_argument("--levels", type=int, default=20)
    parser.add_argument("--steps-per-level", type=int, default=1)
    parser.add_argument("--sigma-begin", type=float, default=50)
    parser.add_argument("--sigma-end", type=float, default=0.01)
    parser.add_argument("--step-scale", type=float, default=1.5)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--xi", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.check:
        worst = max(check(path, args.ep) for path in args.files)
        sys.exit(0 if worst < 1e-3 else f"the worst relative error is {worst:.1e}, above 1e-3")
    reconstruct(args)


if __name__ == "__main__":
    main()
