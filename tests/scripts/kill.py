#!/usr/bin/env python3
"""Kills runs at random moments and resumes them until they are done: the results must be those of a run that nobody killed.

    tests/scripts/kill.py target/release/qcs [--kills 200] [--seed 0]

Needs Python alone. A run is one of several kinds (every method, chains, measured or from a problem file, `qcs sample`), started
with --resume; it gets SIGKILL, SIGTERM or SIGINT after a random part of the time that it takes whole. Then the same command is
typed again. When it ends, every byte of every file is compared (times apart), and nothing may be left beside them. Prints how
many kills hit a living process, where they did, and exits with 1 at the first difference.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = {
    "all methods": "run bundled:digits --count 2 -m 40 --levels 12 --method all --out OUT",
    "chains": "run bundled:digits --count 1 --first 3 -m 60 --bits 2 --levels 15 --chains 3 --batch 2 --out OUT",
    "turbo's draws": "run p.safetensors --first 1 --method turbo --chains 3 --batch 2 --out OUT",
    "problem": "run p.safetensors --levels 15 --method ep --batch 1 --out OUT",
    "sample": "sample --count 3 --levels 20 --batch 2 -o OUT/sheet.png --samples OUT/s.npy",
}
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]


def contents(folder):
    """The bytes of every file; of the metrics without their times."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.name == "metrics.json":
            report = json.loads(data)
            report.pop("checksum", None)
            for method in report["methods"]:
                method["seconds"] = None
            data = json.dumps(report).encode()
        found[str(path.relative_to(folder))] = data
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("qcs", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    folder = Path(tempfile.mkdtemp(prefix="qcs-kill-"))
    environment = os.environ | {"QCS_DEVICE": "cpu"}

    def command(line, out):
        return [args.qcs, "--quiet", "--threads", "2", *line.replace("OUT", out).split()]

    def start(line, out):
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command(line, out), cwd=folder, env=environment, **streams)

    def finish(process, what):
        said = process.communicate()[1]
        if process.returncode != 0:
            sys.exit(f"{what}: exit code {process.returncode}: {said}")

    finish(start("measure bundled:digits --count 3 -m 50 -o p.safetensors", ""), "measure")
    whole, seconds = {}, {}
    for name, line in RUNS.items():
        out = name.replace(" ", "-").replace("'", "") + "-whole"
        (folder / out).mkdir()
        begun = time.monotonic()
        finish(start(line, out), name)
        whole[name], seconds[name] = contents(folder / out), time.monotonic() - begun

    kills, compared, by_signal, before = 0, 0, collections.Counter(), collections.Counter()
    while kills < args.kills:
        name = chance.choice(list(RUNS))
        out = "killed"
        shutil.rmtree(folder / out, ignore_errors=True)
        (folder / out).mkdir()
        for attempt in range(10_000):
            process = start(RUNS[name] + " --resume", out)
            if kills < args.kills and attempt < 8:
                # Every third in the first moments, when the folder is taken.
                moment = 0.03 if chance.random() < 0.33 else 0.9 * seconds[name]
                try:
                    process.wait(chance.uniform(0, moment))
                except subprocess.TimeoutExpired:
                    number = chance.choice(SIGNALS)
                    process.send_signal(number)
                    said = process.communicate()[1]
                    kills += 1
                    by_signal[number.name] += 1
                    before["with a checkpoint" if list((folder / out).glob("*checkpoint*")) else "without"] += 1
                    if process.returncode not in (-number, 130, 0):
                        sys.exit(f"{name}: {number.name} gave {process.returncode}: {said}")
                    if process.returncode == 0:
                        break
                    continue
            finish(process, name)
            break
        if contents(folder / out) != whole[name]:
            theirs, ours = whole[name], contents(folder / out)
            differing = [file for file in sorted(set(theirs) | set(ours)) if theirs.get(file) != ours.get(file)]
            sys.exit(f"{name}: other bytes in {differing}; see {folder}")
        compared += 1
    shutil.rmtree(folder)
    print(f"{kills} kills ({dict(by_signal)}; {dict(before)}), {compared} runs resumed to the same bytes")


main()
