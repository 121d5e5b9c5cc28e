"""Priors: calibrated, saved, drawn from; those that know small noise only."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import qcs

SHAPE = (1, 28, 28)


def by_image(sigma):
    return sigma.reshape(-1, 1, 1, 1)


def own(x, sigma):
    """Our own network, one image at a time as its levels differ."""
    prior = qcs.Prior.builtin()
    return np.stack([prior.denoise(image, float(s)) for image, s in zip(x, sigma)])


def test_a_prior_with_another_table_is_saved_and_loaded_with_it(digits, problem, tmp_path):
    prior = qcs.Prior.builtin().calibrate(digits, count=4, levels=9)
    mean, variance, levels, errors = prior.table
    assert len(mean) == 784 and len(levels) == len(errors) >= 5 and 0.05 < variance < 0.15
    assert prior.table != qcs.Prior.builtin().table
    found = qcs.reconstruct(problem, prior=prior, evaluations=3)
    prior.save(tmp_path / "prior.safetensors")
    loaded = qcs.Prior.load(tmp_path / "prior.safetensors")
    assert loaded.table == prior.table and loaded.parameters == prior.parameters
    assert qcs.reconstruct(problem, prior=loaded, evaluations=3).mean.tobytes() == found.mean.tobytes()
    # In no file it cannot be named by a folder, in one it can.
    with pytest.raises(qcs.UsageError, match="Prior.save"):
        qcs.reconstruct(problem, prior=prior, evaluations=3, out=tmp_path / "run")
    kept = qcs.reconstruct(problem, prior=loaded, evaluations=3, out=tmp_path / "run")
    assert kept.mean.tobytes() == found.mean.tobytes()


def test_what_is_saved_of_the_shipped_prior_is_its_file(tmp_path, problem):
    qcs.Prior.builtin().save(tmp_path / "mnist.safetensors")
    loaded = qcs.Prior.load(tmp_path / "mnist.safetensors")
    assert loaded.table == qcs.Prior.builtin().table
    mean = qcs.reconstruct(problem, prior=loaded, evaluations=2).mean
    assert mean.tobytes() == qcs.reconstruct(problem, evaluations=2).mean.tobytes()


def test_a_folder_called_mnist_does_not_stand_in_the_way(problem, tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    monkeypatch.chdir(tmp_path)
    assert qcs.reconstruct(problem, prior="mnist", evaluations=1).mean.shape == (3, *SHAPE)
    with pytest.raises((qcs.Error, OSError)):
        qcs.reconstruct(problem, prior="./mnist", evaluations=1)


def test_a_function_is_saved_by_its_table(digits, problem, tmp_path):
    prior = qcs.Prior.from_callable(own, SHAPE)
    with pytest.raises(qcs.UsageError, match="calibrate"):
        prior.save(tmp_path / "table.npz")
    prior = prior.calibrate(digits, count=2, levels=5)
    prior.save(tmp_path / "table.npz")
    again = qcs.Prior.from_callable(own, SHAPE, table=tmp_path / "table.npz")
    assert again.table == prior.table and again.is_calibrated
    means = [qcs.reconstruct(problem, prior=p, evaluations=2).mean.tobytes() for p in (prior, again)]
    assert means[0] == means[1]
    (tmp_path / "bad.npz").write_bytes(b"no table")
    with pytest.raises(qcs.BadFileError, match="no table") as caught:
        qcs.Prior.from_callable(own, SHAPE, table=tmp_path / "bad.npz")
    assert caught.value.path.endswith("bad.npz")


def test_draws_are_those_of_the_command(tmp_path):
    drawn = qcs.Prior.builtin().sample(3, seed=2, levels=10, device="cpu")
    assert drawn.shape == (3, *SHAPE) and drawn.dtype == np.float32
    arguments = "--count 3 --seed 2 --levels 10 --device cpu --quiet".split()
    files = ["-o", str(tmp_path / "sheet.png"), "--samples", str(tmp_path / "samples.npy")]
    done = subprocess.run([sys.executable, "-m", "qcs", "sample", *arguments, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "samples.npy").tobytes() == drawn.tobytes()


def test_a_function_is_drawn_from_at_levels_that_it_is_given():
    def flat(x, sigma):
        return 0.3 + 0.04 / (0.04 + by_image(sigma) ** 2) * (x - 0.3)

    prior = qcs.Prior.from_callable(flat, (1, 8, 8))
    with pytest.raises(qcs.Error, match="sigma_begin"):
        prior.sample(2)
    drawn = prior.sample(64, sigma_begin=2.0, sigma_end=0.01, levels=40)
    assert abs(drawn.mean() - 0.3) < 0.01 and abs(drawn.std() - 0.2) < 0.02
    with pytest.raises(qcs.UsageError, match="weighs measurements"):
        prior.sample(2, xi=0.3)
    with pytest.raises(qcs.UsageError, match="count"):
        prior.sample(0)


def knows_small_noise_only(x, sigma):
    """Our network up to sigma = 0.2; beyond, nonsense as of a network that was never shown such noise."""
    small = own(x, np.minimum(sigma, 0.2))
    return np.where(by_image(sigma) <= 0.2, small, 1 - small)


def test_a_denoiser_of_small_noise_gets_a_gaussian_start(digits, problem, tmp_path):
    prior = qcs.Prior.from_callable(knows_small_noise_only, SHAPE, largest=0.2)
    with pytest.raises(qcs.UsageError, match="calibrate"):
        prior.denoise(digits[:1], 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prior = prior.calibrate(digits, count=10, levels=17)
    levels, errors = np.array(prior.table[2]), np.array(prior.table[3])
    assert levels[-1] > 10 and (np.diff(errors) > 0).all()
    # Below it is the denoiser itself, above it never asked.
    noisy = digits[:2] + 0.1 * np.random.default_rng(0).normal(size=(2, *SHAPE)).astype(np.float32)
    assert np.abs(prior.denoise(noisy, 0.1) - own(noisy, np.full(2, 0.1))).max() < 1e-5
    found = qcs.reconstruct(problem, prior=prior)
    assert found.psnr > 20, found
    # What stands above is part of what is saved.
    prior.save(tmp_path / "small.npz")
    again = qcs.Prior.from_callable(knows_small_noise_only, SHAPE, largest=0.2, table=tmp_path / "small.npz")
    assert again.denoise(noisy, 1.0).tobytes() == prior.denoise(noisy, 1.0).tobytes()
    with pytest.raises(qcs.UsageError, match="Prior.save"):
        qcs.Prior.from_callable(knows_small_noise_only, SHAPE, largest=0.2, table=prior.table)


def test_a_denoiser_that_does_not_know_the_noise_is_told_of(digits):
    prior = qcs.Prior.from_callable(knows_small_noise_only, SHAPE)
    with pytest.warns(UserWarning, match="largest="):
        prior.calibrate(digits, count=4, levels=17)


def test_the_gaussian_is_the_best_linear_denoiser_of_what_it_was_made_from():
    from qcs._gaussian import Gaussian

    # White noise of known power in two channels that are correlated.
    rng = np.random.default_rng(0)
    mix = np.array([[0.2, 0.0], [0.1, 0.15]])
    x = (0.4 + np.einsum("cd,bdhw->bchw", mix, rng.normal(size=(200, 2, 6, 10)))).astype(np.float32)
    gaussian = Gaussian.of(x)
    noisy = x[:5] + 0.3 * rng.normal(size=x[:5].shape)
    gain = mix @ mix.T @ np.linalg.inv(mix @ mix.T + 0.09 * np.eye(2))
    expected = 0.4 + np.einsum("cd,bdhw->bchw", gain, noisy - 0.4)
    assert np.abs(gaussian.denoise(noisy, np.full(5, 0.3)) - expected).max() < 0.1
    assert np.sqrt(((gaussian.denoise(noisy, np.full(5, 0.3)) - expected) ** 2).mean()) < 0.02


def test_a_table_begins_where_denoising_helps(digits):
    def coarse(x, sigma):
        """Our network, with an error of its own at every level."""
        return own(x, sigma) + 0.02 * np.sign(np.sin(1e4 * x))

    prior = qcs.Prior.from_callable(coarse, SHAPE).calibrate(digits, count=2, levels=17)
    levels, errors = np.array(prior.table[2]), np.array(prior.table[3])
    assert 0.015 < levels[0] < 0.05 and levels[-1] > 5
    assert (errors[0] < levels[0] ** 2).all()
