"""What a prior for photographs says of its data, from all training photographs: the mean of each channel, the variance about it, and mean
and spread of ln rms. The size of its images is that of the table.

    python channel_mean.py calibrated.safetensors photo.safetensors --data PHOTOS

`qcs calibrate` takes the mean image of those it denoises. Photographs have no mean image: that of a few shows them.
"""

import argparse
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

import photos


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calibrated")
    parser.add_argument("file")
    parser.add_argument("--data", type=Path, required=True, help="folder that has `train`")
    args = parser.parse_args()
    pixels = [np.asarray(photo).reshape(-1, photos.CHANNELS) / 255 for photo in photos.read(args.data / "train")]
    mean = np.mean([p.mean(0) for p in pixels], 0)
    variance = np.mean([np.square(p - mean).mean() for p in pixels])
    logs = np.log([np.sqrt(np.square(p).mean()) for p in pixels])
    with safe_open(args.calibrated, "np") as f:
        tensors, metadata = {name: f.get_tensor(name) for name in f.keys()}, f.metadata()
    tensors["denoiser.mean"] = mean.astype(np.float32)
    metadata |= {"dataset": "photographs", "image_size": metadata["denoiser.shape"].split(",")[-1]}
    metadata |= {"denoiser.variance": f"{variance:.6f}", "denoiser.log_rms_mean": f"{logs.mean():.4f}", "denoiser.log_rms_spread": f"{logs.std():.4f}"}
    save_file(tensors, args.file, metadata)
    print(f"{args.file}: mean {mean.round(4)}, variance {variance:.4f}, ln rms {logs.mean():.4f} ± {logs.std():.4f}")


if __name__ == "__main__":
    main()
