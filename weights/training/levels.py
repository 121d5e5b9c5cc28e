"""The noise levels: NCSNv2's rules for a schedule, and how training draws from it.

`python levels.py DATASET PATH` measures a data set and prints the schedule that follows.
"""

import math
import sys

import torch

import data


def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def overlap(gamma, dims):
    """Technique 2 of NCSNv2: the share of a level's noise shell that lies within three standard
    deviations of the next level's, when the ratio of the levels is gamma."""
    centre = math.sqrt(2 * dims) * (gamma - 1)
    return phi(centre + 3 * gamma) - phi(centre - 3 * gamma)


def count(begin, end, dims):
    """How many geometric levels from begin to end give an overlap of about one half."""
    low, high = 1.0, 2.0
    for _ in range(60):  # overlap falls as gamma grows
        mid = (low + high) / 2
        low, high = (mid, high) if overlap(mid, dims) > 0.5 else (low, mid)
    return 1 + math.ceil(math.log(begin / end) / math.log(low))


def log_uniform(size, low, high, generator):
    """One draw per stratum: every batch sees every part of the range, and the loss varies less."""
    u = (torch.arange(size) + torch.rand(size, generator=generator)) / size
    return (math.log(low) + u * math.log(high / low)).exp()


def draw(args, batch, generator):
    """One level per image of a batch. Levels are continuous, not the schedule's own: the network
    knows sigma only through its last division, and is later run on any list of levels, so no
    list should be special. `focus_share` of the batch lies where reconstruction works; one in 32 above
    the schedule, so that longer ones (the paper starts at 50) are served too: these levels are nearly linear
    and need little practice. The rest covers the schedule."""
    focus, above = round(args.focus_share * batch), batch // 32
    if batch < 32:  # rounded at random: a single image must have every level sometimes
        focus = int(args.focus_share * batch + torch.rand((), generator=generator))
    return torch.cat([
        log_uniform(focus, *args.focus, generator),
        log_uniform(batch - focus - above, args.sigma_end, args.sigma_begin, generator),
        log_uniform(above, args.sigma_begin, args.sigma_top, generator),
    ])


if __name__ == "__main__":
    train, _ = data.load(sys.argv[1], sys.argv[2])
    begin, dims = data.largest_distance(train), train[0].numel()
    print(f"largest distance {begin:.2f}; {count(begin, 0.01, dims)} levels down to 0.01 in {dims} dimensions")
