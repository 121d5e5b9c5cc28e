"""Calls that last: they can be watched and stopped, other threads go on, and a forked process computes too."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import qcs

LONG = dict(method="ep", levels=100, steps_per_level=100)


def test_a_callback_hears_every_step_and_may_stop(problem):
    heard = []
    qcs.reconstruct(problem, evaluations=4, progress=heard.append)
    assert [progress.at for progress in heard] == sorted(progress.at for progress in heard)
    assert heard[-1].fraction == 1.0 and heard[-1].states == 3
    with pytest.raises(qcs.Stopped):
        qcs.reconstruct(problem, **LONG, progress=lambda progress: progress.evaluations < 3)


def test_what_a_callback_raises_comes_back(problem):
    def callback(progress):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        qcs.reconstruct(problem, **LONG, progress=callback)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_an_interrupt_ends_a_run(problem):
    began = time.monotonic()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        qcs.reconstruct(problem, **LONG)
    assert time.monotonic() - began < 20


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_an_interrupted_folder_goes_on_to_the_same_bytes(problem, tmp_path):
    settings = dict(method="ep", levels=12, steps_per_level=3, device="cpu")
    stops = iter([True] * 6 + [False])
    with pytest.raises(qcs.Stopped):
        qcs.reconstruct(problem, out=tmp_path / "run", progress=lambda _: next(stops), **settings)
    shutil.copytree(tmp_path / "run", tmp_path / "by command")
    went_on = qcs.reconstruct(problem, out=tmp_path / "run", resume=True, **settings)
    whole = qcs.reconstruct(problem, **settings).samples.tobytes()
    assert went_on.samples.tobytes() == whole
    # The command goes on with it too.
    words = [sys.executable, "-m", "qcs", "run", "--resume", "--device", "cpu", "--out", str(tmp_path / "by command")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "by command" / "ep" / "samples.npy").tobytes() == whole


def test_other_threads_run_meanwhile(problem):
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.01)

    ticking = threading.Thread(target=tick)
    ticking.start()
    qcs.reconstruct(problem, method="ep", levels=10, steps_per_level=3)
    done.set()
    ticking.join()
    assert len(ticks) > 3


def test_two_threads_at_once_give_what_one_gives(problem):
    alone = [qcs.reconstruct(problem, evaluations=5, chains=2, seed=seed).samples.tobytes() for seed in (0, 1)]
    together = [None, None]

    def run(seed):
        together[seed] = qcs.reconstruct(problem, evaluations=5, chains=2, seed=seed).samples.tobytes()

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone and alone[0] != alone[1]


def test_the_number_of_threads_changes_nothing(problem):
    before = qcs.reconstruct(problem, evaluations=3).mean.tobytes()
    try:
        qcs.set_num_threads(1)
        assert qcs.reconstruct(problem, evaluations=3).mean.tobytes() == before
    finally:
        qcs.set_num_threads(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_computes_too(problem):
    expected = qcs.reconstruct(problem, evaluations=2).mean
    child = os.fork()
    if child == 0:
        # In a child nothing may raise past here, or pytest would run twice.
        try:
            found = qcs.reconstruct(problem, evaluations=2)
            measured = qcs.measure(problem.truth[:1], measurements=50)
            fine = np.array_equal(found.mean, expected) and measured.m == 50
        except BaseException:
            fine = False
        os._exit(0 if fine else 1)
    deadline = time.monotonic() + 120
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 0


def means(problem):
    """What another process makes of a problem."""
    return qcs.reconstruct(problem, evaluations=2).mean.tobytes()


@pytest.mark.parametrize("way", [way for way in ("fork", "spawn") if way in multiprocessing.get_all_start_methods()])
def test_multiprocessing_computes_after_a_call(problem, way):
    expected = means(problem)
    with multiprocessing.get_context(way).Pool(2) as pool:
        assert pool.map_async(means, [problem, problem]).get(timeout=120) == [expected, expected]


class Bar:
    """What stands in for tqdm's."""

    made = []

    def __init__(self, **settings):
        self.n, self.said, self.closed = 0.0, [], False
        Bar.made.append(self)

    def set_postfix_str(self, text):
        self.said.append(text)

    def close(self):
        self.closed = True


def test_a_bar_shows_itself_where_somebody_sees_it_and_the_call_lasts(problem, monkeypatch):
    import types

    from qcs import _progress

    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    monkeypatch.setattr(_progress, "_is_seen", lambda: True)
    Bar.made = []
    qcs.reconstruct(problem, evaluations=2, progress=False)
    assert not Bar.made
    monkeypatch.setattr(_progress, "PATIENCE", 60.0)
    qcs.reconstruct(problem, evaluations=2)
    assert not Bar.made, "a short call shows none"
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    qcs.reconstruct(problem, evaluations=2)
    assert len(Bar.made) == 1 and Bar.made[0].closed and Bar.made[0].n == 1.0 and "iteration" in Bar.made[0].said[-1]
    monkeypatch.setattr(_progress, "_is_seen", lambda: False)
    qcs.reconstruct(problem, evaluations=2)
    assert len(Bar.made) == 1


def test_chains_that_diverge_are_a_warning_or_an_error_as_wished(problem):
    runaway = qcs.Prior.from_callable(lambda x, sigma: np.clip(20 * x, -1e30, 1e30), (1, 28, 28))
    levels = dict(method="diag", sigma_begin=1.0, sigma_end=0.1, levels=4, steps_per_level=3, step_scale=0.5)
    with pytest.warns(qcs.DivergenceWarning, match="3 chains"):
        found = qcs.reconstruct(problem, prior=runaway, **levels)
    assert [row["image"] for row in found.diverged] == [0, 1, 2]
    with pytest.raises(qcs.RunFailed, match="3 chains"):
        qcs.reconstruct(problem, prior=runaway, on_divergence="raise", **levels)


def test_import_brings_numpy_and_nothing_heavy():
    code = "import sys, qcs; print([m for m in ('torch', 'matplotlib', 'tqdm', 'deepinv', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_thousand_calls_leak_nothing():
    resource = pytest.importorskip("resource")
    x = np.random.default_rng(0).random((1, 1, 16, 16), dtype=np.float32)
    a = np.random.default_rng(1).normal(size=(64, 256)) / 8
    table = (np.full(256, 0.5), 0.1, [0.01, 1.0], [0.0001, 0.09])
    # Each call of the function keeps its arguments alive for as long as somebody does.
    fine = qcs.Prior.from_callable(lambda x, sigma: x.copy(), (1, 16, 16), table=table)
    fails = qcs.Prior.from_callable(lambda x, sigma: 1 / 0, (1, 16, 16), table=table)

    def call():
        problem = qcs.measure(x, a, bits=2, step=0.3)
        qcs.reconstruct(problem, prior=fine, evaluations=2)
        for prior, settings, exception in (
            (fails, {"evaluations": 1}, ZeroDivisionError),
            (fine, {"evaluations": 1, "progress": lambda _: False}, qcs.Stopped),
            (fine, {"chains": 10**9}, qcs.UsageError),
        ):
            with pytest.raises(exception):
                qcs.reconstruct(problem, prior=prior, **settings)

    def held():
        """Threads and open files; nothing where the system does not tell."""
        return [len(os.listdir(f"/proc/self/{kind}")) if os.path.isdir("/proc/self") else 0 for kind in ("task", "fd")]

    for _ in range(100):
        call()
    before, first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, held()
    for _ in range(1000):
        call()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # A alone is 130 kB a call.
    assert grown < 20_000, f"{grown} kB"
    assert held() == first
