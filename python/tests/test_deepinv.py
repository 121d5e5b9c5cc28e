"""The adapters against the real deepinv; only where it is installed."""

import numpy as np
import pytest

import qcs

torch = pytest.importorskip("torch")
dinv = pytest.importorskip("deepinv")

from qcs.deepinv import QCSDenoiser, QCSReconstructor, QuantizedDataFidelity, Quantizer, problem_of  # noqa: E402

SHAPE = (1, 28, 28)


@pytest.fixture(scope="module")
def x(digits):
    return torch.from_numpy(digits[:2].copy())


def physics_of(bits, step=None):
    return dinv.physics.CompressedSensing(
        m=200,
        img_size=SHAPE,
        noise_model=dinv.physics.GaussianNoise(0.05),
        sensor_model=Quantizer(bits, step),
        rng=torch.Generator().manual_seed(0),
    )


@pytest.mark.parametrize("bits, step", [(1, None), (3, 0.2)])
def test_a_reconstructor_reconstructs_what_a_quantized_physics_measures(x, bits, step):
    physics = physics_of(bits, step)
    y = physics(x)
    assert y.dtype == x.dtype and len(torch.unique(y)) <= 2**bits
    model = QCSReconstructor("mnist", evaluations=12)
    found = model(y, physics)
    assert found.shape == x.shape and dinv.metric.PSNR()(found.clip(0, 1), x).mean() > 17
    assert model.last.predicted_error.shape == (2,)
    # A is what the physics multiplies by, and it is kept.
    problem = problem_of(y, physics, SHAPE)
    product = physics.A(x).numpy()
    assert np.abs(problem.forward(x.numpy()) - product).max() < 1e-4
    assert problem_of(y, physics, SHAPE)._native is not problem._native


def test_samples_have_a_mean_and_a_variance(x):
    physics = physics_of(2, 0.4)
    mean, variance = QCSReconstructor("mnist", evaluations=6).sample(physics(x), physics, chains=3)
    assert mean.shape == variance.shape == x.shape and (variance >= 0).all()


def test_deepinvs_own_test_runs_it(x):
    physics = physics_of(2, 0.4)
    loader = torch.utils.data.DataLoader([(image, physics(image[None])[0]) for image in x], batch_size=2)
    model, metrics = QCSReconstructor("mnist", evaluations=6), [dinv.metric.PSNR()]
    found = dinv.test(model, loader, physics, metrics=metrics, verbose=False, show_progress_bar=False)
    assert found["PSNR"] > 15


def test_our_denoiser_denoises_for_deepinv(x):
    denoiser = QCSDenoiser("mnist")
    noisy = x + 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    found = denoiser(noisy, torch.tensor([0.3, 0.3]))
    assert ((found - x) ** 2).mean() < 0.2 * ((noisy - x) ** 2).mean()
    assert (denoiser(x, 0.0) == x).all()
    with pytest.raises(qcs.UsageError, match="gradient"):
        denoiser(noisy.requires_grad_(), 0.3)


def test_the_data_fidelity_is_minus_the_likelihood_score(x):
    physics = physics_of(2, 0.4)
    y = physics(x)
    ours = qcs.likelihood_score(problem_of(y, physics, SHAPE), x.numpy(), 0.5, "diag")
    for sigma in (0.5, torch.tensor(0.5), torch.full((2, 1, 1, 1), 0.5)):
        grad = QuantizedDataFidelity("diag", weight=2.0).grad(x, y, physics, sigma=sigma)
        assert torch.allclose(grad, -2 * torch.from_numpy(ours))


def test_deepinvs_sampler_samples_from_quantized_measurements(x):
    physics = physics_of(3, 0.2)
    y = physics(x)
    sde = dinv.sampling.VarianceExplodingDiffusion(sigma_max=3.0, sigma_min=0.02, alpha=0.5)
    solver = dinv.sampling.EulerSolver(timesteps=torch.linspace(1, 0.001, 40), rng=torch.Generator().manual_seed(0))
    model = dinv.sampling.PosteriorDiffusion(
        data_fidelity=QuantizedDataFidelity("ep"),
        denoiser=QCSDenoiser("mnist"),
        sde=sde,
        solver=solver,
        minus_one_one=False,
        verbose=False,
    )
    found = model(y, physics, x_init=(2, *SHAPE))
    blind = dinv.metric.PSNR()(torch.full_like(x, float(x.mean())), x).mean()
    assert dinv.metric.PSNR()(found.clip(0, 1).float(), x).mean() > blind + 2


def test_physics_that_do_not_fit_are_refused(x):
    plain = dinv.physics.CompressedSensing(m=20, img_size=SHAPE, noise_model=dinv.physics.GaussianNoise(0.05))
    with pytest.raises(qcs.UsageError, match="sensor_model"):
        QCSReconstructor("mnist")(plain(x), plain)
    quiet = dinv.physics.CompressedSensing(m=20, img_size=SHAPE, sensor_model=Quantizer(1))
    with pytest.raises(qcs.UsageError, match="sigma"):
        QCSReconstructor("mnist")(quiet(x), quiet)
    with pytest.raises(qcs.UsageError, match="max_bytes"):
        problem_of(physics_of(1)(x), physics_of(1), SHAPE, max_bytes=1000)
