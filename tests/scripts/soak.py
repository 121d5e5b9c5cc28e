#!/usr/bin/env python3
"""Batch jobs at full load with random kills and requeues: every result must be that of a run that nobody killed, and neither memory
nor open files nor throughput may drift.

    tests/scripts/soak.py target/release/qcs [--minutes 60] [--plot soak.svg] [--seed 0]

A worker to each core takes the next share of the current job (`qcs run --shard I/N --resume`, one thread), kills it with a chance of
one half at a random moment (SIGKILL, SIGTERM or SIGUSR1), and requeues it until it is done. When all shares are, `qcs merge` puts the
job together, its samples are compared with those of one run, and the next job begins. Prints a line per minute: the most memory and open
files of any one process, images per minute, kills. Linux, Python alone. Exits with 1 at the first difference.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SHARDS, DIGITS = 5, 10
METHODS = ["turbo", "diag,ep --levels 20", "turbo --chains 2", "ep --levels 30 --bits 2"]
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1]


class Soak:
    def __init__(self, args, folder):
        self.qcs, self.folder, self.seconds = args.qcs, folder, args.minutes * 60
        self.lock, self.living = threading.Lock(), {}
        self.images = self.kills = self.jobs = 0
        self.wrong = None
        self.chance = random.Random(args.seed)
        self.begun = time.time()

    def over(self):
        return self.wrong is not None or time.time() - self.begun > self.seconds

    def command(self, method, out, *more):
        line = f"run bundled:digits -m 100 --matrix gaussian --seed 4 --method {method} --pictures grid --out {out}"
        return [self.qcs, "--quiet", "--threads", "1", *line.split(), *more]

    def run(self, command, patience):
        """Runs a command, kills it if it takes longer than `patience`; True if it came to its end."""
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with self.lock:
            self.living[process.pid] = True
        try:
            _, said = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.send_signal(self.chance.choice(SIGNALS))
            _, said = process.communicate()
            with self.lock:
                self.kills += 1
        with self.lock:
            del self.living[process.pid]
        if process.returncode not in (0, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGUSR1):
            self.wrong = f"{' '.join(command)}: exit code {process.returncode}\n{said}"
        return process.returncode == 0

    def share(self, method, out, index):
        while not self.over():
            patience = self.chance.expovariate(1 / 1.5) if self.chance.random() < 0.5 else None
            if self.run(self.command(method, out, "--shard", f"{index}/{SHARDS}", "--resume"), patience):
                with self.lock:
                    self.images += DIGITS // SHARDS
                return

    def job(self, number):
        which = number % len(METHODS)
        method, whole, out = METHODS[which], self.folder / f"whole-{which}", f"job-{number}"
        if not whole.exists() and not self.run(self.command(method, whole.name), None):
            return
        todo = list(range(1, SHARDS + 1))

        def work():
            while todo and not self.over():
                with self.lock:
                    index = todo.pop() if todo else None
                if index is not None:
                    self.share(method, out, index)

        workers = [threading.Thread(target=work) for _ in range(os.cpu_count())]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if self.over():
            return
        if not self.run([self.qcs, "--quiet", "merge", out], None):
            self.wrong = self.wrong or f"{out}: not merged"
            return
        for path in whole.glob("*/samples.npy"):
            name = path.relative_to(whole)
            if (self.folder / out / name).read_bytes() != path.read_bytes():
                self.wrong = f"{out}/{name} differs"
        left = [p.name for p in (self.folder / out).rglob("*.tmp")]
        if left:
            self.wrong = f"{out}: left behind: {left}"
        shutil.rmtree(self.folder / out)
        self.jobs += 1

    def watch(self, minutes):
        """Appends (MB, open files, images, kills) once a minute."""
        memory = files = images = kills = 0
        turned = time.time()
        while not self.over():
            time.sleep(0.2)
            with self.lock:
                living = list(self.living)
            for pid in living:
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                    memory = max(memory, *(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmRSS")), 0)
                    files = max(files, len(os.listdir(f"/proc/{pid}/fd")))
                except (OSError, TypeError):
                    pass
            if time.time() - turned >= 60:
                turned += 60
                minutes.append((memory, files, self.images - images, self.kills - kills))
                print("minute {}: {:.0f} MB, {} open files, {} images, {} kills".format(len(minutes), *minutes[-1]), flush=True)
                memory = files = 0
                images, kills = self.images, self.kills


def plot(path, minutes):
    """Three charts, one above the other."""
    rows = [("MB of the largest process", 0), ("open files of any process", 1), ("images in a minute", 2)]
    width, height = 640, 150
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height * len(rows)}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#ffffff"/>']
    for row, (name, column) in enumerate(rows):
        top, bottom, left, right = row * height + 30, (row + 1) * height - 20, 50, width - 20
        values = [minute[column] for minute in minutes]
        most = max(values + [1]) * 1.1
        place = [(left + (right - left) * i / max(1, len(values) - 1), bottom - (bottom - top) * v / most) for i, v in enumerate(values)]
        out.append(f'<text x="{left}" y="{top - 10}" fill="#202124">{name}</text>')
        for share in (0, 0.5, 1):
            y = bottom - (bottom - top) * share
            out.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#dee1e6"/>')
            out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#5f6368">{most * share:.0f}</text>')
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in place)
        out.append(f'<path d="M{line}" fill="none" stroke="#0072b2" stroke-width="2"/>')
    out.append(f'<text x="50" y="{height * len(rows) - 4}" fill="#5f6368">{len(minutes)} minutes</text></svg>\n')
    Path(path).write_text("\n".join(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("qcs", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--plot", default="soak.svg")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.environ["QCS_DEVICE"] = "cpu"
    folder = Path(tempfile.mkdtemp(prefix="qcs-soak-"))
    soak, minutes = Soak(args, folder), []
    watcher = threading.Thread(target=soak.watch, args=(minutes,))
    watcher.start()
    number = 0
    while not soak.over():
        soak.job(number)
        number += 1
    watcher.join()
    shutil.rmtree(folder)
    if minutes:
        plot(args.plot, minutes)
    print(f"{soak.jobs} jobs of {SHARDS} shares merged and compared, {soak.images} images, {soak.kills} kills in {len(minutes)} minutes")
    if soak.wrong:
        sys.exit(soak.wrong)


main()
