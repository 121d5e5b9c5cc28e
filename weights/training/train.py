"""Trains an NCSNv2 prior by denoising score matching on a CPU, in as many sittings as it takes.

    python train.py train  --dataset mnist --data DIR --out RUN     start, or go on where RUN stopped
    python train.py train  --from RUN/checkpoint.pt --out RUN2 --decay-steps 1000 ...
    python train.py export --run RUN2 mnist.safetensors             the EMA weights, with metadata

The learning rate warms up and stays constant, so a run may be stopped and resumed at any step; a
`--decay-steps` phase on a copy of its checkpoint gives the weights to export.
"""

import argparse
import csv
import datetime
import os
import signal
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

import data
import levels
from muon import Muon
from ncsnv2 import NCSNv2, geometric

EMA = 0.999
CLIP = 1.0  # gradient norm of the per-pixel loss: every step at first, one step in seven by step 500
DATA_DEVIATION = 0.3  # of a pixel of MNIST, 0.31; of CIFAR-10, 0.25
SAVE_SECONDS = 120
VALIDATE_EVERY = 250
FIXED = ("dataset", "ngf", "seed", "sigma_begin", "sigma_end", "sigma_top")  # a run's identity


def dsm_loss(net, x, sigma, z):
    """sigma^2-weighted denoising score matching, ||sigma * score(x + sigma z) + z||^2, as a mean
    over pixels, one value per image: 1 for a network that says nothing, whatever the level."""
    noisy = x + sigma.view(-1, 1, 1, 1) * z
    return (net.noise(noisy) + z).square().mean((1, 2, 3))


def emphasis(sigma, top):
    """Mean 1 over the batch. The loss of a level is that of its denoised image divided by sigma^2; this takes the division
    back between the data's deviation and `top`, where it is decided which digit an image shows."""
    weight = 1 + (sigma.clamp(max=top) / DATA_DEVIATION).square()
    return weight / weight.mean()


def batch(images, args, step):
    """The batch of a step depends on (seed, step) only, so that a resumed run sees what an
    uninterrupted one would have seen."""
    g = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
    x = images[torch.randint(len(images), (args.batch,), generator=g)].float() / 255
    if args.dataset == "cifar10":  # a mirrored photograph is a photograph; a mirrored digit is not a digit
        flip = torch.rand(args.batch, generator=g) < 0.5
        x = torch.where(flip.view(-1, 1, 1, 1), x.flip(3), x)
    sigma = levels.draw(args.batch, args.sigma_begin, args.sigma_end, args.sigma_top, g)
    return x, sigma, torch.randn(x.shape, generator=g)


@torch.no_grad()
def validation_loss(net, images, args):
    """Mean DSM loss over the held-out images, levels log-uniform over the schedule; the same
    levels and noise at every call, so that calls compare."""
    g = torch.Generator().manual_seed(12345)
    total = 0.0
    for x in (images.float() / 255).split(100):
        sigma = levels.draw(len(x), args.sigma_begin, args.sigma_end, args.sigma_begin, g)
        total += dsm_loss(net, x, sigma, torch.randn(x.shape, generator=g)).sum().item()
    return total / len(images)


def rate_factor(args, step, decay_start):
    """What the learning rates are multiplied with: warm-up, plateau, and a linear end if asked for."""
    if decay_start is not None:
        return max(0.0, 1 - (step - decay_start) / args.decay_steps)
    return min(1.0, (step + 1) / args.warmup)


def ema_rate(step):
    """0.999 would remember the random start for thousands of steps: a shorter memory until ~10,000."""
    return min(EMA, (1 + step) / (10 + step))


def save(path, state):
    """Atomic: a kill in the middle leaves the previous checkpoint whole."""
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def build(args, channels, image_size):
    count = levels.count(args.sigma_begin, args.sigma_end, channels * image_size**2)
    net = NCSNv2(channels, args.ngf, geometric(args.sigma_begin, args.sigma_end, count))
    # NHWC is the layout oneDNN's convolutions want: 10 % faster here than NCHW.
    return net.to(memory_format=torch.channels_last)


