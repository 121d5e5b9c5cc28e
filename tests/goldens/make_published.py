"""Writes published/: small networks of the published families with random weights, as their authors' files hold them, and beside
each a golden: images, levels, and scores in float64.

    python make_published.py        needs torch and diffusers

`UNet2DModel` is diffusers' own, in double precision, its embedding too. DDIM's, ADM's, EDM's and DRUNet's networks are written here from
their description, in plain functions of torch on a state dict, none of their authors' code.
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import pickled

here = Path(__file__).resolve().parent / "published"
LEVELS = [0.003, 0.05, 0.7, 20.0, 100.0]


def vp_logs(kind="linear", first=1e-4, last=0.02, count=1000):
    if kind == "linear":
        betas = torch.linspace(first, last, count, dtype=torch.float64)
    elif kind == "scaled_linear":
        betas = torch.linspace(first ** 0.5, last ** 0.5, count, dtype=torch.float64) ** 2
    else:
        bar = lambda u: math.cos((u + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = torch.tensor([min(1 - bar((i + 1) / count) / bar(i / count), 0.999) for i in range(count)], dtype=torch.float64)
    bars = torch.cumprod(1 - betas, 0)
    return 0.5 * torch.log((1 - bars) / bars)


def step_of(sigma, logs):
    """The step of a level of images in [0, 1], linear in the logarithm between steps."""
    log = torch.log(2 * sigma)
    if log <= logs[0]:
        return torch.tensor(0.0, dtype=torch.float64)
    if log >= logs[-1]:
        return torch.tensor(float(len(logs) - 1), dtype=torch.float64)
    at = int(torch.searchsorted(logs, log, right=True)) - 1
    return at + (log - logs[at]) / (logs[at + 1] - logs[at])


def embedding(number, width, cosines_first, shift):
    half = width // 2
    frequencies = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float64) / (half - shift))
    angles = number * frequencies
    parts = [torch.cos(angles), torch.sin(angles)] if cosines_first else [torch.sin(angles), torch.cos(angles)]
    return torch.cat(parts)


def score_of(kind, x, sigma, output):
    """From a network's output to the score of an image in [0, 1], by the denoised image brought to where images lie."""
    x1, s1 = 2 * x - 1, 2 * sigma
    root = (1 + s1 * s1) ** 0.5
    if kind == "epsilon":
        image = x1 - s1 * output
    elif kind == "v_prediction":
        image = x1 / (1 + s1 * s1) - s1 / root * output
    elif kind == "sample":
        image = output
    elif kind == "edm":
        t2 = s1 * s1 + 0.25
        image = 0.25 / t2 * x1 + 0.5 * s1 / t2 ** 0.5 * output
    else:  # denoised, in [0, 1]
        image = 2 * output - 1
    return ((image.clamp(-1, 1) + 1) / 2 - x) / sigma ** 2


def input_of(kind, x, sigma):
    x1, s1 = 2 * x - 1, 2 * sigma
    if kind == "edm":
        return x1 / (s1 * s1 + 0.25) ** 0.5
    return x1 / (1 + s1 * s1) ** 0.5


def images(channels, height, width, seed):
    random = torch.Generator().manual_seed(seed)
    sigma = torch.tensor(LEVELS, dtype=torch.float64)
    shape = (len(LEVELS), channels, height, width)
    noise = torch.randn(shape, generator=random)
    return (torch.rand(shape, generator=random) + sigma.float()[:, None, None, None] * noise).float(), sigma


def write_golden(name, x, sigma, scores):
    assert all(torch.isfinite(s).all() for s in scores)
    save_file({"x": x, "levels": sigma, "out_f64": torch.cat(scores)}, here / f"{name}.golden.safetensors")


def randomised(shapes, seed):
    """Weights that keep the variance of what they are applied to; none at the value that training starts with, zero least of all."""
    random, weights = torch.Generator().manual_seed(seed), {}
    for name, shape in shapes.items():
        values = torch.randn(shape, generator=random)
        if len(shape) > 1:
            values = values / math.prod(shape[1:]) ** 0.5
        else:
            is_norm = any(part in name for part in ("norm", "in_layers.0", "out_layers.0", "out.0")) and name.endswith("weight")
            values = 0.2 * values + float(is_norm)
        weights[name] = values.half().float()
    return weights


