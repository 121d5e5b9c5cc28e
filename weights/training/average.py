"""The mean of the weights of two priors, one of them trained on from the other: it keeps what the first could and what the second learnt.

    python average.py first.safetensors second.safetensors mean.safetensors [--half]

Metadata are the second's; `qcs calibrate` measures the result.
"""

import argparse

from safetensors.torch import save_file

import prior


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("mean")
    parser.add_argument("--half", action="store_true", help="float16 weights")
    args = parser.parse_args()
    (before, _), (after, metadata) = prior.read(args.first), prior.read(args.second)
    if {k: t.shape for k, t in before.items() if k != "sigmas"} != {k: t.shape for k, t in after.items() if k != "sigmas"}:
        raise SystemExit(f"{args.first} and {args.second} are not of one shape")
    mean = {k: t if k == "sigmas" else before[k].lerp(t, 0.5) for k, t in after.items()}
    save_file({k: t.contiguous() for k, t in (prior.halved(mean) if args.half else mean).items()}, args.mean, metadata)


if __name__ == "__main__":
    main()
