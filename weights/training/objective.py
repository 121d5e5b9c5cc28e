"""What a prior is trained for, and the two figures it is judged by on the validation images."""

import torch

import levels

DATA_DEVIATION = 0.3  # of a pixel of MNIST, 0.31; of CIFAR-10, 0.25
TABLE = (0.05, 0.1, 0.2, 0.33, 0.5, 1.0, 2.0, 5.0)  # noise levels of the table of denoising errors


def dsm_loss(net, x, sigma, z, told=None):
    """sigma^2-weighted denoising score matching, ||sigma * score(x + sigma z) + z||^2, as a mean
    over pixels, one value per image: 1 for a network that says nothing, whatever the level.
    A network that asks for the level may be `told` another one: the image it denoises to should be the same."""
    told = sigma if told is None else told
    noisy = x + sigma.view(-1, 1, 1, 1) * z
    return (net.noise(noisy, told) * (told / sigma).view(-1, 1, 1, 1) + z).square().mean((1, 2, 3))


def emphasis(sigma, top, mean=None):
    """Mean 1 over the batch, or over many where `mean`, the mean weight of all levels, is given: a batch of one image has none.
    The loss of a level is that of its denoised image divided by sigma^2; this takes the division back between the data's deviation
    and `top`, where it is decided which digit an image shows."""
    weight = 1 + (sigma.clamp(max=top) / DATA_DEVIATION).square()
    return weight / (mean or weight.mean())


@torch.no_grad()
def validation_loss(net, images, args):
    """Mean DSM loss over the held-out images, levels log-uniform over the schedule; the same
    levels and noise at every call, so that calls compare."""
    g = torch.Generator().manual_seed(12345)
    total = 0.0
    for x in (images.float() / 255).split(100):
        sigma = levels.log_uniform(len(x), args.sigma_end, args.sigma_begin, g)
        total += dsm_loss(net, x, sigma, torch.randn(x.shape, generator=g)).sum().item()
    return total / len(images)


@torch.no_grad()
def squared_errors(denoiser, images):
    """Mean squared error per pixel of `denoiser.denoised(noisy, sigma)`, TABLE x images, always on the same noise."""
    images = images.float() / 255
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(7))

    def errors(sigma):
        parts = zip(images.split(100), noise.split(100))
        return torch.cat([(denoiser.denoised(x + sigma * z, sigma) - x).square().mean((1, 2, 3)) for x, z in parts])

    return torch.stack([errors(sigma) for sigma in TABLE])