def diffusers_folder(name, seed, height, width, scheduler, old_names=False, nested=False, binary=False, **config):
    import diffusers
    from diffusers.models import embeddings

    def exact(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000):
        rows = [embedding(t, embedding_dim, flip_sin_to_cos, downscale_freq_shift) for t in timesteps.double()]
        return torch.stack(rows)

    embeddings.get_timestep_embedding = exact
    config = {"sample_size": [height, width], **config}
    model = diffusers.UNet2DModel(**config).eval()
    weights = randomised({k: tuple(v.shape) for k, v in model.state_dict().items()}, seed)
    model.load_state_dict(weights)
    model = model.double()
    # The module asks for float32 inside: keep float64.
    model.time_proj.forward = lambda t: exact(t, model.time_proj.num_channels, model.time_proj.flip_sin_to_cos,
                                              model.time_proj.downscale_freq_shift)
    x, sigma = images(config.get("in_channels", 3), height, width, seed + 1)
    logs = vp_logs(scheduler.get("beta_schedule", "linear"), scheduler.get("beta_start", 1e-4), scheduler.get("beta_end", 0.02))
    kind, scores = scheduler.get("prediction_type", "epsilon"), []
    with torch.no_grad():
        for image, s in zip(x.double(), sigma):
            t = step_of(s, logs).reshape(1)
            output = model(input_of(kind, image[None], s), t).sample[:, : image.shape[0]]
            scores.append(score_of(kind, image[None], s, output))
    folder = here / name
    unet, sched = (folder / "unet", folder / "scheduler") if nested else (folder, folder)
    for path in {folder, unet, sched}:
        path.mkdir(parents=True, exist_ok=True)
    stored = weights
    if old_names:
        renames = {".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.0.": ".proj_attn."}
        for new, old in renames.items():
            stored = {k.replace(new, old): v for k, v in stored.items()}
    halves = {k: v.half() for k, v in stored.items()}
    if binary:
        torch.save(halves, unet / "diffusion_pytorch_model.bin")
    else:
        save_file(halves, unet / "diffusion_pytorch_model.safetensors")
    (unet / "config.json").write_text(json.dumps({"_class_name": "UNet2DModel", "_diffusers_version": "0.4.0", **config}, indent=1))
    (sched / "scheduler_config.json").write_text(json.dumps({"_class_name": "DDPMScheduler", **scheduler}, indent=1))
    write_golden(name, x, sigma, scores)
    return model, weights


def group_norm(x, w, name, groups, eps):
    return F.group_norm(x, groups, w[f"{name}.weight"], w[f"{name}.bias"], eps)


def conv(x, w, name, **options):
    return F.conv2d(x, w[f"{name}.weight"], w.get(f"{name}.bias"), **options)


def attend(q, k, v, heads):
    """`[B, C, T]` each."""
    batch = q.shape[0]
    q, k, v = (part.reshape(batch * heads, -1, part.shape[-1]) for part in (q, k, v))
    weights = torch.softmax(q.transpose(1, 2) @ k / q.shape[1] ** 0.5, -1)
    return (v @ weights.transpose(1, 2)).reshape(batch, -1, v.shape[-1])


