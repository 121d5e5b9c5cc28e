#!/usr/bin/env python3
"""Runs 10,000 images through a small network and watches the memory: flat from the thousandth image on.

    tests/scripts/flat-memory.py target/release/qcs [IMAGES]

Random 28x28 images, the shipped prior, the shortest schedule: it is about memory, not about pictures. Linux only.
"""

import json
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SIDE = 28


def write_images(path, count):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 1, {SIDE}, {SIDE}), }}"
    header = header.ljust(117) + "\n"
    noise = random.Random(1)
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        out.write(noise.randbytes(count * SIDE * SIDE))


def resident(pid):
    """MB that the process holds now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000


def main():
    qcs, images = str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_images(folder / "images.npy", images)
        command = [qcs, "run", "images.npy", "--out", "run", "-m", "100", "--method", "diag", "--levels", "2", "--steps-per-level", "1",
                   "--batch", "32", "--step-scale", "1e-6", "--device", "cpu"]
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        said = []
        threading.Thread(target=lambda: said.extend(process.stderr), daemon=True).start()
        samples = []  # (images done, MB)
        while process.poll() is None:
            blocks = sum(1 for _ in folder.glob("run/checkpoint-diag*.safetensors"))
            try:
                samples.append((max(0, blocks - 1) * 1024, resident(process.pid)))
            except (OSError, TypeError):
                break
            time.sleep(0.1)
        if process.wait() != 0:
            sys.exit("".join(said))
        metrics = json.loads((folder / "run/metrics.json").read_text())
        assert metrics["methods"][0]["images"] == images
        early = max(mb for done, mb in samples if done <= 1024)
        late = max(mb for done, mb in samples if done > 1024)
        for done in sorted({done for done, _ in samples}):
            mb = [mb for at, mb in samples if at == done]
            print(f"{done:6} images done: {min(mb):6.1f} to {max(mb):6.1f} MB")
        print(f"peak up to image 1024: {early:.1f} MB, after: {late:.1f} MB, {100 * (late / early - 1):+.1f} %")
        if late > 1.1 * early:
            sys.exit("the memory grows")


main()
