"""A wider network that begins where a narrower one ended (Net2WiderNet, Chen et al., 2016).

Channels are copied; whoever reads a copied channel divides its weight among the copies, so the network computes what it
computed before. One place notices: InstanceNorm++ compares channel means with each other, and a copy counts twice.
A few dozen steps heal that.
"""

import torch

ASYMMETRY = 0.5  # of a weight's deviation: copies with equal weights would receive equal gradients and stay copies


def copies(count, wider, generator):
    """For each channel of the wider layer the channel it copies: all in order, then others drawn without repetition."""
    rounds = [torch.arange(count)] + [torch.randperm(count, generator=generator) for _ in range(wider // count)]
    return torch.cat(rounds)[:wider]


def split_inputs(weight, source, generator):
    """The input channels of a convolution, copied; the copies of one channel have weights that differ and sum to its own."""
    noise = torch.randn(weight.shape[0], len(source), *weight.shape[2:], generator=generator) * ASYMMETRY * weight.std()
    count = torch.bincount(source)[source].view(1, -1, 1, 1)
    sums = torch.zeros_like(weight).index_add_(1, source, noise)
    return weight[:, source] / count + noise - sums[:, source] / count


def widen(tensors, ngf, seed):
    """The weights of a network of width `ngf` that computes what `tensors`, of a smaller width, computes."""
    generator = torch.Generator().manual_seed(seed)
    narrow = tensors["begin_conv.weight"].shape[0]
    # The layers have ngf or 2 ngf channels, a U-Net's 4 ngf too; one list of copies each, so that sums of layers stay sums of equals.
    source = {k * narrow: copies(k * narrow, k * ngf, generator) for k in (1, 2, 4)}
    wider = {}
    for name, t in tensors.items():
        if name != "sigmas":
            if t.ndim == 4 and t.shape[1] in source:
                t = split_inputs(t, source[t.shape[1]], generator)
            if t.shape[0] in source:
                t = t[source[t.shape[0]]]
        wider[name] = t.clone()
    return wider
