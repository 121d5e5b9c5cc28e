"""Models of diffusers as denoisers, called in torch."""

from __future__ import annotations

import os
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from ._errors import UsageError


def parts(model: Any, scheduler: Any) -> tuple[Any, Any]:
    """The network and the scheduler of a pipeline, or of a network that comes alone."""
    network = getattr(model, "unet", model)
    scheduler = scheduler or getattr(model, "scheduler", None)
    if not callable(network) or not hasattr(network, "config"):
        raise TypeError(f"model is {type(model).__name__}: a pipeline, a UNet2DModel, a folder or a repository is needed")
    return network, scheduler


def opened(source: str, scheduler: Any) -> tuple[Any, Any]:
    """The same of a folder or a repository."""
    import diffusers

    def has(*names: str) -> bool:
        return os.path.isfile(os.path.join(source, *names))

    if os.path.isdir(source) and not has("model_index.json"):
        inside = {} if has("config.json") else {"subfolder": "unet"}
        network = diffusers.UNet2DModel.from_pretrained(source, **inside)
        beside = {} if has("scheduler_config.json") else {"subfolder": "scheduler"}
        if scheduler is None and (not beside or has("scheduler", "scheduler_config.json")):
            scheduler = diffusers.DDPMScheduler.from_pretrained(source, **beside)
        return network, scheduler
    return parts(diffusers.DiffusionPipeline.from_pretrained(source), scheduler)


def shape_of(network: Any) -> tuple[int, int, int]:
    """C, H, W of its images, where it says them."""
    size = network.config.get("sample_size")
    if size is None:
        raise UsageError("the model does not say the size of its images: give shape=")
    height, width = (size, size) if isinstance(size, int) else size
    return network.config["in_channels"], int(height), int(width)


def check(network: Any, scheduler: Any) -> None:
    """Refuses a model whose noise levels are not those of a variance-preserving process."""
    if network.config.get("time_embedding_type", "positional") != "positional":
        raise UsageError("the model is told sigma and not a step: give from_torch a function of x and sigma that calls it")
    if scheduler is None:
        return
    if getattr(scheduler, "alphas_cumprod", None) is None:
        raise UsageError(f"{type(scheduler).__name__} has no alphas_cumprod: its noise levels are not known")
    predicts = scheduler.config.get("prediction_type", "epsilon")
    if predicts not in ("epsilon", "sample", "v_prediction"):
        raise UsageError(f"the scheduler's prediction_type is {predicts!r}: known are epsilon, sample and v_prediction")


def denoiser(network: Any, scheduler: Any, device: Any) -> Callable[..., Any]:
    """The expected clean image by a network of a variance-preserving process.

    A noise level of images in [0, 1] is twice as large in [-1, 1], and is told to the network as the step that has it, linear in
    ln sigma between steps: a network that is told the level believes it. Beyond the first and the last step it is told those.
    """
    import torch

    config = {} if scheduler is None else scheduler.config
    signal = getattr(scheduler, "alphas_cumprod", None)
    if signal is None:
        signal = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64), 0)
    signal = np.asarray(signal, dtype=np.float64)
    logs = 0.5 * np.log((1 - signal) / signal)
    predicts = config.get("prediction_type", "epsilon")
    parameter = next(network.parameters())
    device, dtype = device or parameter.device, parameter.dtype
    network = network.to(device).eval()
    channels = network.config["in_channels"]

    def denoise(x: NDArray[np.float32], sigma: NDArray[np.float64]) -> Any:
        doubled = 2 * sigma
        step = np.interp(np.log(doubled), logs, np.arange(len(logs)))
        with torch.no_grad():
            s = torch.from_numpy(doubled).to(device=device, dtype=torch.float32).reshape(-1, 1, 1, 1)
            noisy = 2 * torch.from_numpy(x).to(device) - 1
            total = (1 + s**2).sqrt()
            steps = torch.from_numpy(step).to(device=device, dtype=torch.float32)
            said = network((noisy / total).to(dtype), steps).sample[:, :channels].float()
            if predicts == "epsilon":
                clean = noisy - s * said
            elif predicts == "sample":
                clean = said
            else:
                clean = noisy / total**2 - s / total * said
            return ((clean + 1) / 2).clamp(0, 1)

    return denoise
