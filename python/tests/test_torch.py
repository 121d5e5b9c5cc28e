"""torch tensors and modules; only where torch is installed."""

import numpy as np
import pytest

import qcs

torch = pytest.importorskip("torch")


def test_torch_in_torch_out(signs):
    a, y, x = signs
    found = qcs.reconstruct(torch.from_numpy(y), torch.from_numpy(a), 0.05, truth=torch.from_numpy(x), evaluations=4, chains=2)
    assert all(isinstance(array, torch.Tensor) for array in (found.mean, found.samples, found.std))
    plain = qcs.reconstruct(y, a, 0.05, truth=x, evaluations=4, chains=2)
    assert found.mean.numpy().tobytes() == plain.mean.tobytes()
    assert "<img" in found._repr_html_() and np.asarray(found).shape == (1, 28, 28)


class Wiener(torch.nn.Module):
    """The best denoiser of white images around a mean, told in any parametrization and range."""

    def __init__(self, predicts="x0", low=0.0, high=1.0):
        super().__init__()
        self.predicts, self.mean = predicts, torch.nn.Parameter(torch.tensor(low + 0.3 * (high - low)))
        self.variance = (0.2 * (high - low)) ** 2

    def forward(self, x, sigma):
        s = sigma.reshape(-1, 1, 1, 1)
        clean = self.mean + self.variance / (self.variance + s**2) * (x - self.mean)
        return {"x0": clean, "eps": (x - clean) / s, "score": (clean - x) / s**2}[self.predicts]


@pytest.mark.parametrize("predicts", ["x0", "eps", "score"])
@pytest.mark.parametrize("range", [(0, 1), (-1, 1), (0, 255)])
def test_every_parametrization_and_range_is_the_same_denoiser(predicts, range):
    x = np.random.default_rng(0).normal(size=(3, 1, 28, 28)).astype(np.float32)
    prior = qcs.Prior.from_torch(Wiener(predicts, *range), (1, 28, 28), predicts=predicts, range=range)
    expected = 0.3 + 0.04 / (0.04 + 0.25) * (x - 0.3)
    assert np.abs(prior.denoise(x, 0.5) - expected).max() < 2e-5
    assert isinstance(prior.denoise(torch.from_numpy(x), 0.5), torch.Tensor)


def test_a_calibrated_module_serves_turbo(digits, problem):
    prior = qcs.Prior.from_torch(Wiener(), (1, 28, 28)).calibrate(digits, count=10, levels=9)
    assert prior.is_calibrated
    result = qcs.reconstruct(problem, prior=prior)
    assert result.psnr > 8 and not result.diverged


def test_modules_are_refused_with_the_reason():
    with pytest.raises(qcs.UsageError, match="x0, eps and score"):
        qcs.Prior.from_torch(Wiener(), (1, 28, 28), predicts="v")
    with pytest.raises(qcs.UsageError, match="range"):
        qcs.Prior.from_torch(Wiener(), (1, 28, 28), range=(1, 0))


def test_a_module_with_our_weights_is_our_engine(problem):
    import pathlib
    import sys

    pytest.importorskip("safetensors")
    weights = pathlib.Path(__file__).resolve().parents[2] / "weights"
    sys.path.insert(0, str(weights / "training"))
    try:
        import prior as files
    finally:
        sys.path.pop(0)
    network, _ = files.load(weights / "mnist-unet.safetensors")
    ours = qcs.Prior.load(weights / "mnist-unet.safetensors")
    called = qcs.Prior.from_torch(network.image, (1, 28, 28), device="cpu", table=ours.table)
    # 1e-6 were measured, which is rounding.
    a, b = (qcs.reconstruct(problem, prior=prior, device="cpu") for prior in (ours, called))
    assert np.abs(a.mean - b.mean).max() < 2e-5 and (a.evaluations == b.evaluations).all()
