#!/usr/bin/env python3
"""Tries of a hostile or hurried user, those that once found something: every one ends with an exit code that is an answer.

    tests/hostile/tries.py target/release/qcs [--only TEXT] [--list]

Prints a line to each try that surprises, then the counts by exit code and by kind of surprise. Needs Python and nothing else. A
try is a setting-up, a command, and what must be true afterwards; it works in a folder of its own, which is removed.

Counts of these 116 on two cores: of the program that they were found on 70 surprised; on 18 November 2026 none did, and they ended with exit
code 0: 52, 1: 10, 2: 30, 3: 24. No panic, no abort, no hang, no lost file, no exit 0 with a wrong result.
"""

import array, json, math, os, shutil, signal, stat, struct, subprocess, sys, tempfile, time
from collections import Counter

INF = float("inf")
TIMEOUT = 120
QCS = None


def save(path, tensors, metadata):
    """A safetensors file of f64 tensors: name -> (shape, values)."""
    header, blobs, end = {"__metadata__": metadata}, [], 0
    for name, (shape, values) in tensors.items():
        blob = array.array("d", values).tobytes()
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [end, end + len(blob)]}
        end += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        a, b = (8 + size + at for at in entry["data_offsets"])
        tensors[name] = (entry["shape"], list(array.array("d" if entry["dtype"] == "F64" else "f", data[a:b])))
    return tensors, metadata


