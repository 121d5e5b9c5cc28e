"""bf16 autocast: 1.4 to 1.6 times faster where the CPU has AVX-512 BF16, more with AMX, twelve times slower with AVX2."""

import time

import torch

WORTH = 0.9  # bf16 loses digits: it must save a tenth of the time


def seconds(net, x, bf16):
    began = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = net.noise(x, torch.full((len(x),), 0.3)).square().mean()
    loss.backward()
    net.zero_grad()
    return time.perf_counter() - began


def bf16_is_faster(net, x, rounds=3):
    """Both in turn, the best of each: other programs slow single rounds down. Four images, for where it is slow it is very slow."""
    x = x[:4]
    times = [(seconds(net, x, False), seconds(net, x, True)) for _ in range(rounds + 1)][1:]
    f32, bf16 = (min(t) for t in zip(*times))
    print(f"forward and backward of 4: {f32:.2f} s in f32, {bf16:.2f} s in bf16", flush=True)
    return bf16 < WORTH * f32
