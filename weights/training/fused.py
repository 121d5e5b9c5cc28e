"""ELU, and InstanceNorm++ or a given scale and shift followed by ELU, each in one pass over memory: fused.cpp, compiled on first use with the machine's C++
compiler. Where there is none PyTorch's own operations do the same.

    python fused.py        compares both, forwards and backwards
"""

import copy
import ctypes
import functools

import torch
import torch.nn.functional as F

from native import compiled

NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}


@functools.cache
def library():
    flags = "-O3 -ffast-math -fno-finite-math-only -mprefer-vector-width=512 -std=c++17".split()
    return compiled("fused.cpp", ("c++", "g++"), *flags)


def call(name, like, *args):
    pass_on = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_long(a) for a in args]
    getattr(library(), f"{name}_{NAMES[like.dtype]}")(*pass_on)


def channels_last(x):
    return x.contiguous(memory_format=torch.channels_last)


class Elu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = channels_last(x)
        y = torch.empty_like(x)
        call("elu_forward", x, x, y, x.numel())
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dy, dx = channels_last(dy), torch.empty_like(y)
        call("elu_backward", y, y, dy, dx, y.numel())
        return dx


class NormElu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha, gamma, beta):
        x = channels_last(x)
        (n, c, h, w), y = x.shape, torch.empty_like(x)
        saved = torch.empty(n, 3 * c + 1)
        call("norm_elu_forward", x, x, alpha, gamma, beta, y, saved, n, h * w, c)
        ctx.save_for_backward(x, y, alpha, gamma, saved)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, y, alpha, gamma, saved = ctx.saved_tensors
        (n, c, h, w), dy, dx = x.shape, channels_last(dy), torch.empty_like(x)
        sums = torch.zeros(3, c)
        call("norm_elu_backward", x, x, y, dy, alpha, gamma, saved, dx, *sums, n, h * w, c)
        return dx, *sums


class AffineElu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, terms):
        x, terms = channels_last(x), terms.float().contiguous()
        (n, c, h, w), y = x.shape, torch.empty_like(x)
        call("affine_elu_forward", x, x, terms, y, n, h * w, c)
        ctx.save_for_backward(x, y, terms)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, y, terms = ctx.saved_tensors
        (n, c, h, w), dy, dx = x.shape, channels_last(dy), torch.empty_like(x)
        sums = torch.empty_like(terms)
        call("affine_elu_backward", x, x, y, dy, terms, dx, sums, n, h * w, c)
        return dx, sums


class MaxPool(torch.autograd.Function):
    """5x5, stride 1."""

    @staticmethod
    def forward(ctx, x):
        x = channels_last(x)
        (n, c, h, w), y, which = x.shape, torch.empty_like(x), torch.empty_like(x, dtype=torch.uint8)
        call("max_pool_forward", x, x, y, which, n, h, w, c)
        ctx.save_for_backward(which)
        return y

    @staticmethod
    def backward(ctx, dy):
        (which,) = ctx.saved_tensors
        (n, c, h, w), dy = which.shape, channels_last(dy)
        dx = torch.empty_like(dy)
        call("max_pool_backward", dy, dy, which, dx, n, h, w, c)
        return dx


def can_fuse(x):
    return x.dtype in NAMES and library()


def max_pool(x):
    """Of 5x5 pixels around each."""
    return MaxPool.apply(x) if can_fuse(x) else F.max_pool2d(x, 5, stride=1, padding=2)


def elu(x):
    return Elu.apply(x) if can_fuse(x) else F.elu(x)


def norm_elu(norm, x):
    """`norm`, an InstanceNormPlus, then ELU."""
    if can_fuse(x):
        return NormElu.apply(x, norm.alpha, norm.gamma, norm.beta)
    return F.elu(norm(x))


def affine_elu(x, terms):
    """elu(scale x + shift); `terms` holds the scales of an image's channels and then their shifts, [n, 2 channels]."""
    if can_fuse(x):
        return AffineElu.apply(x, terms)
    scale, shift = terms[:, :, None, None].chunk(2, 1)
    return F.elu(scale * x + shift)


def plain_affine_elu(norm, x):
    scale, shift = (p.view(1, -1, 1, 1) for p in (norm.gamma, norm.beta))
    return F.elu(scale * x + shift)


def difference(plain, fused, dtype, x, dy, norm):
    """The largest difference of output and gradients to PyTorch's in f64, relative to the largest value."""
    results = []
    for run, kind, own in ((plain, torch.float64, copy.deepcopy(norm).double()), (fused, dtype, copy.deepcopy(norm))):
        v = x.to(kind, copy=True).requires_grad_()
        y = run(own, v)
        y.backward(dy.to(kind))
        results.append([t.detach().double() for t in (y, v.grad, *(p.grad for p in own.parameters() if p.grad is not None))])
    return max(((a - b).abs().max() / a.abs().max()).item() for a, b in zip(*results))


def check():
    """Whether all of it agrees with PyTorch."""
    from ncsnv2 import InstanceNormPlus

    agrees = True
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)):
        for channels in (24, 32, 64):
            torch.manual_seed(channels)
            norm = InstanceNormPlus(channels)
            norm.beta.data.normal_()
            x = (3 * torch.randn(4, channels, 14, 14) + torch.randn(1, channels, 1, 1)).to(dtype)
            dy = torch.randn_like(x)
            # Every value once, so that a pool has one largest; few enough that bf16 tells them apart, sums of gradients exact.
            distinct = (torch.randperm(256).view(1, 1, 16, 16) - 128.0).expand(2, channels, 16, 16)
            whole = torch.randint(-2, 3, distinct.shape).float()
            errors = dict(
                elu=difference(lambda _, v: F.elu(v), lambda _, v: elu(v), dtype, x, dy, norm),
                max_pool=difference(lambda _, v: F.max_pool2d(v, 5, 1, 2), lambda _, v: max_pool(v), dtype, distinct, whole, norm),
                norm_elu=difference(lambda n, v: F.elu(n(v)), norm_elu, dtype, x, dy, norm),
                affine_elu=difference(plain_affine_elu, lambda n, v: affine_elu(v, torch.cat([n.gamma, n.beta]).expand(len(v), -1)), dtype, x, dy, norm))
            print(f"{NAMES[dtype]}, {channels} channels: " + ", ".join(f"{k} {e:.1e}" for k, e in errors.items()))
            agrees &= max(errors.values()) <= bound and errors["max_pool"] == 0
    return agrees


if __name__ == "__main__":
    raise SystemExit(0 if library() and check() else 1)
