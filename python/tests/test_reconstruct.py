import subprocess
import sys

import numpy as np
import pytest

import qcs

#: Each method with settings that make it short.
SHORT = {
    "turbo": {"evaluations": 4},
    "ep": {"levels": 4, "steps_per_level": 2},
    "diag": {"levels": 4, "steps_per_level": 2},
    "bipg": {},
    "oneshot": {},
}


def command(*arguments):
    done = subprocess.run([sys.executable, "-m", "qcs", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_four_lines_give_a_picture(digits):
    problem = qcs.measure(digits[:2], measurements=300, bits=2)
    result = qcs.reconstruct(problem)
    assert result.mean.shape == (2, 1, 28, 28) and result.mean.dtype == np.float32
    assert result.psnr > 22
    assert "PSNR" in repr(result) and "<img" in result._repr_html_()
    # What turbo expects of its error is near what it is.
    error = np.sqrt(((result.mean - digits[:2]) ** 2).mean(axis=(1, 2, 3)))
    assert (0.5 < error / result.predicted_error).all() and (error / result.predicted_error < 2).all()


@pytest.mark.parametrize("method", list(SHORT))
def test_the_command_gives_the_same_bytes(method, digits, tmp_path):
    problem = qcs.measure(digits[:3], measurements=120, bits=1, seed=5)
    problem.save(tmp_path / "problem.safetensors")
    flags = [word for name, value in SHORT[method].items() for word in (f"--{name.replace('_', '-')}", value)]
    out = tmp_path / "run"
    code, _, said = command(
        "run", tmp_path / "problem.safetensors", "--out", out, "--method", method, "--seed", 3, "--device", "cpu", *flags
    )
    assert code == 0, said
    result = qcs.reconstruct(problem, method=method, seed=3, device="cpu", **SHORT[method])
    assert np.load(out / method / "samples.npy").tobytes() == result.samples.tobytes()
    loaded = qcs.Result.load(out)
    assert loaded.mean.tobytes() == result.mean.tobytes()
    assert (loaded.metrics["psnr"] == result.metrics["psnr"]).all()


def test_the_command_measures_the_same_bytes(tmp_path, digits):
    np.save(tmp_path / "digits.npy", digits)
    code, _, said = command("measure", tmp_path / "digits.npy", "-o", tmp_path / "a.safetensors", "--bits", 3, "--seed", 2)
    assert code == 0, said
    qcs.measure(digits, bits=3, seed=2).save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.mark.parametrize("method", list(SHORT))
def test_image_3_alone_is_image_3_of_a_batch(method, digits):
    problem = qcs.measure(digits[:5], measurements=120, bits=1)
    settings = dict(method=method, chains=1 if method in ("bipg", "oneshot") else 2, seed=7, **SHORT[method])
    together = qcs.reconstruct(problem, **settings)
    alone = qcs.reconstruct(problem, images=3, batch=1, **settings)
    assert together.samples[3].tobytes() == alone.samples[0].tobytes()
    assert together.mean[3].tobytes() == alone.mean[0].tobytes()
    assert alone.truth.tobytes() == problem.truth[3:4].tobytes()


def test_samples_come_with_deviation_and_coverage(problem):
    result = qcs.reconstruct(problem, chains=4, evaluations=6)
    assert result.samples.shape == (3, 4, 1, 28, 28) and result.std.shape == (3, 1, 28, 28)
    assert set(result.coverage()) == {0.5, 0.8, 0.95}
    assert result.picture().shape[2] == 3


def test_signs_of_ones_own_lose_the_axis_that_was_not_there(signs):
    a, y, x = signs
    result = qcs.reconstruct(y, a, sigma=0.05, truth=x, evaluations=6)
    assert result.mean.shape == (1, 28, 28) and result.predicted_error.shape == (1,)
    same = qcs.reconstruct(y[None] > 0, a, 0.05, evaluations=6)
    assert same.mean.shape == (1, 1, 28, 28) and same.mean.tobytes() == result.mean.tobytes()
    lower, upper = np.where(y > 0, 0, -np.inf), np.where(y > 0, np.inf, 0)
    assert qcs.reconstruct((lower, upper), a, 0.05, evaluations=6).mean.tobytes() == result.mean.tobytes()


def test_values_and_codes_of_a_quantizer_are_the_same_cells(problem, digits):
    q = problem.quantizer
    z = problem.forward(digits[:3])
    for y in (q(z), q.codes(z)):
        lower, upper = q.cells(y)
        assert (lower <= z).all() and (z < upper).all()
    assert (problem.consistency(digits[:3]) > 0.7).all()


def test_a_folder_goes_on_and_is_loaded(problem, tmp_path):
    settings = dict(out=tmp_path / "run", evaluations=4, resume=True)
    first = qcs.reconstruct(problem, **settings)
    again = qcs.reconstruct(problem, **settings)
    in_memory = qcs.reconstruct(problem, evaluations=4)
    assert first.mean.tobytes() == again.mean.tobytes() == in_memory.mean.tobytes()
    with pytest.raises(qcs.UsageError, match="other settings"):
        qcs.reconstruct(problem, out=tmp_path / "run", evaluations=5, resume=True)
    with pytest.raises(qcs.UsageError, match="resume=True"):
        qcs.reconstruct(problem, out=tmp_path / "run", evaluations=4)
    code, said, _ = command("run", "--resume", "--out", tmp_path / "run")
    assert code == 0, said


def test_a_problem_survives_its_file_and_pickle(problem, tmp_path):
    import pickle

    problem.save(tmp_path / "p.safetensors")
    for other in (qcs.Problem.load(tmp_path / "p.safetensors"), pickle.loads(pickle.dumps(problem))):
        assert (other.lower == problem.lower).all() and (other.truth == problem.truth).all()
        assert repr(other) == repr(problem)


def test_the_command_is_in_the_package():
    assert command("--version")[1].startswith("qcs 0.")
    code, _, said = command("run", "nothing.safetensors", "--out", "x")
    assert code == 3 and "nothing.safetensors" in said


def test_the_scores_are_those_of_a_denoiser(problem, digits):
    prior = qcs.Prior.builtin()
    noisy = digits[:3] + 0.3 * np.random.default_rng(1).normal(size=(3, 1, 28, 28)).astype(np.float32)
    clean = prior.denoise(noisy, 0.3)
    assert ((clean - digits[:3]) ** 2).mean() < 0.2 * ((noisy - digits[:3]) ** 2).mean()
    up = digits[:3] + 1e-3 * qcs.likelihood_score(problem, noisy, 0.3)
    assert up.shape == noisy.shape and np.isfinite(up).all()


def test_an_operator_by_name_is_the_one_that_measure_draws(digits):
    problem = qcs.measure(digits[:1], "row-orthogonal", measurements=150, bits=2, seed=4)
    a = qcs.Operator("row-orthogonal", shape=(1, 28, 28), measurements=150, seed=4)
    assert (a.forward(digits[:1]) == problem.forward(digits[:1])).all()
    settings = dict(evaluations=4)
    again = qcs.reconstruct((problem.lower, problem.upper), a, problem.sigma, truth=digits[:1], **settings)
    assert again.mean.tobytes() == qcs.reconstruct(problem, **settings).mean.tobytes()


@pytest.mark.parametrize("name", ["hadamard", "dct", "mask", "blur:1", "shrink:2"])
def test_operators_without_a_matrix_multiply_and_reconstruct(name, digits):
    measurements = None if ":" in name else "50%"
    a = qcs.Operator(name, shape=(1, 28, 28), measurements=measurements, seed=2)
    rng = np.random.default_rng(0)
    x, z = rng.random((1, 1, 28, 28), dtype=np.float32), rng.normal(size=(1, a.m))
    assert np.isclose((a.forward(x) * z).sum(), (x.ravel() * a.adjoint(z)).sum())
    q = qcs.Quantizer(4, 0.1)
    y = q(a.forward(digits[:1]) + 0.02 * rng.normal(size=(1, a.m)))
    result = qcs.reconstruct(y, a, 0.02, quantizer=q, truth=digits[:1])
    assert result.psnr > 18, result


def test_scipys_kind_of_operator_is_its_matrix(signs):
    a, y, _ = signs

    class Scipys:
        shape = a.shape

        def matmat(self, x):
            return a @ x

    found = qcs.reconstruct(y, Scipys(), 0.05, evaluations=3)
    assert np.abs(found.mean - qcs.reconstruct(y, a, 0.05, evaluations=3).mean).max() < 1e-3

    class Large(Scipys):
        shape = (10**6, 784)

    with pytest.raises(qcs.UsageError, match="5.8 GiB, and 2 GiB are the limit"):
        qcs.reconstruct(y, Large(), 0.05)


def test_operators_of_scipy_and_pylops_themselves(signs):
    a, y, _ = signs
    expected = qcs.reconstruct(y, a, 0.05, evaluations=3).mean
    linalg = pytest.importorskip("scipy.sparse.linalg")
    assert np.abs(qcs.reconstruct(y, linalg.aslinearoperator(a), 0.05, evaluations=3).mean - expected).max() < 1e-3
    pylops = pytest.importorskip("pylops")
    assert np.abs(qcs.reconstruct(y, pylops.MatrixMult(a), 0.05, evaluations=3).mean - expected).max() < 1e-3


def test_other_measurements_by_the_same_matrix_are_the_same_problem(problem):
    again = problem.factorise().with_cells(problem.lower, problem.upper)
    assert repr(again) == repr(problem)
    assert qcs.reconstruct(again, evaluations=3).mean.tobytes() == qcs.reconstruct(problem, evaluations=3).mean.tobytes()


def test_images_are_read_as_the_command_reads_them(digits, tmp_path):
    np.save(tmp_path / "digits.npy", digits)
    assert (qcs.load_images(tmp_path / "digits.npy") == digits).all()
    assert (qcs.load_images(tmp_path / "digits.npy", first=4, count=2) == digits[4:6]).all()
    with pytest.raises(FileNotFoundError):
        qcs.load_images(tmp_path / "nothing.png")
    with pytest.raises(qcs.Error):
        qcs.load_images(tmp_path / "digits.npy", first=9, count=2)
