import signal

import numpy as np
import pytest

import qcs


@pytest.fixture(scope="session", autouse=True)
def interrupts():
    """Where a shell runs the tests in the background, SIGINT is ignored, and Python leaves it so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def digits():
    return qcs.digits()


@pytest.fixture(scope="session")
def problem(digits):
    """Three digits from two bits each of 200 measurements."""
    return qcs.measure(digits[:3], measurements=200, bits=2)


@pytest.fixture(scope="session")
def signs(digits):
    """A, the signs it makes of a digit, and the digit."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 784)) / np.sqrt(200)
    x = digits[3]
    return a, np.sign(a @ x.ravel() + 0.05 * rng.normal(size=200)), x
