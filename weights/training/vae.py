"""The generator of the baselines BIPG and OneShot: a variational autoencoder whose decoder 20-500-500-784 (softplus, a sigmoid at the
end) is the model that Liu et al. (BIPG) and Liu and Scarlett (OneShot) use for MNIST. Only the decoder is kept.

    python vae.py --data FOLDER ../mnist-vae.safetensors        some ten minutes on one core
"""

import argparse, math, time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

import data

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", required=True, help="folder with MNIST's idx files")
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("out", type=Path)
args = parser.parse_args()

torch.manual_seed(args.seed)
images, validation = data.load("mnist", args.data)[:2]
images, validation = (x.flatten(1).float() / 255 for x in (images, validation))
encoder = nn.Sequential(nn.Linear(784, 500), nn.Softplus(), nn.Linear(500, 500), nn.Softplus(), nn.Linear(500, 40))
decoder = nn.Sequential(nn.Linear(20, 500), nn.Softplus(), nn.Linear(500, 500), nn.Softplus(), nn.Linear(500, 784))
optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
steps = args.epochs * (len(images) // args.batch)
schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / steps, 1))))


def bound(x):
    """The negative evidence bound per image, grey values as probabilities."""
    mean, log_variance = encoder(x).chunk(2, 1)
    z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
    likelihood = F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    return (likelihood + divergence) / len(x)


begun = time.time()
for epoch in range(args.epochs):
    total = 0.0
    for batch in torch.randperm(len(images)).split(args.batch)[: len(images) // args.batch]:
        loss = bound(images[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        total += float(loss.detach())
    with torch.no_grad():
        held = float(bound(validation))
    print(f"epoch {epoch + 1}, {time.time() - begun:.0f} s: training {total / (len(images) // args.batch):.2f}, validation {held:.2f}", flush=True)

tensors = {}
for number, layer in enumerate(layer for layer in decoder if isinstance(layer, nn.Linear)):
    tensors[f"decoder.{number}.weight"] = layer.weight.detach().contiguous()
    tensors[f"decoder.{number}.bias"] = layer.bias.detach().contiguous()
norm = float(images.square().sum(1).mean().sqrt())
save_file(tensors, args.out, {
    "dataset": "mnist", "channels": "1", "image_size": "28", "latent": "20", "root_mean_square_norm": f"{norm:.6f}",
    "epochs": str(args.epochs), "seed": str(args.seed), "validation_bound": f"{held:.3f}",
})
print(f"{args.out}: {args.out.stat().st_size} bytes, root mean square norm {norm:.3f}")
