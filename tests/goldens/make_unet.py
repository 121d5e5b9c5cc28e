"""Writes unet_*.safetensors: a U-Net with random weights, images at four levels, and its scores in float64.

    python make_unet.py
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

here = Path(__file__).resolve().parent
sys.path.append(str(here.parents[1] / "weights/training"))
from ncsnv2 import InstanceNormPlus
from unet import LevelTerms, UNet

LEVELS = [0.01, 0.33, 2.0, 40.0]

KINDS = [
    ("unet_28x28x1", (1, 28, 28), [8, 16, 24], 2, InstanceNormPlus),
    ("unet_32x32x3", (3, 32, 32), [10, 12, 20], 1, InstanceNormPlus),
    ("unet_by_level_24x36x3", (3, 24, 36), [8, 16, 24], 1, LevelTerms),
]

for file, shape, widths, blocks, norm in KINDS:
    torch.manual_seed(shape[1])
    net = UNet(shape[0], widths, blocks, torch.tensor([1.0, 0.01]), norm)
    for name, p in net.named_parameters():  # no weight at the value it starts training with
        start = p.data if "normal" in name and norm is LevelTerms else float(name.endswith("gamma"))
        p.data = torch.randn_like(p) * (p[0].numel() ** -0.5 if p.ndim == 4 else 0.3 if norm is not LevelTerms else 0.1) + start
    sigma = torch.tensor(LEVELS, dtype=torch.float64)
    x = torch.rand(len(LEVELS), *shape) + sigma.float().view(-1, 1, 1, 1) * torch.randn(len(LEVELS), *shape)
    with torch.no_grad():
        tensors = {f"sd.{k}": v for k, v in net.state_dict().items() if k != "sigmas"}
        score = net.double()(x.double(), sigma)
    save_file({**{k: v.float().contiguous() for k, v in tensors.items()}, "x": x, "levels": sigma, "out_f64": score},
              here / f"{file}.safetensors")
