"""The mean of the weights of two priors, one of them trained on from the other: it keeps what the first could and what the second learnt.

    python average.py first.safetensors second.safetensors mean.safetensors

Metadata are the second's; `qcs calibrate` measures the result.
"""

import sys

from safetensors.torch import save_file

import prior


def main(first, second, out):
    (before, _), (after, metadata) = prior.read(first), prior.read(second)
    if {k: t.shape for k, t in before.items() if k != "sigmas"} != {k: t.shape for k, t in after.items() if k != "sigmas"}:
        raise SystemExit(f"{first} and {second} are not of one shape")
    mean = {k: t if k == "sigmas" else before[k].lerp(t, 0.5) for k, t in after.items()}
    save_file({k: t.contiguous() for k, t in mean.items()}, out, metadata)


if __name__ == "__main__":
    main(*sys.argv[1:])
