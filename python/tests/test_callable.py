"""Any denoiser as prior."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import qcs

SHAPE = (1, 28, 28)


def own(x, sigma):
    """Our own network, one image at a time as its levels differ."""
    prior = qcs.Prior.builtin()
    return np.stack([prior.denoise(image, float(s)) for image, s in zip(x, sigma)])


@pytest.fixture(scope="module")
def calibrated(digits):
    return qcs.Prior.from_callable(own, SHAPE, name="own").calibrate(digits, count=4, levels=9)


def test_our_network_through_a_callable_is_our_network(problem, calibrated):
    table = calibrated._native.measure_errors(problem.truth, 3, (9, 0.001, 20.0), "cpu", 0)
    direct = qcs.reconstruct(problem, evaluations=6)
    called = qcs.reconstruct(problem, prior=calibrated, evaluations=6)
    # The table is of ten digits and not of the training set, so the steps differ, but not the picture.
    assert called.psnr > direct.psnr - 1.5
    assert len(table[2]) >= 5 and all(a < b for a, b in zip(table[3], table[3][1:]))


def test_langevin_through_a_callable_is_langevin(problem):
    direct = qcs.reconstruct(problem, method="ep", levels=20, steps_per_level=2)
    # What the shipped prior advises, said aloud: a function advises nothing.
    prior = qcs.Prior.from_callable(own, SHAPE)
    called = qcs.reconstruct(problem, prior=prior, method="ep", **direct.settings)
    # The way over the denoised image rounds to f32, and the chain carries it on.
    assert np.abs(direct.samples - called.samples).max() < 1e-2


def test_turbo_says_what_it_needs():
    prior = qcs.Prior.from_callable(own, SHAPE)
    assert not prior.is_calibrated and prior.is_callable and prior.parameters == 0
    with pytest.raises(qcs.Error, match="calibrate"):
        qcs.reconstruct(np.ones(5), np.eye(5, 784), 0.05, prior=prior)


@pytest.mark.parametrize(
    "denoise, exception, match",
    [
        (lambda x, s: x[:, :, :-1], qcs.UsageError, "made"),
        (lambda x, s: x * np.nan, qcs.RunFailed, "NaN"),
        (lambda x, s: None, TypeError, "real numbers"),
        (lambda x, s: 1 / 0, ZeroDivisionError, "zero"),
    ],
)
def test_what_a_denoiser_does_wrong_is_said(denoise, exception, match):
    prior = qcs.Prior.from_callable(denoise, SHAPE)
    with pytest.raises(exception, match=match):
        prior.denoise(np.zeros(SHAPE), 0.1)
    # And what was kept of it is gone.
    with pytest.raises(qcs.UsageError, match="part of the Problem|shape"):
        prior.denoise(np.zeros((3, 3)), 0.1)


def test_the_traceback_is_the_denoisers_own(problem):
    def fails(x, sigma):
        raise KeyError("weights")

    prior = qcs.Prior.from_callable(fails, SHAPE, table=([0.1] * 784, 0.1, [0.01, 1.0], [0.0001, 0.05]))
    with pytest.raises(KeyError, match="weights") as caught:
        qcs.reconstruct(problem, prior=prior)
    assert any(entry.name == "fails" for entry in caught.traceback)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_an_interrupt_reaches_a_denoiser_that_sleeps(problem):
    def sleeps(x, sigma):
        time.sleep(60)
        return x

    prior = qcs.Prior.from_callable(sleeps, SHAPE, table=([0.1] * 784, 0.1, [0.01, 1.0], [0.0001, 0.05]))
    began = time.monotonic()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        qcs.reconstruct(problem, prior=prior)
    assert time.monotonic() - began < 20


def test_a_callable_is_refused_on_a_gpu_and_in_a_folder(problem, calibrated, tmp_path):
    with pytest.raises(qcs.UsageError, match="function"):
        qcs.reconstruct(problem, prior=calibrated, out=tmp_path / "run")


def test_tables_that_are_none_are_refused():
    for table in (([0.1] * 784, 0.1, [1.0, 0.1], [0.1, 0.2]), ([0.1] * 3, 0.1, [0.1, 1.0], [0.1, 0.2])):
        with pytest.raises(qcs.UsageError, match="table"):
            qcs.Prior.from_callable(own, SHAPE, table=table)
    with pytest.raises(qcs.UsageError, match="C, H, W"):
        qcs.Prior.from_callable(own, (28, 28))
