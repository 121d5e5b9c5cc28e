"""Photographs: a prior that serves any size, operators without a matrix."""

import numpy as np
import pytest

import qcs

SHAPE = (3, 64, 96)


@pytest.fixture(scope="module")
def photo():
    return np.ascontiguousarray(qcs.photo()[:, :, 80:144, 64:160])


def measured(photo, bits=3, step=0.3):
    """An operator, the values of a quantizer, and the quantizer."""
    a, q = qcs.Operator("hadamard", shape=SHAPE, measurements="50%", seed=1), qcs.Quantizer(bits, step)
    noise = 0.02 * np.random.default_rng(0).normal(size=(1, a.m))
    return a, q(a.forward(photo) + noise), q


def test_the_photograph_is_there_and_in_colour():
    photo = qcs.photo()
    assert photo.shape == (1, 3, 256, 256) and photo.dtype == np.float32 and 0 <= photo.min() and photo.max() <= 1
    assert photo[0, 0].mean() > photo[0, 2].mean()


def test_a_photograph_comes_back_by_three_arguments(photo):
    a, y, q = measured(photo)
    found = qcs.reconstruct(y, a, 0.02, quantizer=q, truth=photo, evaluations=8)
    assert found.mean.shape == (1, *SHAPE) and found.psnr > 22, found
    # The prior was chosen by the shape; named, or opened at it, it is the same.
    for prior in ("photo", qcs.Prior.builtin("photo", shape=SHAPE)):
        again = qcs.reconstruct(y, a, 0.02, quantizer=q, prior=prior, evaluations=8)
        assert again.mean.tobytes() == found.mean.tobytes()
    one = qcs.reconstruct(y[0], a, 0.02, quantizer=q, evaluations=1)
    assert one.mean.shape == SHAPE


def test_a_problem_of_a_photograph_chooses_its_prior_too(photo, tmp_path):
    problem = qcs.measure(photo, "dct", measurements="50%", bits=2, sigma=0.02)
    found = qcs.reconstruct(problem, evaluations=2)
    kept = qcs.reconstruct(problem, evaluations=2, out=tmp_path / "run")
    assert kept.mean.tobytes() == found.mean.tobytes()


def test_a_matrix_says_no_shape_and_shape_does():
    x = np.ascontiguousarray(qcs.photo()[:, :, 100:116, 100:132])
    a = np.random.default_rng(0).normal(size=(700, 1536)) / 700**0.5
    y = np.sign(a @ x.ravel())
    found = qcs.reconstruct(y, a, 0.02, shape=(3, 16, 32), evaluations=2)
    assert found.mean.shape == (3, 16, 32)
    assert qcs.reconstruct(y, a, 0.02, shape=(3, 16, 32), prior="photo", evaluations=2).mean.tobytes() == found.mean.tobytes()
    with pytest.raises(qcs.UsageError, match=r"1536 pixels.*shape=\(C, H, W\)"):
        qcs.reconstruct(y, a, 0.02)
    with pytest.raises(qcs.UsageError, match="1536 columns.*shape="):
        qcs.reconstruct(y, a, 0.02, prior="photo")
    with pytest.raises(qcs.UsageError, match="1×16×32"):
        qcs.reconstruct(y, a, 0.02, shape=(1, 16, 32))


def test_shapes_that_contradict_are_refused(photo):
    a, y, q = measured(photo)
    with pytest.raises(qcs.UsageError, match="leave shape out"):
        qcs.reconstruct(y, a, 0.02, quantizer=q, shape=(3, 96, 64))
    with pytest.raises(qcs.UsageError, match="pixels"):
        qcs.reconstruct(y, a, 0.02, quantizer=q, prior="mnist")
    problem = qcs.measure(photo, "hadamard", measurements="50%", bits=2)
    with pytest.raises(qcs.UsageError, match="part of the Problem"):
        qcs.reconstruct(problem, shape=SHAPE)