class Adm:
    """guided-diffusion's UNetModel: blocks that resample, scale-shift norms, heads of 64 in the legacy order."""

    def __init__(self, channels, m, mult, blocks, attention, seed, scale_shift=True, updown=True, shapes_only=False):
        self.channels, self.m, self.mult, self.blocks, self.attention = channels, m, mult, blocks, attention
        self.scale_shift, self.updown, self.shapes = scale_shift, updown, {}
        self.weights = None
        self.forward(torch.zeros(1, channels, 4 * 2 ** (len(mult) - 1), 4 * 2 ** (len(mult) - 1), dtype=torch.float64), torch.tensor(1.0))
        if not shapes_only:
            self.weights = {k: v.double() for k, v in randomised(self.shapes, seed).items()}

    def w(self, name, *shape):
        self.shapes[name] = shape
        return self.weights[name] if self.weights else torch.zeros(shape, dtype=torch.float64)

    def layer(self, name, *shape):
        return {f"{name}.weight": self.w(f"{name}.weight", *shape), f"{name}.bias": self.w(f"{name}.bias", shape[0])}

    def norm(self, name, x):
        return group_norm(x, self.layer(name, x.shape[1]), name, 32, 1e-5)

    def conv3(self, name, x, width, **options):
        return conv(x, self.layer(name, width, x.shape[1], 3, 3), name, padding=1, **options)

    def dense(self, name, x, width):
        w = self.layer(name, width, x.shape[-1])
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def block(self, name, x, emb, width, resample=None):
        h = F.silu(self.norm(f"{name}.in_layers.0", x))
        if resample:
            h, x = resample(h), resample(x)
        h = self.conv3(f"{name}.in_layers.2", h, width)
        terms = self.dense(f"{name}.emb_layers.1", F.silu(emb), 2 * width if self.scale_shift else width)[:, :, None, None]
        if self.scale_shift:
            scale, shift = terms.chunk(2, 1)
            h = self.norm(f"{name}.out_layers.0", h) * (1 + scale) + shift
        else:
            h = self.norm(f"{name}.out_layers.0", h + terms)
        h = self.conv3(f"{name}.out_layers.3", F.silu(h), width)
        if x.shape[1] != width:
            x = conv(x, self.layer(f"{name}.skip_connection", width, x.shape[1], 1, 1), f"{name}.skip_connection")
        return x + h

    def attend(self, name, x):
        batch, c = x.shape[:2]
        h = self.norm(f"{name}.norm", x).reshape(batch, c, -1)
        qkv = self.layer(f"{name}.qkv", 3 * c, c, 1)
        rows = F.conv1d(h, qkv[f"{name}.qkv.weight"], qkv[f"{name}.qkv.bias"]).reshape(batch, c // 64, 3, 64, -1)
        h = attend(*(rows[:, :, part].reshape(batch, c, -1) for part in range(3)), c // 64)
        proj = self.layer(f"{name}.proj_out", c, c, 1)
        return x + F.conv1d(h, proj[f"{name}.proj_out.weight"], proj[f"{name}.proj_out.bias"]).reshape(x.shape)

    def forward(self, x, t):
        down, up = lambda h: F.avg_pool2d(h, 2), lambda h: F.interpolate(h, scale_factor=2, mode="nearest")
        emb = self.dense("time_embed.0", embedding(t, self.m, True, 0)[None], 4 * self.m)
        emb = self.dense("time_embed.2", F.silu(emb), 4 * self.m)
        h = self.conv3("input_blocks.0.0", x, self.m * self.mult[0])
        stack, at = [h], 1
        for level, mult in enumerate(self.mult):
            for _ in range(self.blocks):
                h = self.block(f"input_blocks.{at}.0", h, emb, self.m * mult)
                if level in self.attention:
                    h = self.attend(f"input_blocks.{at}.1", h)
                stack.append(h)
                at += 1
            if level + 1 < len(self.mult):
                if self.updown:
                    h = self.block(f"input_blocks.{at}.0", h, emb, self.m * mult, down)
                else:
                    h = self.conv3(f"input_blocks.{at}.0.op", h, self.m * mult, stride=2)
                stack.append(h)
                at += 1
        h = self.block("middle_block.0", h, emb, h.shape[1])
        h = self.attend("middle_block.1", h)
        h = self.block("middle_block.2", h, emb, h.shape[1])
        at = 0
        for level, mult in reversed(list(enumerate(self.mult))):
            for block in range(self.blocks + 1):
                h = self.block(f"output_blocks.{at}.0", torch.cat([h, stack.pop()], 1), emb, self.m * mult)
                part = 1
                if level in self.attention:
                    h = self.attend(f"output_blocks.{at}.1", h)
                    part = 2
                if level and block == self.blocks:
                    if self.updown:
                        h = self.block(f"output_blocks.{at}.{part}", h, emb, self.m * mult, up)
                    else:
                        h = self.conv3(f"output_blocks.{at}.{part}.conv", up(h), self.m * mult)
                at += 1
        return self.conv3("out.2", F.silu(self.norm("out.0", h)), 2 * self.channels)[:, : self.channels]


class Edm:
    """EDM's SongUNet (DDPM++) or DhariwalUNet (ADM), by what tells them apart."""

    def __init__(self, channels, side, m, mult, blocks, attention, adm, seed, shapes_only=False):
        self.channels, self.side, self.m, self.mult, self.blocks = channels, side, m, mult, blocks
        self.attention, self.adm, self.shapes, self.weights = attention, adm, {}, None
        self.factor = 1.0 if adm else 0.5 ** 0.5
        self.forward(torch.zeros(1, channels, side, side, dtype=torch.float64), torch.tensor(1.0))
        if not shapes_only:
            self.weights = {k: v.double() for k, v in randomised(self.shapes, seed).items()}

    w, layer, conv3, dense = Adm.w, Adm.layer, Adm.conv3, Adm.dense

    def norm(self, name, x):
        c = x.shape[1]
        return group_norm(x, self.layer(name, c), name, min(32, c // 4), 1e-5 if self.adm else 1e-6)

    def block(self, name, x, emb, width, resample=None, attention=False):
        h = F.silu(self.norm(f"{name}.norm0", x))
        if resample:
            h, x = resample(h), resample(x)
        h = self.conv3(f"{name}.conv0", h, width)
        terms = self.dense(f"{name}.affine", emb, 2 * width if self.adm else width)[:, :, None, None]
        if self.adm:
            scale, shift = terms.chunk(2, 1)
            h = F.silu(self.norm(f"{name}.norm1", h) * (1 + scale) + shift)
        else:
            h = F.silu(self.norm(f"{name}.norm1", h + terms))
        h = self.conv3(f"{name}.conv1", h, width)
        if x.shape[1] != width or resample and not self.adm:
            x = conv(x, self.layer(f"{name}.skip", width, x.shape[1], 1, 1), f"{name}.skip")
        x = (x + h) * self.factor
        if attention:
            heads = width // 64 if self.adm else 1
            h = conv(self.norm(f"{name}.norm2", x), self.layer(f"{name}.qkv", 3 * width, width, 1, 1), f"{name}.qkv")
            rows = h.reshape(x.shape[0], width, 3, -1)
            h = attend(rows[:, :, 0], rows[:, :, 1], rows[:, :, 2], heads).reshape(x.shape)
            x = (x + conv(h, self.layer(f"{name}.proj", width, width, 1, 1), f"{name}.proj")) * self.factor
        return x

    def forward(self, x, number):
        down, up = lambda h: F.avg_pool2d(h, 2), lambda h: F.interpolate(h, scale_factor=2, mode="nearest")
        emb = embedding(number, self.m, self.adm, 0 if self.adm else 1)[None]
        emb = F.silu(self.dense("map_layer0", emb, 4 * self.m))
        emb = F.silu(self.dense("map_layer1", emb, 4 * self.m))
        stack = []
        for level, mult in enumerate(self.mult):
            at = f"enc.{self.side >> level}x{self.side >> level}"
            if level == 0:
                h = self.conv3(f"{at}_conv", x, self.m * mult if self.adm else self.m)
            else:
                h = self.block(f"{at}_down", h, emb, h.shape[1], down)
            stack.append(h)
            for block in range(self.blocks):
                h = self.block(f"{at}_block{block}", h, emb, self.m * mult, attention=level in self.attention)
                stack.append(h)
        for level, mult in reversed(list(enumerate(self.mult))):
            at = f"dec.{self.side >> level}x{self.side >> level}"
            if level == len(self.mult) - 1:
                h = self.block(f"{at}_in0", h, emb, h.shape[1], attention=True)
                h = self.block(f"{at}_in1", h, emb, h.shape[1])
            else:
                h = self.block(f"{at}_up", h, emb, h.shape[1], up)
            for block in range(self.blocks + 1):
                attention = level in self.attention and (self.adm or block == self.blocks)
                h = self.block(f"{at}_block{block}", torch.cat([h, stack.pop()], 1), emb, self.m * mult, attention=attention)
        norm, last = ("out_norm", "out_conv") if self.adm else (f"{at}_aux_norm", f"{at}_aux_conv")
        return self.conv3(last, F.silu(self.norm(norm, h)), self.channels)


class Drunet:
    def __init__(self, channels, widths, blocks, seed, shapes_only=False):
        self.channels, self.widths, self.blocks, self.shapes, self.weights = channels, widths, blocks, {}, None
        self.forward(torch.zeros(1, channels, 8, 8, dtype=torch.float64), torch.tensor(1.0))
        if not shapes_only:
            self.weights = {k: v.double() for k, v in randomised(self.shapes, seed).items()}

    w = Adm.w

    def conv3(self, name, x, width):
        return F.conv2d(x, self.w(f"{name}.weight", width, x.shape[1], 3, 3), padding=1)

    def residuals(self, name, x, first):
        for at in range(first, first + self.blocks):
            h = F.relu(self.conv3(f"{name}.{at}.res.0", x, x.shape[1]))
            x = x + self.conv3(f"{name}.{at}.res.2", h, x.shape[1])
        return x

    def forward(self, x, sigma):
        h = self.conv3("m_head", torch.cat([x, sigma.expand(1, 1, *x.shape[2:])], 1), self.widths[0])
        stack = [h]
        for level in (1, 2, 3):
            h = self.residuals(f"m_down{level}", h, 0)
            h = F.conv2d(h, self.w(f"m_down{level}.{self.blocks}.weight", self.widths[level], h.shape[1], 2, 2), stride=2)
            stack.append(h)
        h = self.residuals("m_body", h, 0)
        for level in (3, 2, 1):
            h = h + stack.pop()
            h = F.conv_transpose2d(h, self.w(f"m_up{level}.0.weight", h.shape[1], self.widths[level - 1], 2, 2), stride=2)
            h = self.residuals(f"m_up{level}", h, 1)
        return self.conv3("m_tail", h + stack.pop(), self.channels)


def state_dict(name, net, height, width, kind, told, seed, wrap=lambda w: w):
    x, sigma = images(net.channels, height, width, seed)
    logs, scores = vp_logs(), []
    with torch.no_grad():
        for image, s in zip(x.double(), sigma):
            image = image[None]
            if told == "step":
                output = net.forward(input_of(kind, image, s), step_of(s, logs))
            elif told == "quarter_log":
                output = net.forward(input_of(kind, image, s), torch.log(2 * s) / 4)
            else:
                output = net.forward(image, s)
            scores.append(score_of(kind, image, s, output))
    torch.save(wrap({k: v.half() for k, v in net.weights.items()}), here / f"{name}.pt")
    write_golden(name, x, sigma, scores)


def ddim_names(weights, levels):
    """A UNet2DModel's weights under the names of DDIM's code, attention as 1×1 convolutions."""
    renamed = {}
    for name, value in weights.items():
        part = name.split(".")
        if part[0] == "time_embedding":
            new = f"temb.dense.{int(part[1][-1]) - 1}"
        elif part[0] in ("down_blocks", "up_blocks"):
            side = part[0].split("_")[0]
            level = int(part[1]) if side == "down" else levels - 1 - int(part[1])
            what = {"resnets": f"block.{part[3]}", "attentions": f"attn.{part[3]}", "downsamplers": "downsample", "upsamplers": "upsample"}
            new = f"{side}.{level}.{what[part[2]]}"
        elif part[0] == "mid_block":
            new = "mid." + (f"block_{int(part[2]) + 1}" if part[1] == "resnets" else "attn_1")
        else:
            new = {"conv_norm_out": "norm_out"}.get(part[0], part[0])
        leaves = {"time_emb_proj": "temb_proj", "conv_shortcut": "nin_shortcut", "group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v",
                  "to_out": "proj_out"}
        leaf = part[-3] if part[-2] == "0" and part[-3] == "to_out" else part[-2]
        if part[0] in ("down_blocks", "up_blocks", "mid_block"):
            new += "." + leaves.get(leaf, leaf)
        if leaf in ("to_q", "to_k", "to_v", "to_out") and part[-1] == "weight":
            value = value[:, :, None, None]
        renamed[f"{new}.{part[-1]}"] = value
    return renamed


if __name__ == "__main__":
    here.mkdir(exist_ok=True)
    google = dict(norm_eps=1e-6, flip_sin_to_cos=False, freq_shift=1, downsample_padding=0, attention_head_dim=None)
    # Groups of three channels straddle the seam of 64 and 32 channels; images are not square.
    two = dict(block_out_channels=[32, 64], layers_per_block=1, norm_num_groups=32,
               down_block_types=["DownBlock2D", "AttnDownBlock2D"], up_block_types=["AttnUpBlock2D", "UpBlock2D"])
    linear = dict(beta_schedule="linear", beta_start=1e-4, beta_end=0.02, num_train_timesteps=1000, clip_sample=True)
    _, weights = diffusers_folder("unet2d-google", 1, 8, 12, linear, old_names=True, **two, **google)
    save = ddim_names(weights, 2)
    torch.save({k: v.half() for k, v in save.items()}, here / "ddim.pt")
    # Other settings: what is absent in a configuration, three levels, grey, heads of eight, scale-shift, blocks that resample.
    diffusers_folder("unet2d-defaults", 2, 16, 8, dict(beta_schedule="squaredcos_cap_v2", num_train_timesteps=1000, prediction_type="v_prediction"),
                     nested=True, in_channels=1, out_channels=1, block_out_channels=[16, 16, 24], layers_per_block=1, norm_num_groups=8,
                     down_block_types=["DownBlock2D", "AttnDownBlock2D", "ResnetDownsampleBlock2D"],
                     up_block_types=["ResnetUpsampleBlock2D", "AttnUpBlock2D", "UpBlock2D"])
    diffusers_folder("unet2d-bin", 3, 8, 8, dict(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, prediction_type="sample"),
                     binary=True, out_channels=6, block_out_channels=[16, 32], layers_per_block=1, norm_num_groups=8, add_attention=False,
                     down_block_types=["ResnetDownsampleBlock2D", "DownBlock2D"], up_block_types=["UpBlock2D", "ResnetUpsampleBlock2D"],
                     resnet_time_scale_shift="scale_shift")
    state_dict("adm", Adm(3, 32, (1, 2), 1, {1}, 4), 8, 12, "epsilon", "step", 5)
    state_dict("adm-plain", Adm(1, 32, (1, 2), 1, {}, 6, scale_shift=False, updown=False), 8, 8, "epsilon", "step", 7)
    # The plain weights are one zero, read again and again: what is wanted is the average.
    zero = torch.zeros(1).half()
    prefixed = lambda w: {"net": {f"model.{k}": zero.expand(v.shape) for k, v in w.items()}, "ema": {f"model.{k}": v for k, v in w.items()}}
    state_dict("edm-ddpmpp", Edm(3, 16, 32, (1, 2), 1, {1}, False, 8), 16, 16, "edm", "quarter_log", 9)
    state_dict("edm-adm", Edm(1, 8, 32, (1, 2), 1, {1}, True, 10), 8, 8, "edm", "quarter_log", 11, prefixed)
    # The same kind as EDM's own files hold it: pickled, in frames that are its own and that are not.
    small = Edm(1, 8, 16, (1, 2), 1, {1}, False, 14)
    state_dict("edm-pickled", small, 8, 8, "edm", "quarter_log", 15)
    (here / "edm-pickled.pt").unlink()
    halves = {k: v.half() for k, v in small.weights.items()}
    pickled.write(here / "edm-pickled.pkl", halves)
    few = {k: halves[k][:1, :1].clone() for k in ("map_layer0.weight", "enc.8x8_conv.weight")}
    pickled.write(here / "vp-precond.pkl", few, "VPPrecond")
    pickled.write(here / "other-deviation.pkl", few, sigma_data=1.0)
    state_dict("drunet", Drunet(3, (16, 24, 32, 40), 1, 12), 16, 24, "denoised", "channel", 13)
    # Names and shapes of the published networks themselves, nothing computed.
    torch.set_default_device("meta")
    m256 = (1, 1, 2, 2, 4, 4)
    for name, make in {
        "ffhq_10m": lambda: Adm(3, 128, m256, 1, {4}, 0, shapes_only=True),
        "256x256_diffusion_uncond": lambda: Adm(3, 256, m256, 2, {3, 4, 5}, 0, shapes_only=True),
        "edm-cifar10-32x32-uncond-vp": lambda: Edm(3, 32, 128, (2, 2, 2), 4, {1}, False, 0, shapes_only=True),
        "drunet_color": lambda: Drunet(3, (64, 128, 256, 512), 4, 0, shapes_only=True),
    }.items():
        shapes = make().shapes
        print(name, len(shapes), sum(math.prod(s) for s in shapes.values()))
        (here / f"{name}.shapes.json").write_text(json.dumps(shapes).replace("], ", "],\n") + "\n")
    total = 0
    for path in sorted(here.rglob("*")):
        if path.is_file():
            total += path.stat().st_size
            print(path.relative_to(here), path.stat().st_size)
    print(total)
