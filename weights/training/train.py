"""Trains a prior, an NCSNv2 or a U-Net, by denoising score matching on a CPU, in as many sittings as it takes.

    python train.py --dataset mnist --data DIR --network unet --out RUN    start, or go on where RUN stopped
    python train.py --from small.safetensors --ngf 32 ...       start from a prior, widened
    python train.py --from small.safetensors --blocks 3 ...     start from a prior, a U-Net deepened
    python train.py --from RUN/checkpoint.pt --out RUN2 --decay-steps 1000 ...

The learning rates warm up and stay constant, so a run may be stopped and resumed at any step; a
`--decay-steps` phase on a copy of its checkpoint gives the weights to export (`prior.py`).
"""

import argparse
import csv
import datetime
import os
import signal
import time
from pathlib import Path

import amx  # noqa: F401, before torch
import torch

import data
import levels
import objective
import prior
from muon import Muon
from ncsnv2 import geometric
from precision import bf16_is_faster
from widen import widen

CLIP = 1.0  # gradient norm of the per-pixel loss: every step at first, one step in seven by step 500
SAVE_SECONDS = 120
PHOTO_EMPHASIS = 3.6  # mean weight of levels log-uniform in 0.03 to 1.5
STANDING = ("step", "steps_before", "decay_start", "validation", "seconds", "began")
FIXED = dict(dataset="mnist", network="ncsnv2", ngf=24, blocks=2, norms="instance", fourth=0, seed=1, sigma_begin=17.0, sigma_end=0.01, sigma_top=50.0)  # a run's identity


def batch(images, args, step, level_error=0.0):
    """The batch of a step depends on (seed, step) only, so that a resumed run sees what an
    uninterrupted one would have seen."""
    g = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
    if args.dataset == "photos":
        x = images.draw(args, g).float() / 255
    else:
        x = images[torch.randint(len(images), (args.batch,), generator=g)].float() / 255
    count = len(x)
    if args.dataset in ("cifar10", "photos"):  # a mirrored photograph is a photograph; a mirrored digit is not a digit
        flip = torch.rand(count, generator=g) < 0.5
        x = torch.where(flip.view(-1, 1, 1, 1), x.flip(3), x)
    sigma, z = levels.draw(args, count, g), torch.randn(x.shape, generator=g)
    return x, sigma, z, sigma * (level_error * torch.randn(count, generator=g)).exp()