def restore(args, path):
    state = torch.load(path, weights_only=True)
    for key in FIXED:
        if getattr(args, key) is None:
            setattr(args, key, state["args"][key])
        elif getattr(args, key) != state["args"][key]:
            flag = "--" + key.replace("_", "-")
            raise SystemExit(f"{path}: was trained with {flag} {state['args'][key]}; start another --out")
    return state


def train(args):
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # ELU's tails otherwise reach subnormals, 100 times slower
    torch.use_deterministic_algorithms(True)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    source = checkpoint if checkpoint.exists() else args.source
    state = restore(args, source) if source else None
    for key, default in DEFAULTS.items():
        if getattr(args, key) is None:
            setattr(args, key, default)

    images, held_out = data.load(args.dataset, args.data)
    channels, image_size = images.shape[1], images.shape[2]
    torch.manual_seed(args.seed)
    net, ema = build(args, channels, image_size), build(args, channels, image_size)
    ema.load_state_dict(net.state_dict())
    adam, muon = torch.optim.Adam(net.parameters(), lr=args.lr), Muon(net)
    step, decay_start, validation = 0, None, float("nan")
    if state:
        net.load_state_dict(state["model"])
        ema.load_state_dict(state["ema"])
        adam.load_state_dict(state["adam"])
        muon.momentum.update(state["muon"])
        step, decay_start, validation = state["step"], state["decay_start"], state["validation"]
        if decay_start is not None:
            args.decay_steps = state["args"]["decay_steps"]
    if args.decay_steps and decay_start is None:
        decay_start = step
    last = decay_start + args.decay_steps if args.decay_steps else args.steps

    stop = []  # SIGTERM and ctrl-C end the run after the current step, with a checkpoint
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: stop.append(1))

    def state_now():
        config = {k: v for k, v in vars(args).items() if not callable(v)}
        config.update(channels=channels, image_size=image_size)
        return dict(model=net.state_dict(), ema=ema.state_dict(), adam=adam.state_dict(),
                    muon=muon.momentum, step=step, decay_start=decay_start, validation=validation, args=config)

    log = csv.writer(open(out / "loss.csv", "a", buffering=1))
    print(f"{sum(p.numel() for p in net.parameters()):,} parameters, {len(net.sigmas)} levels, "
          f"{len(images)} images, from step {step} to {last}", flush=True)
    saved = time.time()
    while step < last and not stop:
        began = time.time()
        factor = rate_factor(args, step, decay_start)
        for group in adam.param_groups:
            group["lr"] = args.lr * factor
        x, sigma, z = batch(images, args, step)
        loss = (dsm_loss(net, x, sigma, z) * emphasis(sigma, args.emphasis)).mean()
        net.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP, error_if_nonfinite=True)
        if args.muon_lr:
            muon.step(args.muon_lr * factor)
        adam.step()
        step += 1
        with torch.no_grad():
            keep = ema_rate(step)
            for e, p in zip(ema.parameters(), net.parameters()):
                e.lerp_(p, 1 - keep)
        seconds = time.time() - began
        if step % VALIDATE_EVERY == 0:
            validation = validation_loss(ema, held_out, args)
            print(f"step {step}  loss {loss.item():.4f}  validation (EMA) {validation:.5f}  "
                  f"lr x {factor:.2f}  {seconds:.2f} s/step", flush=True)
        log.writerow([step, repr(loss.item()), f"{norm.item():.4g}", f"{factor:.4g}", f"{seconds:.3f}",
                      f"{validation:.6f}" if step % VALIDATE_EVERY == 0 else ""])
        if time.time() - saved > SAVE_SECONDS:
            save(checkpoint, state_now())
            saved = time.time()
    save(checkpoint, state_now())
    validation = validation_loss(ema, held_out, args)  # an interrupted run exports a fresh loss, too
    save(checkpoint, state_now())
    print(f"stopped at step {step}; validation (EMA) {validation:.5f}; checkpoint saved", flush=True)


