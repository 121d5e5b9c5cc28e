"""What calling from Python costs: from import to the first result, a call beside the command, a torch module beside our own engine on the
same weights, and how soon an interrupt is heard.

    python benches/python_calls.py [--only first call torch interrupt]

Needs qcs; for `torch` also torch and safetensors.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import qcs

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE.parent / "weights"

FIRST = """
import time
began = time.perf_counter()
import numpy
numpy_in = time.perf_counter()
import qcs
qcs_in = time.perf_counter()
problem = qcs.measure(qcs.digits()[:1], bits=1)
result = qcs.reconstruct(problem)
first = time.perf_counter()
qcs.reconstruct(problem)
print(numpy_in - began, qcs_in - numpy_in, first - qcs_in, time.perf_counter() - first)
"""


def first():
    runs = []
    for _ in range(9):
        done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
        runs.append([float(word) for word in done.stdout.split()])
    numpy_in, qcs_in, result, again = (1000 * min(column) for column in zip(*runs))
    print(f"import numpy {numpy_in:.0f} ms, import qcs {qcs_in:.0f} ms more, one digit measured and reconstructed {result:.0f} ms, ", end="")
    print(f"again {again:.0f} ms (the least of 9 processes)")


def call():
    problem = qcs.measure(qcs.digits(), bits=1)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "problem.safetensors")
        problem.save(file)
        rows = []
        for round in range(9):
            began = time.perf_counter()
            result = qcs.reconstruct(problem, device="cpu")
            whole = time.perf_counter() - began
            began = time.perf_counter()
            words = ["run", file, "--method", "turbo", "--device", "cpu", "--quiet", "--out", os.path.join(folder, f"run{round}")]
            subprocess.run([sys.executable, "-m", "qcs", *words], check=True, capture_output=True)
            command = time.perf_counter() - began
            ran = qcs.Result.load(os.path.join(folder, f"run{round}"))
            assert ran.mean.tobytes() == result.mean.tobytes()
            rows.append((whole, result.seconds, command, ran.seconds))
    whole, inside, command, ran = (1000 * min(column) for column in zip(*rows))
    print(f"ten digits from signs: a call {whole:.0f} ms, of which {inside:.0f} ms compute; ", end="")
    print(f"the command {command:.0f} ms, of which {ran:.0f} ms compute (the least of 9)")
    x, prior = qcs.digits()[:1], qcs.Prior.builtin()
    trivial = qcs.Prior.from_callable(lambda x, sigma: x, (1, 28, 28))
    times = {}
    for name, which in (("our network", prior), ("a function that does nothing", trivial)):
        which.denoise(x, 0.3)
        took = []
        for _ in range(50):
            began = time.perf_counter()
            which.denoise(x, 0.3)
            took.append(1000 * (time.perf_counter() - began))
        times[name] = min(took)
    print("Prior.denoise of one digit, the least of 50: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in times.items()))


def torch_beside():
    sys.path.insert(0, str(WEIGHTS / "training"))
    import torch

    import prior as files

    torch.set_num_threads(1)
    qcs.set_num_threads(1)
    digits = qcs.digits()
    colour = qcs.load_images(WEIGHTS / "demo-photo.png")[:, :, 96:128, 96:128]
    for name, x, measurements in (("mnist-unet", digits, 400), ("cifar10-unet", np.ascontiguousarray(colour), 1536)):
        path = WEIGHTS / f"{name}.safetensors"
        ours = qcs.Prior.load(path)
        network, _ = files.load(path)
        called = qcs.Prior.from_torch(network.image, ours.shape, device="cpu", name=name, table=ours.table)
        noisy = x + 0.3 * np.random.default_rng(0).normal(size=x.shape).astype(np.float32)
        apart = np.abs(ours.denoise(noisy, 0.3) - called.denoise(noisy, 0.3)).max()
        problem = qcs.measure(x, measurements=measurements, bits=2).factorise()
        found = {}
        for kind, prior in (("our engine", ours), ("torch", called)):
            qcs.reconstruct(problem, prior=prior, evaluations=1, device="cpu")
            began = time.process_time()
            found[kind] = qcs.reconstruct(problem, prior=prior, device="cpu")
            found[kind].seconds = time.process_time() - began
        a, b = found.values()
        difference = np.abs(a.mean - b.mean).max()
        print(f"{name}, {len(x)} image(s), 2 bits: one evaluation differs by at most {apart:.1e}, turbo's images by {difference:.1e}; ", end="")
        parts = [f"{kind} {r.seconds:.2f} s, {r.evaluations.sum()} evaluations, {r.psnr:.3f} dB" for kind, r in found.items()]
        print("; ".join(parts) + " (processor time, one thread)")
    qcs.set_num_threads(0)


def delays(run, times=8):
    """From the signal to the exception, over calls that are interrupted at different moments."""
    found = []
    for at in range(times):
        sent = []

        def send():
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.4 + 0.083 * at, send)
        timer.start()
        try:
            run()
        except KeyboardInterrupt:
            found.append(time.perf_counter() - sent[0])
        timer.join()
    return found


def interrupt():
    digits = qcs.digits()
    problem = qcs.measure(digits[:8], bits=1).factorise()

    def step(**settings):
        told = []
        try:
            qcs.reconstruct(progress=lambda _: told.append(time.perf_counter()) or len(told) < 12, **settings)
        except qcs.Stopped:
            pass
        return max(np.diff(told))

    def asleep(x, sigma):
        time.sleep(30)
        return x

    table = (np.full(784, 0.1), 0.1, [0.01, 1.0], [0.0001, 0.05])
    sleeps = qcs.Prior.from_callable(asleep, (1, 28, 28), table=table)
    long = dict(method="ep", levels=200, steps_per_level=100)
    photo = qcs.Prior.load(WEIGHTS / "photo.safetensors", shape=(3, 128, 128))
    crop = np.ascontiguousarray(qcs.load_images(WEIGHTS / "demo-photo.png")[..., 64:192, 64:192])
    large = qcs.measure(crop, "hadamard", measurements="50%", bits=2)
    cases = {
        "QCS-SGM+ of 8 digits": (dict(y=problem, **long), True),
        "turbo of a 128×128 photograph": (dict(y=large, prior=photo, tolerance=1e-9, evaluations=500), True),
        "a denoiser that sleeps": (dict(y=problem, prior=sleeps), False),
    }
    for name, (settings, steps) in cases.items():
        found = delays(lambda: qcs.reconstruct(progress=False, **settings))
        lasts = f"a step lasts up to {1000 * step(**settings):.0f} ms; " if steps else ""
        print(f"{name}: {lasts}interrupts heard after {1000 * min(found):.0f} to {1000 * max(found):.0f} ms ({len(found)} of them)")


PARTS = {"first": first, "call": call, "torch": torch_beside, "interrupt": interrupt}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    for name in parser.parse_args().only:
        PARTS[name]()


if __name__ == "__main__":
    main()
