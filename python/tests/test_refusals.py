"""What is wrong is refused in one line that says what to do, and never by a panic."""

import numpy as np
import pytest

import qcs

A = np.eye(5, 784)
Y = np.ones(5)


def refused(match, **changes):
    given = {"y": Y, "A": A, "sigma": 0.05} | changes
    with pytest.raises(qcs.UsageError, match=match) as caught:
        qcs.reconstruct(given.pop("y"), **given)
    assert "\n" not in str(caught.value) and isinstance(caught.value, ValueError)


def test_bytes_are_refused_with_the_line_that_converts_them():
    with pytest.raises(qcs.UsageError, match="x = x / 255"):
        qcs.measure(np.zeros((28, 28), dtype=np.uint8))
    with pytest.raises(qcs.UsageError, match="x = x / 255"):
        qcs.measure(np.full((28, 28), 200.0))
    with pytest.raises(qcs.UsageError, match=r"x = \(x \+ 1\) / 2"):
        qcs.measure(np.full((28, 28), -1.0))


def test_images_that_are_none_are_refused():
    for x in (np.full((28, 28), np.nan), np.zeros(784), np.zeros((0, 1, 28, 28)), np.zeros((1, 1, 1, 28, 28))):
        with pytest.raises(qcs.UsageError):
            qcs.measure(x)
    with pytest.raises(TypeError, match="complex"):
        qcs.measure(np.zeros((28, 28), dtype=complex))


def test_measurements_that_are_none_are_refused():
    refused("y.astype", y=np.array([0, 1, 1, 0, 1]))
    refused("quantizer=", y=np.linspace(-1, 1, 5))
    refused("5 rows|A has 5", y=np.ones(4))
    refused("shape", y=np.ones((1, 1, 5)))
    refused("quantizer=", y=np.full(5, np.nan))
    refused("empty cell", y=(np.ones(5), np.zeros(5)))
    refused("upper", y=(np.ones(5), np.ones(4)))
    refused("codes 0 to 3", y=np.array([0, 1, 2, 3, 4]), quantizer=qcs.Quantizer(2, 0.5))
    refused("NaN", y=np.full(5, np.nan), quantizer=qcs.Quantizer(2, 0.5))


def test_a_matrix_that_is_none_is_refused():
    refused("783", A=np.ones((5, 783)))
    refused("matrix", A=np.ones(784))
    refused("NaN|not finite", A=np.full((5, 784), np.nan))
    refused("scale", A=np.zeros((5, 784)))


def test_settings_are_refused_by_name():
    refused("sigma", sigma=-1.0)
    refused("give A and sigma", sigma=None)
    refused("there are .*evaluations", xyz=3)
    refused("chains", chains=0)
    refused("chains", chains=1.5)
    refused("batch", batch=0)
    refused("method", method="magic")
    refused("device", device="tpu")
    refused("precision", precision="fp7")
    refused("seed", seed=-1)
    refused("images", images=1)
    refused("images", images=slice(0, 0))
    refused("on_divergence", on_divergence="cry")
    refused("out", resume=True)
    refused("no built-in prior", prior="cats")
    with pytest.raises(qcs.SettingError) as caught:
        qcs.reconstruct(Y, A, 0.05, evaluations=0)
    assert caught.value.name == "evaluations"
    with pytest.raises(TypeError, match="seed"):
        qcs.reconstruct(Y, A, 0.05, seed=np.random.default_rng())
    with pytest.raises(TypeError, match="prior"):
        qcs.reconstruct(Y, A, 0.05, prior=3)


def test_quantizers_that_are_none_are_refused():
    for bits, step in ((0, None), (9, 0.1), (2, None), (2, -1.0), (1, 0.5), (300, 0.1)):
        with pytest.raises(qcs.UsageError):
            qcs.Quantizer(bits, step)


def test_files_are_pythons_own_errors(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        qcs.Problem.load(tmp_path / "nothing.safetensors")
    assert caught.value.filename.endswith("nothing.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors")
    with pytest.raises(qcs.BadFileError) as caught:
        qcs.Problem.load(tmp_path / "bad.safetensors")
    assert caught.value.path.endswith("bad.safetensors")


def test_a_problem_of_other_images_than_the_priors_is_refused():
    problem = qcs.measure(np.zeros((8, 8)) + 0.5, measurements=10)
    with pytest.raises(qcs.UsageError, match="prior"):
        qcs.reconstruct(problem)
    with pytest.raises(qcs.UsageError, match="part of the Problem"):
        qcs.reconstruct(problem, A=A)