class Run:
    """Everything a checkpoint holds: two copies of the network, two optimisers, and where they stand."""

    def __init__(self, args, images):
        self.args, self.channels, self.image_size = args, images.shape[1], images.shape[2]
        torch.manual_seed(args.seed)
        self.net, self.ema = self.build(), self.build()
        self.adam, self.muon = torch.optim.Adam(self.net.parameters(), lr=args.lr), Muon(self.net)
        self.step, self.steps_before, self.decay_start, self.validation = 0, 0, None, float("nan")
        self.seconds, self.began = 0.0, time.time()

    def build(self):
        dims = self.channels * self.image_size**2
        count = levels.count(self.args.sigma_begin, self.args.sigma_end, dims)
        sigmas = geometric(self.args.sigma_begin, self.args.sigma_end, count)
        net = prior.build(self.args.network, self.channels, self.args.ngf, self.args.blocks, self.args.norms, self.args.fourth, sigmas)
        # NHWC is the layout oneDNN's convolutions want: 10 % faster here than NCHW.
        return net.to(memory_format=torch.channels_last)

    def begin(self, path):
        """From the weights of a prior, with fresh optimisers."""
        if path:
            tensors, metadata = prior.read(path)
            self.steps_before = int(metadata.get("steps", "0").split()[0])
            tensors["sigmas"] = self.net.sigmas
            if tensors["begin_conv.weight"].shape[0] < self.args.ngf:
                tensors = widen(tensors, self.args.ngf, self.args.seed)
            if self.args.network == "unet":  # blocks that the file lacks begin as the identity, which they are before training
                known, tensors = tensors, {**self.net.state_dict(), **tensors}
            if self.args.fourth and not prior.shape(known)[-1]:  # a resolution that the file lacks begins without a say
                tensors.update({name: torch.zeros_like(tensors[name]) for name in ("grow.2.weight", "grow.2.bias")})
            self.net.load_state_dict(tensors)
        self.ema.load_state_dict(self.net.state_dict())

    def restore(self, state):
        self.net.load_state_dict(state["model"])
        self.ema.load_state_dict(state["ema"])
        self.adam.load_state_dict(state["adam"])
        self.muon.momentum.update(state["muon"])
        for key in STANDING:
            setattr(self, key, state.get(key, getattr(self, key)))

    def save(self, path):
        """Atomic: a kill in the middle leaves the previous checkpoint whole."""
        config = dict(vars(self.args), channels=self.channels, image_size=self.image_size)
        state = dict(model=self.net.state_dict(), ema=self.ema.state_dict(), adam=self.adam.state_dict(),
                     muon=self.muon.momentum, args=config, **{k: getattr(self, k) for k in STANDING})
        temporary = path.with_suffix(".tmp")
        torch.save(state, temporary)
        os.replace(temporary, path)

    def rate_factor(self):
        """What both learning rates are multiplied with: warm-up, plateau, and a linear end if asked for."""
        risen = min(1.0, (self.step + 1) / self.args.warmup)
        if self.args.decay_until:
            return min(risen, max(0.0, (self.args.decay_until - time.time()) / (self.args.decay_until - self.began)))
        if self.decay_start is None:
            return risen
        return min(risen, max(0.0, 1 - (self.step - self.decay_start) / self.args.decay_steps))

    def advance(self, images, bf16):
        """One step; (loss, norm of the gradient, rate factor)."""
        args, factor = self.args, self.rate_factor()
        x, sigma, z, told = batch(images, args, self.step, args.level_error * (factor if args.exact_end else 1))
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = objective.dsm_loss(self.net, x, sigma, z, told)
        mean = PHOTO_EMPHASIS if args.dataset == "photos" else None
        loss = (loss * objective.emphasis(sigma, args.emphasis, mean)).mean()
        self.net.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), CLIP, error_if_nonfinite=True)
        if args.muon_lr:
            self.muon.step(args.muon_lr * factor, torch.bfloat16 if bf16 else torch.float32)
        for group in self.adam.param_groups:
            group["lr"] = args.lr * factor
        self.adam.step()
        self.step += 1
        # The full memory would hold on to the start for thousands of steps: a shorter one until 9/(1 - ema) of them.
        keep = min(args.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for e, p in zip(self.ema.parameters(), self.net.parameters()):
                e.lerp_(p, 1 - keep)
        return loss.item(), norm.item(), factor

    def judge(self, held_out, bf16, log):
        """The EMA weights on the validation images: one line of errors.csv."""
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            self.validation = objective.validation_loss(self.ema, held_out, self.args)
            errors = objective.squared_errors(self.ema, held_out).mean(1).sqrt().tolist()
        log.writerow([self.step, round(self.seconds), f"{self.validation:.6f}"] + [f"{e:.5f}" for e in errors])
        print(f"step {self.step}, {self.seconds / 3600:.2f} h: validation {self.validation:.5f}, denoising errors "
              + " ".join(f"{e:.4f}" for e in errors), flush=True)


def open_log(path, header):
    """A CSV file to append to; the header is written once."""
    fresh = not path.exists()
    log = csv.writer(open(path, "a", buffering=1))
    if fresh:
        log.writerow(header)
    return log


def source_state(args):
    """The checkpoint to go on from, or None. What `args` leaves open of a run's identity is taken from there, or from the prior
    to start from."""
    own = Path(args.out) / "checkpoint.pt"
    path = str(own if own.exists() else args.source or "")
    state = torch.load(path, weights_only=True) if path.endswith(".pt") else None
    known = dict(FIXED)
    if state:
        known.update({key: state["args"][key] for key in FIXED if key in state["args"]})
    elif path:
        tensors, metadata = prior.read(path)
        network, _, ngf, blocks, norms, fourth = prior.shape(tensors)
        known.update(dataset=metadata.get("dataset", FIXED["dataset"]), network=network, ngf=ngf, blocks=blocks, norms=norms, fourth=fourth)
    for key, value in known.items():
        flag, asked = "--" + key.replace("_", "-"), getattr(args, key)
        if asked is None:
            setattr(args, key, value)
        elif path and asked != value and (state or key in ("network", "norms")):
            raise SystemExit(f"{path}: was trained with {flag} {value}; start another --out")
        elif path and key in ("ngf", "blocks", "fourth") and asked < value:
            raise SystemExit(f"{path}: has {flag} {value} and cannot be made smaller; give that or more")
    return state


def wait_while(pause_file):
    """A run is never the reason that somebody's measurement is wrong."""
    while pause_file and os.path.exists(pause_file):
        time.sleep(2)


def train(args):
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # ELU's tails otherwise reach subnormals, 100 times slower
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # a tenth of a step, to show reads of memory that nobody wrote
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    state = source_state(args)
    images, held_out = data.load(args.dataset, args.data, args.cifar)
    run = Run(args, images)
    if state:
        run.restore(state)
    else:
        run.begin(args.source)
    if not checkpoint.exists():  # a copy begins a fall of its own, or none
        run.decay_start = run.step if args.decay_steps else None
    elif run.decay_start is not None:
        args.decay_steps = state["args"]["decay_steps"]
    last = run.decay_start + args.decay_steps if args.decay_steps else args.steps

    wait_while(args.pause_file)
    bf16 = bf16_is_faster(run.net, batch(images, args, 0)[0]) if args.precision == "auto" else args.precision == "bf16"
    stop = []  # SIGTERM and ctrl-C end the run after the current step, with a checkpoint
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: stop.append(1))
    steps_log = open_log(out / "loss.csv", ["step", "loss", "gradient_norm", "rate_factor", "seconds"])
    errors_log = open_log(out / "errors.csv", ["step", "seconds", "validation_dsm", *(f"error_{s:g}" for s in objective.TABLE)])
    print(f"{sum(p.numel() for p in run.net.parameters()):,} parameters, {len(images)} images, "
          f"{'bf16' if bf16 else 'f32'}, from step {run.step} to {last}", flush=True)
    if run.step == 0 and args.judge_every:
        run.judge(held_out, bf16, errors_log)
    saved = time.time()
    while run.step < last and not stop and time.time() < (args.decay_until or float("inf")):
        wait_while(args.pause_file)
        began = time.time()
        loss, norm, factor = run.advance(images, bf16)
        seconds = time.time() - began
        run.seconds += seconds
        steps_log.writerow([run.step, repr(loss), f"{norm:.4g}", f"{factor:.4g}", f"{seconds:.3f}"])
        if args.judge_every and (run.step % args.judge_every == 0 or run.step == last):
            run.judge(held_out, bf16, errors_log)
        if time.time() - saved > SAVE_SECONDS:
            run.save(checkpoint)
            saved = time.time()
    run.save(checkpoint)
    print(f"stopped at step {run.step}; checkpoint saved", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", choices=["mnist", "fashion-mnist", "cifar10", "photos"])
    add("--data", required=True, help="file or folder of the data set")
    add("--cifar", help="file or folder of CIFAR-10, to mix with photographs")
    add("--cifar-share", type=float, default=0.1, help="of the batches are CIFAR-10's")
    add("--crops", type=int, nargs="+", default=[64, 96], metavar="SIZE", help="of photographs; --batch counts the first")
    add("--out", required=True, help="folder for checkpoint.pt, loss.csv and errors.csv; resumed when it has a checkpoint")
    add("--from", dest="source", help="begin a new --out with this checkpoint, or with the weights of this .safetensors")
    add("--network", choices=["ncsnv2", "unet"])
    add("--ngf", type=int, help="first width; may be more than that of the .safetensors it starts from")
    add("--blocks", type=int, help="of a U-Net, at each resolution down and up; may be more than those of the .safetensors it starts from")
    add("--fourth", type=int, metavar="WIDTH", help="of a U-Net: feature maps at an eighth of the image's resolution; 0: none. May be new to the .safetensors it starts from")
    add("--norms", choices=["instance", "level"], help="of a U-Net: InstanceNorm++, or scales and shifts by the level alone, for images of any size")
    add("--sigma-begin", type=float, help="largest level; see levels.py")
    add("--sigma-end", type=float)
    add("--sigma-top", type=float, help="levels are practised up to here")
    add("--focus", type=float, nargs=2, default=[0.03, 3.0], metavar=("LOW", "HIGH"), help="levels practised most")
    add("--focus-share", type=float, default=0.7, help="of each batch")
    add("--level-error", type=float, default=0.0, metavar="SHARE",
        help="a U-Net is told levels that are wrong by so much, e.g. 0.25: what samplers denoise is never of one level")
    add("--exact-end", action="store_true", help="the told levels' error falls with the learning rates")
    add("--seed", type=int)
    add("--batch", type=int, default=32)
    add("--lr", type=float, default=5e-4, help="of Adam")
    add("--muon-lr", type=float, default=1e-3, help="of the inner convolutions; 0: Adam for these too")
    add("--ema", type=float, default=0.999)
    add("--emphasis", type=float, default=1.0, metavar="SIGMA",
        help="weigh levels up to SIGMA by the error of the denoised image; 0: sigma^2 weighting alone")
    add("--warmup", type=int, default=100)
    add("--steps", type=int, default=1_000_000, help="stop at this step")
    add("--decay-steps", type=int, default=0, help="final phase: learning rates to 0, linearly")
    add("--decay-until", type=lambda t: datetime.datetime.fromisoformat(t).timestamp(), metavar="TIME",
        help="the same by the clock, from the run's beginning: for a machine whose speed nobody knows")
    add("--judge-every", type=int, default=1000, metavar="STEPS", help="a line of errors.csv, as dear as 40 steps; 0: none")
    add("--precision", choices=["auto", "f32", "bf16"], default="auto", help="auto: what is faster here")
    add("--pause-file", help="training rests while this file exists")
    add("--threads", type=int, default=2)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
