#!/usr/bin/env python3
"""Assembles the committed PTX and writes kernels/RESOURCES.md: registers, shared memory, occupancy and inner loops.

    kernels/check-sass.py            write kernels/RESOURCES.md
    kernels/check-sass.py --check    compare with the committed file instead

Fails if a kernel spills registers or keeps anything in local memory, or if a convolution falls below the limits in `complaints`. Of the
loops on tensor cores it reads ptxas' control codes too (schedule.py).
Needs ptxas 12.9 (the wheel nvidia-cuda-nvcc-cu12 12.9.86) and cuobjdump (the wheel triton 3.4.0; later ones no longer
know sm_70), on the PATH or named by QCS_PTXAS and QCS_CUOBJDUMP. nvdisasm must stand beside cuobjdump.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import schedule

KERNELS = Path(__file__).resolve().parent
PTX_OF = {70: "qcs_sm_70.ptx", 80: "qcs_sm_80.ptx", 90: "qcs_sm_80.ptx"}
# Warps, blocks, 32-bit registers and shared memory in bytes of a multiprocessor; shared memory that a block costs.
MULTIPROCESSOR = {
    70: (64, 32, 65536, 96 * 1024, 0),
    80: (64, 32, 65536, 164 * 1024, 1024),
    90: (64, 32, 65536, 228 * 1024, 1024),
}
DEFAULT_THREADS = 256
# Instructions that do the work of a loop.
WORK = ("FFMA", "HMMA", "DFMA")


def tool(name, variable):
    path = os.environ.get(variable) or shutil.which(name)
    if not path:
        sys.exit(f"check-sass: no {name}: put it on the PATH or set {variable}")
    return path


def assemble(ptxas, arch, cubin):
    """Registers, shared memory, local memory and spills of each kernel, as ptxas reports them."""
    ptx = KERNELS / "ptx" / PTX_OF[arch]
    done = subprocess.run([ptxas, "-v", f"-arch=sm_{arch}", ptx, "-o", cubin], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"check-sass: {ptx.name} for sm_{arch}:\n{done.stderr}")
    kernels, name = {}, None
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
            kernels[name] = {"local": 0, "spills": 0}
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            kernels[name]["local"] = int(found[1])
            kernels[name]["spills"] = int(found[2]) + int(found[3])
        elif found := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            kernels[name].update(registers=int(found[1]), shared=int(shared[1]) if shared else 0)
    threads = launch_bounds(ptx.read_text())
    for name, kernel in kernels.items():
        kernel["threads"] = threads.get(name, DEFAULT_THREADS)
    return kernels


def launch_bounds(ptx):
    entries = re.findall(r"\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)", ptx)
    return {name: int(threads) for name, threads in entries}


def occupancy(arch, kernel):
    """Blocks that a multiprocessor holds, and the share of its warps they are."""
    warps, blocks, registers, shared, per_block = MULTIPROCESSOR[arch]
    needed = -(-kernel["threads"] // 32)
    # Registers are handed out to warps in pieces of 256.
    of_warp = -(-kernel["registers"] * 32 // 256) * 256
    fit = min(blocks, warps // needed, registers // of_warp // 4 * 4 // needed)
    if kernel["shared"]:
        fit = min(fit, shared // (kernel["shared"] + per_block))
    return fit, fit * needed / warps


def disassemble(cuobjdump, cubin):
    """The SASS of each kernel."""
    text = subprocess.run([cuobjdump, "-sass", cubin], capture_output=True, text=True, check=True).stdout
    parts = re.split(r"Function : (\w+)", text)
    return dict(zip(parts[1::2], parts[2::2]))


def inner_loop(text, blocks):
    """Of the loop with the most arithmetic: which instruction, how many of them, of how many instructions, and the loads
    from shared memory; of one on tensor cores also its schedule."""
    code = schedule.instructions(text)
    place = {instruction.address: n for n, instruction in enumerate(code)}
    best = None
    for n, instruction in enumerate(code):
        target = place.get(instruction.target)
        if target is None or target >= n:
            continue
        body = code[target : n + 1]
        for work in WORK:
            count = sum(i.kind == work for i in body)
            if count and (best is None or count > best["count"]):
                best = {
                    "work": work,
                    "count": count,
                    "of": sum(i.opcode != "NOP" for i in body),
                    "shared": sum(i.opcode.startswith("LDS") for i in body),
                    "loop": (target, n + 1),
                }
    if best and best["work"] == "HMMA":
        best |= schedule.read(code, *best["loop"], blocks)
    return best


def complaints(arch, name, kernel, loop):
    if kernel["local"] or kernel["spills"]:
        yield f"sm_{arch} {name}: {kernel['local']} bytes of local memory, {kernel['spills']} bytes of spills"
    if name.startswith("conv_f32_128x128") and loop["count"] < 0.85 * loop["of"]:
        yield f"sm_{arch} {name}: {loop['count']} FFMA of {loop['of']} instructions"
    if name.startswith(("conv_f16", "conv_tf32")) and loop["shared"]:
        yield f"sm_{arch} {name}: {loop['shared']} loads from shared memory in a loop that should have none"
    # Hopper runs what is made for Ampere; nobody has read how well.
    if name.startswith(("conv_f16", "conv_tf32")) and name.endswith("64x64") and arch < 90:
        if loop["stalls"] > 1.25 * loop["tensor"]:
            yield f"sm_{arch} {name}: stall counts of {loop['stalls']} for {loop['tensor']} cycles of the tensor cores"
        if loop["pass"][-1] > 1.2 * len(loop["pass"]) * loop["tensor"]:
            yield f"sm_{arch} {name}: a pass of all blocks takes {loop['pass'][-1]} cycles"
        if loop["ahead"] < 60:
            yield f"sm_{arch} {name}: a product waits for a load {loop['ahead']} cycles before it"
    if "128x128" in name and occupancy(arch, kernel)[0] < 2:
        yield f"sm_{arch} {name}: {occupancy(arch, kernel)[0]} block per multiprocessor"


def table(arch, rows):
    lines = [
        f"## sm_{arch}",
        "",
        "| kernel | threads | registers | shared memory | blocks per SM | warps | inner loop |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, kernel, loop in rows:
        blocks, share = occupancy(arch, kernel)
        inner = ""
        if loop and loop["count"] >= 8:
            inner = f"{loop['count']} {loop['work']} of {loop['of']} ({loop['count'] / loop['of']:.0%})"
            inner += f", {loop['shared']} shared loads" if loop["shared"] else ""
            if "stalls" in loop:
                inner += f"; stalls {loop['stalls']} for {loop['tensor']} ({loop['stalls'] / loop['tensor']:.2f}), loads {loop['ahead']} ahead"
                inner += f", {loop['outside']} outside; pass {' '.join(map(str, loop['pass']))}, rest {' '.join(map(str, loop['rest']))}"
        numbers = f"{kernel['threads']} | {kernel['registers']} | {kernel['shared']} | {blocks} | {share:.0%}"
        lines.append(f"| `{name}` | {numbers} | {inner} |")
    return lines + [""]


def main():
    ptxas, cuobjdump = tool("ptxas", "QCS_PTXAS"), tool("cuobjdump", "QCS_CUOBJDUMP")
    lines = [
        "# What the kernels take",
        "",
        "Generated by `kernels/check-sass.py` from the committed PTX with ptxas 12.9; do not edit. No kernel spills or uses",
        "local memory. *warps* is the share of a multiprocessor's warps that are resident; *inner loop* is the loop with the",
        "most arithmetic: fused multiply-adds (FFMA, DFMA) or matrix instructions (HMMA) among all its instructions. Of matrix",
        "instructions: *stalls*, ptxas' stall counts of a pass, for the cycles that they take the tensor cores; *loads ahead*, the",
        "stall counts between a product and the nearest load that it waits for; *outside*, the stall counts on a warp's way before and",
        "behind the loop in a 3×3 layer with a bias alone. *pass* and *rest* are what the control codes come to in cycles with one, two and",
        f"more blocks at a time, if a load takes {schedule.LOAD}: of a pass of all of them, and outside of the loop (`schedule.py`).",
        "",
    ]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for arch in PTX_OF:
            cubin = str(Path(folder) / f"{arch}.cubin")
            kernels = sorted(assemble(ptxas, arch, cubin).items())
            sass = disassemble(cuobjdump, cubin)
            rows = [(name, kernel, inner_loop(sass[name], occupancy(arch, kernel)[0])) for name, kernel in kernels]
            wrong += [c for row in rows for c in complaints(arch, *row)]
            lines += table(arch, rows)
    text = "\n".join(lines)
    if wrong:
        sys.exit("check-sass:\n" + "\n".join(wrong))
    path = KERNELS / "RESOURCES.md"
    if "--check" in sys.argv[1:]:
        if path.read_text() != text:
            sys.exit("check-sass: kernels/RESOURCES.md is not what the PTX gives: run kernels/check-sass.py")
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