def npy(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack("<H", data[8:10])
    return list(array.array("f", data[10 + size :]))


class Place:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="qcs-hostile-")

    def __call__(self, name):
        return os.path.join(self.path, name)

    def qcs(self, line, limit=None, timeout=TIMEOUT):
        words = [QCS] + (line.split() if isinstance(line, str) else line)
        if limit:
            words = ["sh", "-c", f"ulimit {limit}; exec \"$@\"", "sh"] + words
        env = dict(os.environ, QCS_DEVICE=os.environ.get("QCS_DEVICE", "cpu"))
        child = subprocess.Popen(words, cwd=self.path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return None, "", ""
        return child.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def start(self, line):
        env = dict(os.environ, QCS_DEVICE="cpu")
        return subprocess.Popen([QCS] + line.split(), cwd=self.path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def write(self, name, text="mine"):
        os.makedirs(os.path.dirname(self(name)), exist_ok=True)
        with open(self(name), "w") as out:
            out.write(text)

    def read(self, name):
        with open(self(name), "rb") as file:
            return file.read()

    def digits(self):
        """digits/truth.npy, ten of them."""
        self.qcs("run bundled:digits -m 8 --method turbo --evaluations 1 --pictures none --out digits --quiet")
        if not os.path.exists(self("digits/truth.npy")):
            self.qcs("demo --out digits --force --quiet")

    def measured(self, name="p.safetensors", flags="-m 100 --count 1"):
        code, _, err = self.qcs(f"measure bundled:digits -o {name} {flags}")
        if code != 0:
            # A program that does not know the bundled digits here measures what it writes itself.
            self.digits()
            code, _, err = self.qcs(f"measure digits/truth.npy -o {name} {flags}")
        assert code == 0, err
        return load(self(name))


TRIES = []


def tries(name, cases=(None,)):
    def add(function):
        for case in cases:
            TRIES.append((name if case is None else f"{name}: {case}", function, case))
        return function
    return add


def refused(result, codes=(1, 2, 3)):
    code = result[0]
    return None if code in codes else f"exit {code} where a refusal was due"


def scaled(tensors, factors):
    (m, n), a = tensors["A"]
    row = lambda values: [v * factors[i % m] for i, v in enumerate(values)]
    return {**{k: v for k, v in tensors.items() if k == "truth"},
            "A": ([m, n], [v * factors[i // n] for i, v in enumerate(a)]),
            "lower": (tensors["lower"][0], row(tensors["lower"][1])),
            "upper": (tensors["upper"][0], row(tensors["upper"][1]))}


def run(place, name, method, flags=""):
    return place.qcs(f"run {name}.safetensors --out {name} --method {method} --levels 20 --pictures none --json {flags}")


def psnr(result):
    return json.loads(result[1])["methods"][0]["psnr"]["mean"]


# --- wrong results -----------------------------------------------------------------------------------------------------------

@tries("units", [(method, s) for s in (2.0**-30, 2.0**30, 1e4, 1e6, 1e9, 1e-9) for method in ("turbo", "diag", "bipg", "oneshot")])
def _(place, case):
    method, s = case
    tensors, metadata = place.measured()
    place.qcs("info")
    save(place("a.safetensors"), scaled(tensors, [1.0] * 100), {**metadata, "shape": "1,28,28"})
    save(place("b.safetensors"), scaled(tensors, [s] * 100), {"sigma": repr(0.05 * s), "shape": "1,28,28"})
    first, second = run(place, "a", method), run(place, "b", method)
    if second[0] == 0 and abs(psnr(first) - psnr(second)) > 0.2:
        return second, f"{psnr(first):.2f} dB become {psnr(second):.2f}"
    return second, None


@tries("gains", ["zero rows", "one row of 1e8", "every tenth of 30"])
def _(place, case):
    tensors, metadata = place.measured()
    factor = {"zero rows": lambda i: float(i % 4 != 0), "one row of 1e8": lambda i: 1e8 if i == 0 else 1.0,
              "every tenth of 30": lambda i: 30.0 if i % 10 == 0 else 1.0}[case]
    changed = scaled(tensors, [factor(i) for i in range(100)])
    if case == "zero rows":
        changed["lower"], changed["upper"] = tensors["lower"], tensors["upper"]
    save(place("b.safetensors"), changed, {"sigma": "0.05", "shape": "1,28,28"})
    result = run(place, "b", "turbo")
    image = json.loads(result[1])["images"][0]
    true = 10 ** (-image["psnr"] / 20)
    if image["predicted_error"] < 0.5 * true or image["psnr"] < 12:
        return result, f"predicted error {image['predicted_error']:.3f}, true {true:.3f}"
    return result, None


@tries("cells of width", [1e-7, 1e-9, 1e-12])
def _(place, width):
    tensors, _ = place.measured(flags="-m 300 --count 1")
    (m, n), a = tensors["A"]
    x = tensors["truth"][1]
    z = [sum(p * q for p, q in zip(a[i * n : (i + 1) * n], x)) for i in range(m)]
    own = {"A": ([m, n], a), "truth": tensors["truth"], "lower": ([1, m], z)}
    own["upper"] = ([1, m], [v + max(width, 4e-16 * abs(v)) for v in z])
    save(place("b.safetensors"), own, {"sigma": "0", "shape": "1,28,28"})
    result = place.qcs("run b.safetensors --out b --method ep --pictures none --json")
    if result[0] == 0 and psnr(result) < 25:
        return result, f"{psnr(result):.1f} dB"
    return result, None


@tries("truth", ["times 255", "less 1"])
def _(place, case):
    tensors, metadata = place.measured()
    change = {"times 255": lambda v: 255 * v, "less 1": lambda v: v - 1}[case]
    shape, truth = tensors["truth"]
    save(place("b.safetensors"), {**scaled(tensors, [1.0] * 100), "truth": (shape, [change(v) for v in truth])},
         {"sigma": "0.05", "shape": "1,28,28"})
    result = run(place, "b", "turbo")
    return result, refused(result)


@tries("impossible cells", ["all beyond 1e3", "contradictory signs"])
def _(place, case):
    tensors, _ = place.measured()
    own = scaled(tensors, [1.0] * 100)
    if case == "all beyond 1e3":
        own["lower"], own["upper"] = ([1, 100], [1e3] * 100), ([1, 100], [INF] * 100)
    else:
        (m, n), a = own["A"]
        own["A"] = ([2 * m, n], a + a)
        lower, upper = own["lower"][1], own["upper"][1]
        own["lower"], own["upper"] = ([1, 2 * m], lower + [-u for u in upper]), ([1, 2 * m], upper + [-l for l in lower])
    own.pop("truth", None)
    save(place("b.safetensors"), own, {"sigma": "0.05", "shape": "1,28,28"})
    result = run(place, "b", "turbo")
    told = "contradict" in result[1] + result[2]
    return result, None if told or result[0] else "nothing is said of it"


@tries("score at level", ["1e-300", "1e300", "1e-45"])
def _(place, level):
    place.measured()
    place.digits()
    result = place.qcs(f"score --x digits/truth.npy --beta {level} --out s.npy")
    if result[0] == 0 and not all(math.isfinite(v) for v in npy(place("s.npy"))):
        return result, "NaN or infinity"
    return result, None


@tries("merge", ["a copied share", "a share renamed", "manifest emptied", "manifest removed", "manifest altered"])
def _(place, case):
    place.measured("p.safetensors", "-m 60 --count 4")
    for shard in ("1/2", "2/2"):
        place.qcs(f"run p.safetensors --out r --method turbo --shard {shard} --quiet")
    one, two = place("r/shard-1-of-2"), place("r/shard-2-of-2")
    manifest = os.path.join(two, "manifest.json")
    if case == "a copied share":
        shutil.rmtree(two)
        shutil.copytree(one, two)
    elif case == "a share renamed":
        shutil.rmtree(one)
        os.rename(two, one)
        shutil.copytree(one, two)
    elif case == "manifest emptied":
        open(manifest, "w").close()
    elif case == "manifest removed":
        os.remove(manifest)
    else:
        text = open(manifest).read().replace('"first": 2', '"first": 0')
        open(manifest, "w").write(text)
    result = place.qcs("merge r")
    return result, refused(result)


@tries("a flipped bit of the cache at", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def _(place, share):
    place.measured()
    place.qcs("run p.safetensors --out a --method turbo --cache svd --quiet --pictures none")
    name = "svd/" + os.listdir(place("svd"))[0]
    data = bytearray(place.read(name))
    data[int(share * len(data)) & ~7] ^= 1
    open(place(name), "wb").write(data)
    result = place.qcs("run p.safetensors --out b --method turbo --cache svd --pictures none")
    noticed = "again" in result[2]
    return result, None if noticed or result[0] else "unnoticed"


# --- files lost --------------------------------------------------------------------------------------------------------------

@tries("sweep into a folder of somebody else", ["figures", "report.html", "sweep.toml"])
def _(place, case):
    mine = {"figures": "paper/figures/mine.svg", "report.html": "paper/report.html", "sweep.toml": "paper/sweep.toml"}[case]
    place.write(mine)
    result = place.qcs("sweep --images bundled:digits --count 1 -m 20,30 --method turbo --evaluations 2 --out paper --quiet")
    lost = not os.path.exists(place(mine)) or place.read(mine) != b"mine"
    return result, "a file is lost" if lost else None


@tries("replaces", ["check --device cpu --only nothing-at-all --report mine", "check --device cpu --only elu --report mine", "manual man"])
def _(place, line):
    name = "man/qcs.1" if "manual" in line else "mine"
    place.write(name)
    result = place.qcs(line)
    return result, None if place.read(name) == b"mine" else "a file is lost"


@tries("link", ["cache", "manual --force", "measure --force"])
def _(place, case):
    place.measured()
    place.write("precious")
    if case == "cache":
        place.qcs("run p.safetensors --out a --method turbo --cache svd --quiet --pictures none")
        name = place("svd/" + os.listdir(place("svd"))[0])
        os.remove(name)
        os.symlink(place("precious"), name)
        result = place.qcs("run p.safetensors --out b --method turbo --cache svd --quiet --pictures none")
    elif case == "manual --force":
        os.makedirs(place("man"))
        os.symlink(place("precious"), place("man/qcs.1"))
        result = place.qcs("manual man --force")
        result = place.qcs("manual man") if result[0] == 2 else result
    else:
        os.symlink(place("precious"), place("out.safetensors"))
        result = place.qcs("measure bundled:digits -m 8 --count 1 -o out.safetensors --force")
    return result, None if place.read("precious") == b"mine" else "what the link points to is lost"


@tries("two at once", ["measure", "sample", "calibrate"])
def _(place, case):
    place.measured()
    place.digits()
    line = {"measure": "measure digits/truth.npy -m 700 -o out", "sample": "sample --count 20 -o out.png",
            "calibrate": "calibrate --model bundled --images digits/truth.npy -o out"}[case]
    children = [place.start(line + (f" --seed {i}" if case != "calibrate" else "")) for i in range(2)]
    codes = sorted(child.wait() for child in children)
    return (codes[-1], "", ""), "both end with 0, one result is lost" if codes == [0, 0] else None


# --- crashes, hangs, dead ends -----------------------------------------------------------------------------------------------

@tries("number", [f"{flag} {n}" for flag in ("--levels", "--ep-iters", "--evaluations", "--chains", "--count", "--draw-steps", "--block")
                  for n in (2**63, 2**64 - 1, 2**64)])
def _(place, flags):
    place.measured()
    result = place.qcs(f"run p.safetensors --out a --method ep,turbo {flags} --quiet", timeout=20)
    # A number that is merely large may be a run that takes for ever.
    return (0 if result[0] is None and "--block" in flags else result[0], *result[1:]), None


@tries("bench --ngf", [10**6, 10**9])
def _(place, ngf):
    result = place.qcs(f"bench forward --preset mnist --ngf {ngf} --device cpu")
    return result, refused(result)


@tries("memory", ["-v 1500000", "-v 800000", "-v 3000000"])
def _(place, limit):
    place.digits()
    result = place.qcs("run digits/truth.npy --count 1 -m 15000 --method turbo --out a --threads 1 --quiet", limit=limit)
    return result, refused(result, (1, 2, 3, 5))


@tries("matrix of", [2 * 10**6, 5 * 10**6])
def _(place, m):
    place.digits()
    result = place.qcs(f"measure digits/truth.npy -m {m} -o out --threads 1", limit="-v 4000000")
    return result, refused(result)


@tries("header that claims", [313 * 10**9])
def _(place, claimed):
    text = json.dumps({"A": {"dtype": "F64", "shape": [claimed // 8, 1], "data_offsets": [0, claimed // 8 * 8]}}).encode()
    with open(place("large.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + claimed // 8 * 8)
    result = place.qcs("run large.safetensors --out a")
    return result, refused(result)


@tries("files may have", ["-f 1", "-f 64"])
def _(place, limit):
    place.digits()
    result = place.qcs("measure digits/truth.npy -m 400 -o out", limit=limit)
    return result, refused(result)


PIPES = ["run pipe.safetensors --out a", "run pipe --out a -m 9", "run pipe.npy --out a -m 9", "run --config pipe.toml --out a",
         "run --resume --out run", "measure pipe.png -m 9 -o o", "measure pipe.npz -m 9 -o o", "measure folder -m 9 -o o",
         "measure bundled:digits --matrix pipe.npy -o o", "sweep pipe.toml", "eval pipe.npy --truth pipe.npy", "info pipe",
         "info pipe.safetensors", "convert pipe.pth -o o", "calibrate --model pipe.safetensors --images folder -o o", "merge run"]


@tries("pipe", PIPES)
def _(place, line):
    for folder in ("folder", "run"):
        os.makedirs(place(folder))
    for name in ("pipe", "pipe.safetensors", "pipe.npy", "pipe.npz", "pipe.png", "pipe.pth", "pipe.toml", "folder/a.png", "run/config.toml"):
        os.mkfifo(place(name))
    result = place.qcs(line, timeout=15)
    return result, refused(result)


@tries("sweep", ["twice at once", "broken metrics.json", "broken config.toml", "one file of two is wrong"])
def _(place, case):
    line = "sweep --images bundled:digits --count 1 -m 20,30 --method turbo --evaluations 2 --out grid --quiet"
    if case == "twice at once":
        children = [place.start(line) for _ in range(2)]
        codes = sorted(child.wait() for child in children)
        return (codes[0], "", ""), None if codes in ([0, 0], [0, 2]) else f"{codes}"
    if case == "one file of two is wrong":
        good = 'images = "bundled:digits"\ncount = 1\nmethod = "turbo"\nmeasurements = 20\n'
        place.write("b.toml", good)
        place.write("a.toml", good.replace("bundled:digits", "nowhere"))
        result = place.qcs("sweep a.toml b.toml --out two --dry-run")
        return result, None if "two/b" in result[1] else "ends at the first file"
    place.qcs(line)
    point = place("grid/points/" + sorted(os.listdir(place("grid/points")))[0])
    with open(os.path.join(point, case.split()[1]), "w") as out:
        out.write("{")
    result = place.qcs(line)
    return result, None if result[0] == 0 else "the sweep ends for ever"


@tries("resume", ["samples.npy is gone", "another --batch", "a cache that cannot be written", "a killed merge"])
def _(place, case):
    place.measured("p.safetensors", "-m 60 --count 2")
    line = "run p.safetensors --out a --method turbo --quiet --pictures none"
    if case == "a cache that cannot be written":
        result = place.qcs(f"{line} --cache p.safetensors")
        return result, None if result[0] == 0 else "the run ends"
    if case == "a killed merge":
        for shard in ("1/2", "2/2"):
            place.qcs(f"{line} --shard {shard}")
        place.qcs("merge a")
        os.remove(place("a/metrics.json"))
        result = place.qcs("merge a")
        return result, None if result[0] == 0 else "wants --force"
    place.qcs(line)
    if case == "samples.npy is gone":
        os.remove(place("a/turbo/samples.npy"))
        result = place.qcs(f"{line} --resume")
        return result, None if os.path.exists(place("a/turbo/samples.npy")) else "says that nothing is to do"
    os.remove(place("a/metrics.json"))
    result = place.qcs(f"{line} --resume --batch 3")
    return result, None if result[0] == 0 else "refused"


@tries("environment", ["QCS_DEVICE="])
def _(place, _case):
    os.environ["QCS_DEVICE"] = ""
    try:
        result = place.qcs("info")
    finally:
        os.environ["QCS_DEVICE"] = "cpu"
    return result, None if result[0] == 0 else "an empty variable is refused"


def main():
    global QCS
    words = sys.argv[1:]
    only = words[words.index("--only") + 1] if "--only" in words else ""
    chosen = [one for one in TRIES if only in one[0]]
    if "--list" in words or not words:
        print(__doc__ if not words else "\n".join(name for name, _, _ in chosen))
        return
    QCS = os.path.abspath(words[0])
    codes, surprises = Counter(), Counter()
    for name, function, case in chosen:
        place = Place()
        try:
            (code, _, err), surprise = function(place, case)
        except Exception as error:  # the try itself did not come to its end
            code, err, surprise = "try failed", "", f"{type(error).__name__}: {error}"
        if code is None:
            surprise = surprise or "hangs"
            code, kind = "hang", "hang"
        elif code == 101 or "panicked" in err:
            surprise, kind = "panic", "panic"
        elif isinstance(code, int) and (code < 0 or code >= 132):
            surprise, kind = f"ended by signal {-code if code < 0 else code - 128}", "abort"
        else:
            kind = "exit 0, wrong" if code == 0 else "other"
        codes[code] += 1
        if surprise:
            surprises[kind] += 1
            print(f"{name}: {surprise}", flush=True)
        shutil.rmtree(place.path, ignore_errors=True)
    print(f"{len(chosen)} tries; by exit code: " + ", ".join(f"{k}: {codes[k]}" for k in sorted(codes, key=str)))
    print(f"{sum(surprises.values())} surprises: " + ", ".join(f"{k}: {n}" for k, n in sorted(surprises.items())))
    sys.exit(1 if surprises else 0)


main()
