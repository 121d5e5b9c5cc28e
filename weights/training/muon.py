"""Muon (Jordan et al., 2024) for the convolutions inside the network.

Forked from one checkpoint and given identical batches, its loss was 7 % below Adam's after 60 steps,
for about 7 % more time a step (README.md has the table and its limits): with a CPU's small budget of
steps, that is worth a file. Norms, biases, the first and the last convolution stay with Adam.
"""

import math
from collections import defaultdict

import torch

MOMENTUM = 0.95


def orthogonalise(g):
    """The nearest semi-orthogonal matrices to a stack of matrices, roughly: five steps of the
    quintic Newton-Schulz iteration, which only needs every singular value brought close to 1."""
    wide = g if g.shape[1] <= g.shape[2] else g.mT
    x = wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-12)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x if wide is g else x.mT


class Muon:
    """Takes the gradients of its weights: after `step` they are None, and Adam passes over them."""

    def __init__(self, net):
        edges = ("begin_conv.weight", "end_conv.weight")
        self.weights = {n: p for n, p in net.named_parameters() if p.ndim == 4 and n not in edges}
        self.momentum = {n: torch.zeros_like(p) for n, p in self.weights.items()}
        self.same_shape = defaultdict(list)  # equal matrices are orthogonalised in one batch
        for name, p in self.weights.items():
            self.same_shape[p.shape].append(name)

    @torch.no_grad()
    def step(self, lr, dtype=torch.float32):
        """`dtype`: of the orthogonalisation. bf16, as Muon's authors have it, where that is fast."""
        for shape, names in self.same_shape.items():
            rows, columns = shape[0], shape[1:].numel()
            updates = []
            for name in names:
                grad = self.weights[name].grad
                momentum = self.momentum[name].lerp_(grad, 1 - MOMENTUM)
                updates.append(grad.lerp(momentum, MOMENTUM).reshape(rows, columns))  # Nesterov
            # An orthogonal update has entries of size 1/sqrt(max(rows, columns)); the factor gives
            # them Adam's usual size of about 0.2, so that learning rates mean the same for both.
            scale = 0.2 * math.sqrt(max(rows, columns)) * lr
            for name, update in zip(names, orthogonalise(torch.stack(updates).to(dtype))):
                self.weights[name].sub_(scale * update.reshape(shape).float())
                self.weights[name].grad = None