def export(args):
    state = torch.load(Path(args.run) / "checkpoint.pt", weights_only=True)
    config = argparse.Namespace(**state["args"])
    tensors = {k: v.contiguous() for k, v in state["ema"].items()}
    if args.half:
        tensors = {k: v if k == "sigmas" else v.half() for k, v in tensors.items()}
    if args.levels:
        tensors["sigmas"] = geometric(args.sigma_begin or config.sigma_begin, args.sigma_end or config.sigma_end, args.levels)
    sigmas = tensors["sigmas"].tolist()
    metadata = dict(
        dataset=config.dataset, channels=config.channels, image_size=config.image_size, ngf=config.ngf,
        sigma_begin=f"{sigmas[0]:g}", sigma_end=f"{sigmas[-1]:g}", num_classes=len(sigmas),
        sigma_max_trained=config.sigma_top, emphasis=getattr(config, "emphasis", 0.0), steps=state["step"], batch=config.batch, seed=config.seed,
        date=datetime.date.today().isoformat(), loss=f"{state['validation']:.6f}",
        loss_meaning="validation DSM, sigma^2-weighted, per pixel", weights=f"EMA {EMA}",
        ema_rate_at_end=f"{ema_rate(state['step']):.4f}")
    recommended = dict(steps_per_level=args.steps_per_level, step_scale=args.step_scale, momentum=args.momentum, xi=args.xi)
    metadata.update({k: v for k, v in recommended.items() if v is not None})
    save_file(tensors, args.file, {k: str(v) for k, v in metadata.items()})
    print(f"{args.file}: {os.path.getsize(args.file):,} bytes, {metadata}")


DEFAULTS = dict(dataset="mnist", ngf=24, seed=1, sigma_begin=17.0, sigma_end=0.01, sigma_top=50.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    t = commands.add_parser("train")
    t.add_argument("--dataset", choices=["mnist", "fashion-mnist", "cifar10"])
    t.add_argument("--data", required=True, help="file or folder of the data set")
    t.add_argument("--out", required=True, help="folder for checkpoint.pt and loss.csv; resumed when it has one")
    t.add_argument("--from", dest="source", help="begin a new --out with this checkpoint")
    t.add_argument("--ngf", type=int)
    t.add_argument("--sigma-begin", type=float, help="largest level; see levels.py")
    t.add_argument("--sigma-end", type=float)
    t.add_argument("--sigma-top", type=float, help="levels are practised up to here")
    t.add_argument("--seed", type=int)
    t.add_argument("--batch", type=int, default=32)
    t.add_argument("--lr", type=float, default=1e-3, help="of Adam")
    t.add_argument("--muon-lr", type=float, default=2e-3, help="of the inner convolutions; 0: Adam for these too")
    t.add_argument("--emphasis", type=float, default=0.0, metavar="SIGMA",
                   help="weigh levels up to SIGMA by the error of the denoised image; 0: sigma^2 weighting alone")
    t.add_argument("--warmup", type=int, default=100)
    t.add_argument("--steps", type=int, default=1_000_000, help="stop at this step")
    t.add_argument("--decay-steps", type=int, default=0, help="final phase: learning rate to 0, linearly")
    t.add_argument("--threads", type=int, default=2)
    t.set_defaults(run_command=train)
    e = commands.add_parser("export")
    e.add_argument("--run", required=True, help="a training run's --out")
    s = e.add_argument_group("sampler", "defaults of `qcs run` with this prior")
    s.add_argument("--sigma-begin", type=float)
    s.add_argument("--sigma-end", type=float)
    s.add_argument("--levels", type=int, help="geometric, in place of the schedule of training")
    s.add_argument("--steps-per-level", type=int)
    s.add_argument("--step-scale", type=float)
    s.add_argument("--momentum", type=float)
    s.add_argument("--xi", type=float)
    e.add_argument("--half", action="store_true", help="float16 weights")
    e.add_argument("file")
    e.set_defaults(run_command=export)
    args = parser.parse_args()
    args.run_command(args)


if __name__ == "__main__":
    main()
