"""Writes unet_*.safetensors: a U-Net with random weights, images at four levels, and its scores in float64.

    python make_unet.py
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

here = Path(__file__).resolve().parent
sys.path.append(str(here.parents[1] / "weights/training"))
from unet import UNet

LEVELS = [0.01, 0.33, 2.0, 40.0]

for channels, size, widths, blocks in [(1, 28, [8, 16, 24], 2), (3, 32, [10, 12, 20], 1)]:
    torch.manual_seed(size)
    net = UNet(channels, widths, blocks, torch.tensor([1.0, 0.01]))
    for name, p in net.named_parameters():  # no weight at the value it starts training with
        p.data = torch.randn_like(p) * (p[0].numel() ** -0.5 if p.ndim == 4 else 0.3) + (1.0 if name.endswith("gamma") else 0.0)
    sigma = torch.tensor(LEVELS, dtype=torch.float64)
    x = (torch.rand(len(LEVELS), channels, size, size) + sigma.float().view(-1, 1, 1, 1) * torch.randn(len(LEVELS), channels, size, size))
    with torch.no_grad():
        tensors = {f"sd.{k}": v for k, v in net.state_dict().items() if k != "sigmas"}
        score = net.double()(x.double(), sigma)
    save_file({**{k: v.float().contiguous() for k, v in tensors.items()}, "x": x, "levels": sigma, "out_f64": score},
              here / f"unet_{size}x{size}x{channels}.safetensors")
