"""Prior files: what `qcs --model` reads.

    python prior.py --run RUN mnist.safetensors     the EMA weights of a run, with metadata
"""

import argparse
import datetime
import os
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from ncsnv2 import InstanceNormPlus, NCSNv2, geometric
from unet import LevelTerms, UNet


def read(path):
    """(tensors, metadata) of a prior, in f32: its network's, without the table that `qcs calibrate` adds."""
    with safe_open(path, "pt") as f:
        names = [k for k in f.keys() if not k.startswith("denoiser.")]
        return {k: f.get_tensor(k).float() for k in names}, f.metadata() or {}


def build(network, channels, ngf, blocks, norms, fourth, sigmas):
    """An untrained network. `blocks`, `norms` and `fourth`, the width of a fourth resolution (0: none), are a U-Net's alone."""
    if network == "unet":
        widths = [ngf, 2 * ngf, 4 * ngf] + [fourth] * (fourth > 0)
        return UNet(channels, widths, blocks, sigmas, LevelTerms if norms == "level" else InstanceNormPlus)
    return NCSNv2(channels, ngf, sigmas)


def shape(tensors):
    """(network, channels, ngf, blocks, norms, fourth) of a prior's tensors."""
    ngf, inputs = tensors["begin_conv.weight"].shape[:2]
    blocks = sum(name.startswith("down.0.") and name.endswith(".conv1.weight") for name in tensors)
    norms = "level" if "normalizer.weight" in tensors else "instance"
    fourth = tensors["down.3.0.conv1.weight"].shape[0] if "down.3.0.conv1.weight" in tensors else 0
    return ("unet", inputs - 1, ngf, blocks, norms, fourth) if blocks else ("ncsnv2", inputs, ngf, 2, norms, 0)


def load(path):
    """(network, metadata) of a prior."""
    tensors, metadata = read(path)
    net = build(*shape(tensors), tensors["sigmas"])
    net.load_state_dict(tensors)
    return net.to(memory_format=torch.channels_last).eval(), metadata


def halved(tensors):
    """The weights in float16: half the file, and less than a thousandth off each weight."""
    return {k: t if k == "sigmas" else t.half() for k, t in tensors.items()}


def export(args):
    state = torch.load(Path(args.run) / "checkpoint.pt", weights_only=True)
    config = argparse.Namespace(**state["args"])
    tensors = {k: v.contiguous() for k, v in state["ema"].items()}
    if args.half:
        tensors = halved(tensors)
    if args.levels:
        tensors["sigmas"] = geometric(args.sigma_begin or config.sigma_begin, args.sigma_end or config.sigma_end, args.levels)
    sigmas = tensors["sigmas"].tolist()
    metadata = dict(
        dataset=config.dataset, network=shape(tensors)[0], channels=config.channels, image_size=config.image_size, ngf=config.ngf,
        sigma_begin=f"{sigmas[0]:g}", sigma_end=f"{sigmas[-1]:g}", num_classes=len(sigmas),
        sigma_max_trained=config.sigma_top, emphasis=config.emphasis, steps=state["steps_before"] + state["step"],
        batch=config.batch, seed=config.seed, date=datetime.date.today().isoformat(), loss=f"{state['validation']:.6f}",
        loss_meaning="validation DSM, sigma^2-weighted, per pixel", weights=f"EMA {config.ema}")
    recommended = dict(steps_per_level=args.steps_per_level, step_scale=args.step_scale, momentum=args.momentum, xi=args.xi)
    metadata.update({k: v for k, v in recommended.items() if v is not None})
    metadata.update(setting.split("=", 1) for setting in args.advice)
    save_file(tensors, args.file, {k: str(v) for k, v in metadata.items()})
    print(f"{args.file}: {os.path.getsize(args.file):,} bytes, {metadata}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True, help="a training run's --out")
    s = parser.add_argument_group("sampler", "defaults of `qcs run` with this prior")
    s.add_argument("--sigma-begin", type=float)
    s.add_argument("--sigma-end", type=float)
    s.add_argument("--levels", type=int, help="geometric, in place of the schedule of training")
    s.add_argument("--steps-per-level", type=int)
    s.add_argument("--step-scale", type=float)
    s.add_argument("--momentum", type=float)
    s.add_argument("--xi", type=float)
    s.add_argument("--advice", action="append", default=[], metavar="METHOD.SETTING=VALUE", help="for one method, or `sample`: ep.step_scale=0.7; for measurements that are signs: ep.signs.xi=0.3")
    parser.add_argument("--half", action="store_true", help="float16 weights")
    parser.add_argument("file")
    export(parser.parse_args())


if __name__ == "__main__":
    main()
