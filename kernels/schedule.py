"""Reads the schedule that ptxas made of a kernel on tensor cores: control codes, and what they add up to.

A warp issues an instruction when the stall count of the one before has passed and the scoreboards that it waits for are free. So the
machine code itself says how many cycles a pass of the main loop takes, but for how long a load takes, and other warps. `cycles` plays that for
the warps of one scheduler, one of each block. benches/predict/src/tests.rs holds the outcome against a cycle-level simulator.
"""

import re

# An instruction, and its two words: the control code is the upper word from bit 41 on.
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+([^;]+);\s*/\* 0x[0-9a-f]{16} \*/\s*/\* 0x([0-9a-f]{16}) \*/")
BOARDS = 6

# Cycles that a matrix instruction takes the tensor cores of a quarter of a multiprocessor, and until its result is there: the
# simulator's assumption, and of Ampere's what microbenchmarks publish.
TENSOR_CYCLES = {"884": 2, "16816": 8, "1688": 8}
PRODUCT = {"884": 14, "16816": 33, "1688": 25}
# Cycles until a value is there: from L1 and L2 on the average (the simulator: 238 and 248), from shared memory, from anything
# else that signals a scoreboard. And for a barrier, and until the registers of what is stored are free.
LOAD, SHARED, OTHER, BARRIER, READ = 240, 28, 20, 10, 8
# What goes through the one port of L1 and shared memory.
PORT = {"LDG", "LDS", "STS", "STG"}
# An optional part of a kernel that has one of these is not on the way of a layer with a bias alone: statistics, a prepared output, and
# a division's rare case.
OPTIONAL = ("SHFL", "F2F", "MUFU.EX2", "CALL")


class Instruction:
    def __init__(self, address, text, upper):
        control = int(upper, 16) >> 41
        self.address, self.text = int(address, 16), text.strip()
        self.conditional = self.text.startswith("@")
        self.opcode = re.sub(r"^@!?U?P\w+ ", "", self.text).split()[0]
        self.kind = self.opcode.split(".")[0]
        jump = re.search(r"BRA (?:`\(\.L\w+\)|0x([0-9a-f]+))", self.text)
        self.target = int(jump[1], 16) if jump and jump[1] else None
        # Cycles until the warp's next instruction, the scoreboards that the result and the operands signal (7: none), those
        # that are waited for.
        self.stall, self.signals, self.frees = control & 15, control >> 5 & 7, control >> 8 & 7
        self.awaits = [board for board in range(BOARDS) if control >> 11 + board & 1]
        self.tensor = TENSOR_CYCLES[self.opcode.split(".")[1]] if self.kind == "HMMA" else 0

    def port(self):
        """Cycles that the four warps of a block, which do the same, take of the port: 128 bytes each."""
        return 0 if self.kind not in PORT else 16 if ".128" in self.opcode else 8 if ".64" in self.opcode else 4

    def latency(self):
        if self.kind == "HMMA":
            return PRODUCT[self.opcode.split(".")[1]]
        return LOAD if self.kind == "LDG" else SHARED if self.kind in PORT else OTHER


def instructions(text):
    return [Instruction(*found) for found in INSTRUCTION.findall(text)]


def optional(code, places, start, end):
    """Whether this part is one that a layer with a bias alone leaves out: it has an instruction of such, which no branch within it passes over."""
    passed = start
    for n in range(start, end):
        i = code[n]
        if n >= passed and i.opcode.startswith(OPTIONAL):
            return True
        to = places.get(i.target) if i.conditional else None
        if to is not None and to <= end:
            passed = max(passed, to)
    return False


def way(code, places, n, end):
    """What a warp executes from `n` to `end` in a 3×3 layer with a bias alone."""
    taken = []
    while n != end:
        at = code[n]
        taken.append(at)
        if at.kind == "EXIT" and not (at.conditional and any(i.kind == "BAR" for i in code[n:])):
            break
        to = places.get(at.target)
        if to is not None and (not at.conditional or to > n and optional(code, places, n + 1, to)):
            n = to
            continue
        n += 1
    return taken


def cycles(way, blocks):
    """Of one scheduler with a warp of each of so many blocks. It goes on with a warp as long as it can."""
    ready, at = [0] * blocks, [0] * blocks
    boards = [[0] * BOARDS for _ in range(blocks)]
    now = tensor = port = end = last = 0
    while True:
        first, chosen = None, None
        for warp in [last] + [warp for warp in range(blocks) if warp != last]:
            if at[warp] == len(way):
                continue
            i = way[at[warp]]
            start = max([now, ready[warp], tensor if i.tensor else 0] + [boards[warp][board] for board in i.awaits])
            if first is None or start < first:
                first, chosen = start, warp
        if chosen is None:
            return end
        now, last, i = first, chosen, way[at[chosen]]
        if i.tensor:
            tensor = now + i.tensor
        begun = now
        if i.kind in PORT:
            begun = port = max(port, now) + i.port()
        mine = boards[chosen]
        if i.signals < BOARDS:
            mine[i.signals] = max(mine[i.signals], begun + i.latency())
        if i.frees < BOARDS:
            mine[i.frees] = max(mine[i.frees], begun + READ)
        end = max(end, begun + i.latency())
        ready[chosen] = now + max(1, i.stall) + (BARRIER if i.kind == "BAR" else 0)
        at[chosen] += 1
        now += 1


def read(code, start, end, blocks):
    """Of a kernel whose main loop is `code[start:end]`: what `inner_loop` tells of its schedule, and with 1 to `blocks` blocks at a time the
    cycles of a pass and those outside of the loop."""
    body, places = code[start:end], {i.address: n for n, i in enumerate(code)}
    before, behind = way(code, places, 0, start), way(code, places, end, len(code))
    stalls = nearest = sum(i.stall for i in body)
    for n, product in enumerate(body):
        for board in product.awaits if product.tensor else []:
            # The last one that signals this scoreboard, in the pass before if need be.
            back = next((k for k in range(1, len(body)) if body[n - k].signals == board), None)
            if back and body[n - back].kind == "LDG":
                nearest = min(nearest, sum(body[n - k].stall for k in range(1, back + 1)))
    some, more = 12, 36
    of_pass, rest = [], []
    for resident in range(1, blocks + 1):
        few, many = (cycles(before + body * passes + behind, resident) for passes in (some, more))
        of_pass.append((many - few) / (more - some))
        rest.append(few - some * of_pass[-1])
    return {
        "tensor": sum(i.tensor for i in body),
        "stalls": stalls,
        "ahead": nearest,
        "outside": sum(i.stall for i in before + behind),
        "pass": [round(c) for c in of_pass],
        "rest": [round(c) for c in rest],
    }
