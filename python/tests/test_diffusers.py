"""Models of diffusers, with random weights; only where diffusers is installed."""

import numpy as np
import pytest

import qcs

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")


def unet(**changes):
    torch.manual_seed(0)
    settings = dict(
        sample_size=16,
        in_channels=1,
        out_channels=1,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        norm_num_groups=8,
        attention_head_dim=8,
    )
    return diffusers.UNet2DModel(**(settings | changes)).eval()


def pipeline(prediction_type="epsilon", **changes):
    scheduler = diffusers.DDPMScheduler(prediction_type=prediction_type)
    return diffusers.DDPMPipeline(unet=unet(**changes), scheduler=scheduler)


@pytest.fixture
def noisy():
    return np.random.default_rng(0).normal(0.5, 0.5, size=(2, 1, 16, 16)).astype(np.float32)


@pytest.mark.parametrize("predicts", ["epsilon", "sample", "v_prediction"])
def test_our_engine_and_torch_say_the_same(predicts, noisy, tmp_path):
    model = pipeline(predicts)
    model.save_pretrained(tmp_path / "folder")
    ours = qcs.Prior.from_diffusers(model)
    assert not ours.is_callable and ours.shape == (1, 16, 16)
    others = {
        "folder": qcs.Prior.from_diffusers(tmp_path / "folder"),
        "torch": qcs.Prior.from_diffusers(model, own_engine=False),
        "torch, folder": qcs.Prior.from_diffusers(tmp_path / "folder", own_engine=False),
    }
    assert [prior.is_callable for prior in others.values()] == [False, True, True]
    # Between the steps of the schedule, at its ends and beyond them.
    for sigma in (0.004, 0.00731, 0.1234, 1.0, 30.0, 100.0):
        expected = ours.denoise(noisy, sigma)
        for name, prior in others.items():
            # The network's noise is right to some 3e-6, and the image is it times sigma.
            assert np.abs(prior.denoise(noisy, sigma) - expected).max() < max(2e-4, 3e-5 * sigma), (name, sigma)


def test_a_network_that_our_engine_does_not_know_is_called(noisy):
    odd = pipeline(block_out_channels=(12, 24), norm_num_groups=4)
    prior = qcs.Prior.from_diffusers(odd)
    assert prior.is_callable and prior.denoise(noisy, 0.3).shape == noisy.shape
    with pytest.raises(qcs.Error, match="8"):
        qcs.Prior.from_diffusers(odd, own_engine=True)


def test_a_model_reconstructs_is_saved_and_drawn_from(tmp_path):
    x = np.random.default_rng(1).random((4, 1, 16, 16), dtype=np.float32)
    problem = qcs.measure(x, measurements=100, bits=3, step=0.5)
    prior = qcs.Prior.from_diffusers(pipeline())
    with pytest.raises(qcs.Error, match="[Cc]alibrate|calibration"):
        qcs.reconstruct(problem, prior=prior)
    # Random weights denoise nothing: the table is told, and what is shown is that all parts fit.
    table = (np.full((1, 16, 16), 0.5), 0.08, [0.01, 0.1, 1.0], [0.0001, 0.008, 0.07])
    prior = prior.with_table(table)
    found = qcs.reconstruct(problem, prior=prior, evaluations=3)
    prior.save(tmp_path / "model.safetensors")
    again = qcs.reconstruct(problem, prior=tmp_path / "model.safetensors", evaluations=3)
    assert again.mean.tobytes() == found.mean.tobytes()
    called = qcs.Prior.from_diffusers(pipeline(), own_engine=False, table=table)
    assert np.abs(qcs.reconstruct(problem, prior=called, evaluations=3).mean - found.mean).max() < 1e-2
    assert prior.sample(2, levels=5).shape == (2, 1, 16, 16)


def test_what_is_no_such_model_is_refused(tmp_path):
    with pytest.raises(TypeError, match="UNet2DModel"):
        qcs.Prior.from_diffusers(torch.nn.Linear(2, 2))
    with pytest.raises(qcs.UsageError, match="alphas_cumprod"):
        qcs.Prior.from_diffusers(unet(), scheduler=diffusers.ScoreSdeVeScheduler())
    with pytest.raises((OSError, ValueError), match="nothing"):
        qcs.Prior.from_diffusers(str(tmp_path / "nothing" / "there"))
