"""A classifier of MNIST's digits, 784-256-10 (ReLU), that tells whether a reconstruction shows the digit it should: PSNR does not.

    python classifier.py --data FOLDER ../mnist-digits.safetensors        some minutes on one core

Trained with shifts and noise, since reconstructions are neither centred nor clean.
"""

import argparse, math
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


def read(kind):
    folder = next(Path(args.data).rglob(f"{kind}-images-idx3-ubyte")).parent
    images = torch.frombuffer(bytearray((folder / f"{kind}-images-idx3-ubyte").read_bytes()[16:]), dtype=torch.uint8)
    labels = torch.frombuffer(bytearray((folder / f"{kind}-labels-idx1-ubyte").read_bytes()[8:]), dtype=torch.uint8)
    return images.view(-1, 1, 28, 28).float() / 255, labels.long()


images, labels = read("train")
net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))
optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
steps = args.epochs * (len(images) // args.batch)
schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / steps, 1))))
for epoch in range(args.epochs):
    net.train()
    for batch in torch.randperm(len(images)).split(args.batch)[: len(images) // args.batch]:
        x = F.pad(images[batch], (2, 2, 2, 2))
        top, left = torch.randint(5, (2,)).tolist()
        x = x[:, :, top : top + 28, left : left + 28]
        x = x + 0.15 * torch.rand(len(x), 1, 1, 1) * torch.randn_like(x)
        loss = F.cross_entropy(net(x.flatten(1)), labels[batch], label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
net.eval()
test, answers = read("t10k")
with torch.no_grad():
    accuracy = float((net(test.flatten(1)).argmax(1) == answers).float().mean())
tensors = {}
for number, layer in enumerate(layer for layer in net if isinstance(layer, nn.Linear)):
    tensors[f"{number}.weight"] = layer.weight.detach().contiguous()
    tensors[f"{number}.bias"] = layer.bias.detach().contiguous()
save_file(tensors, args.out, {"dataset": "mnist", "accuracy": f"{accuracy:.4f}", "epochs": str(args.epochs), "seed": str(args.seed)})
print(f"{args.out}: {args.out.stat().st_size} bytes, {100 * accuracy:.2f} % of the test digits")
