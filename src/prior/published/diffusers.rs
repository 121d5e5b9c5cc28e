//! diffusers' `UNet2DModel`: a folder of `config.json`, weights and `scheduler_config.json`, all in one place or in `unet/` and
//! `scheduler/`. The same network under the names of DDIM is in `ddim.rs`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Translation;
use super::builder::{Builder, Frame, Leaves};
use super::source::Tensors;
use crate::files::quoted;
use crate::prior::units::{Betas, Level, Output, Resample, Steps};
use crate::{Error, ImageShape, Result};

/// What stands in a folder: its files, found and read.
pub struct Folder {
    pub config: Config,
    pub scheduler: Option<Config>,
    pub weights: PathBuf,
}

/// A JSON file of settings.
pub struct Config {
    path: PathBuf,
    settings: Map<String, Value>,
}

/// Whether a path may be a folder that diffusers wrote.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir()
        && [path.to_owned(), path.join("unet")]
            .iter()
            .any(|p| p.join(CONFIG).is_file())
}

const CONFIG: &str = "config.json";
const SCHEDULER: &str = "scheduler_config.json";
const WEIGHTS: [&str; 4] = [
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.fp16.safetensors",
    "diffusion_pytorch_model.bin",
    "diffusion_pytorch_model.fp16.bin",
];

impl Folder {
    /// # Errors
    /// [`Error::BadFile`] or [`Error::Io`], naming the file.
    pub fn find(folder: &Path) -> Result<Self> {
        let inner = folder.join("unet");
        let unet = if folder.join(CONFIG).is_file() { folder } else { &inner };
        let weights = WEIGHTS.iter().map(|name| unet.join(name)).find(|path| path.is_file());
        let weights = weights.ok_or_else(|| {
            let reason = format!("holds {CONFIG} but no weights: {} is missing", WEIGHTS[0]);
            Error::bad_file(unet, reason)
        })?;
        let scheduler = [unet.join(SCHEDULER), folder.join("scheduler").join(SCHEDULER)];
        let scheduler = scheduler.iter().find(|path| path.is_file());
        Ok(Self {
            config: Config::read(&unet.join(CONFIG))?,
            scheduler: scheduler.map(|path| Config::read(path)).transpose()?,
            weights,
        })
    }
}

impl Folder {
    /// All of them: the weights, the settings of the network and those of the process.
    pub fn files(self) -> Vec<PathBuf> {
        let configs = [Some(self.config), self.scheduler].into_iter().flatten();
        std::iter::once(self.weights)
            .chain(configs.map(|config| config.path))
            .collect()
    }
}

impl Config {
    /// # Errors
    /// [`Error::BadFile`] or [`Error::Io`], naming the file.
    pub fn read(path: &Path) -> Result<Self> {
        const MOST_BYTES: usize = 1 << 20;
        let bytes = crate::files::map(path)?;
        if bytes.len() > MOST_BYTES {
            return Err(Error::bad_file(path, "is too long for a list of settings"));
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(settings)) => Ok(Self {
                path: path.to_owned(),
                settings,
            }),
            Ok(_) => Err(Error::bad_file(path, "holds no JSON object")),
            Err(e) => Err(Error::bad_file(path, format!("is not JSON: {e}"))),
        }
    }

    fn wrong(&self, key: &str, wanted: &str) -> Error {
        let found = self.settings.get(key).map(Value::to_string).unwrap_or_default();
        let found: String = found.chars().take(60).collect();
        Error::bad_file(&self.path, format!("{} is {found}: {wanted}", quoted(key)))
    }

    /// A setting, unless it is absent or null.
    fn get(&self, key: &str) -> Option<&Value> {
        self.settings.get(key).filter(|value| !value.is_null())
    }

    fn number(&self, key: &str, default: f64) -> Result<f64> {
        self.get(key).map_or(Ok(default), |value| {
            value.as_f64().ok_or_else(|| self.wrong(key, "a number is wanted"))
        })
    }

    fn whole(&self, key: &str, default: usize) -> Result<usize> {
        self.get(key).map_or(Ok(default), |value| self.size(key, value))
    }

    fn size(&self, key: &str, value: &Value) -> Result<usize> {
        let size = value.as_u64().filter(|size| (1..=1 << 20).contains(size));
        size.map(|size| size as usize)
            .ok_or_else(|| self.wrong(key, "positive whole numbers are wanted"))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.get(key).map_or(Ok(default), |value| {
            value
                .as_bool()
                .ok_or_else(|| self.wrong(key, "true or false is wanted"))
        })
    }

    fn text<'a>(&'a self, key: &str, default: &'a str) -> Result<&'a str> {
        self.get(key).map_or(Ok(default), |value| {
            value.as_str().ok_or_else(|| self.wrong(key, "a text is wanted"))
        })
    }

    fn list(&self, key: &str) -> Result<Option<&Vec<Value>>> {
        let list = |value: &Value| value.as_array().is_some();
        match self.get(key) {
            Some(value) if !list(value) => Err(self.wrong(key, "a list is wanted")),
            value => Ok(value.and_then(Value::as_array)),
        }
    }

    fn texts(&self, key: &str, default: &[&str]) -> Result<Vec<String>> {
        let Some(list) = self.list(key)? else {
            return Ok(default.iter().map(|text| (*text).to_owned()).collect());
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts: Option<Vec<String>> = list.iter().map(text).collect();
        texts.ok_or_else(|| self.wrong(key, "a list of texts is wanted"))
    }

    fn sizes(&self, key: &str, default: &[usize]) -> Result<Vec<usize>> {
        match self.list(key)? {
            Some(list) => list.iter().map(|value| self.size(key, value)).collect(),
            None => Ok(default.to_vec()),
        }
    }

    /// Refuses a setting of any other value.
    fn only(&self, key: &str, values: &[&str]) -> Result<()> {
        let is = |value: &Value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            values.contains(&text.as_str())
        };
        match self.get(key) {
            Some(value) if !is(value) => Err(self.wrong(key, &format!("only {} is supported", values.join(" or ")))),
            _ => Ok(()),
        }
    }

    /// Refuses settings that nobody here knows.
    fn only_known(&self, known: &[&str]) -> Result<()> {
        let says_nothing = |value: &Value| value.is_null() || *value == Value::Bool(false);
        let is_known = |key: &str| key.starts_with('_') || known.contains(&key);
        let mut others = self
            .settings
            .iter()
            .filter(|(key, value)| !is_known(key) && !says_nothing(value));
        match others.next() {
            Some((key, _)) => Err(self.wrong(key, "a setting that is not known here, and may change the network")),
            None => Ok(()),
        }
    }
}

/// The process that the network was trained on, and what it says of it.
fn process(scheduler: Option<&Config>, notes: &mut Vec<String>) -> Result<(Steps, Output)> {
    let Some(config) = scheduler else {
        notes.push("no scheduler_config.json: 1000 linear steps from 1e-4 to 0.02, epsilon".into());
        return Ok((Steps::LINEAR, Output::Epsilon));
    };
    if config.get("trained_betas").is_some() {
        return Err(config.wrong("trained_betas", "only a named beta_schedule is supported"));
    }
    config.only("rescale_betas_zero_snr", &["false"])?;
    let betas = match config.text("beta_schedule", "linear")? {
        "linear" => Betas::Linear,
        "scaled_linear" => Betas::ScaledLinear,
        "squaredcos_cap_v2" => Betas::Cosine,
        "sigmoid" => Betas::Sigmoid,
        _ => {
            let wanted = "known are linear, scaled_linear, squaredcos_cap_v2 and sigmoid";
            return Err(config.wrong("beta_schedule", wanted));
        }
    };
    let output = match config.text("prediction_type", "epsilon")? {
        "epsilon" => Output::Epsilon,
        "v_prediction" => Output::Velocity,
        "sample" => Output::Sample,
        _ => return Err(config.wrong("prediction_type", "known are epsilon, v_prediction and sample")),
    };
    let steps = Steps {
        betas,
        first: config.number("beta_start", 1e-4)?,
        last: config.number("beta_end", 0.02)?,
        count: config.whole("num_train_timesteps", 1000)?,
    };
    steps
        .check()
        .map_err(|e| Error::bad_file(&config.path, e.to_string()))?;
    Ok((steps, output))
}

const KNOWN: [&str; 35] = [
    "sample_size",
    "in_channels",
    "out_channels",
    "center_input_sample",
    "time_embedding_type",
    "time_embedding_dim",
    "freq_shift",
    "flip_sin_to_cos",
    "down_block_types",
    "mid_block_type",
    "up_block_types",
    "block_out_channels",
    "layers_per_block",
    "mid_block_scale_factor",
    "downsample_padding",
    "downsample_type",
    "upsample_type",
    "dropout",
    "act_fn",
    "attention_head_dim",
    "norm_num_groups",
    "attn_norm_num_groups",
    "norm_eps",
    "resnet_time_scale_shift",
    "add_attention",
    "class_embed_type",
    "num_class_embeds",
    "num_train_timesteps",
    "model_type",
    "architectures",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "scaling_factor",
    "name_or_path",
];

const LEAVES: Leaves = Leaves {
    norm1: "norm1",
    conv1: "conv1",
    level: "time_emb_proj",
    norm2: "norm2",
    conv2: "conv2",
    skip: "conv_shortcut",
    norm: "group_norm",
    proj: "to_out.0",
};

/// What the configuration says of the network as a whole.
struct Model<'a> {
    tensors: &'a dyn Tensors,
    builder: Builder,
    /// Of a head; none where there is one head
    head: Option<usize>,
    one_sided: bool,
}

impl Model<'_> {
    /// In old files its layers have other names.
    fn attention(&mut self, name: &str) -> std::result::Result<(), String> {
        let channels = self.builder.channels;
        let heads = match self.head {
            Some(head) if channels.is_multiple_of(head) => channels / head,
            Some(head) => return Err(format!("{channels} channels are no whole heads of {head}")),
            None => 1,
        };
        let is_old = self.tensors.shape(&format!("{name}.query.weight")).is_some();
        let (qkv, proj) = if is_old {
            (["query", "key", "value"], "proj_attn")
        } else {
            (["to_q", "to_k", "to_v"], "to_out.0")
        };
        self.builder.attention_of(name, heads, qkv, proj);
        Ok(())
    }

    fn down(
        &mut self,
        kind: &str,
        at: usize,
        width: usize,
        layers: usize,
        is_last: bool,
    ) -> std::result::Result<(), String> {
        let name = format!("down_blocks.{at}");
        let (attends, by_block) = match kind {
            "DownBlock2D" => (false, false),
            "AttnDownBlock2D" => (true, false),
            "ResnetDownsampleBlock2D" => (false, true),
            _ => {
                return Err(format!(
                    "a block of type {}: known are DownBlock2D, AttnDownBlock2D and ResnetDownsampleBlock2D",
                    quoted(kind)
                ));
            }
        };
        for layer in 0..layers {
            self.builder
                .block(&format!("{name}.resnets.{layer}"), width, Resample::Keep, false);
            if attends {
                self.attention(&format!("{name}.attentions.{layer}"))?;
            }
            self.builder.push();
        }
        if !is_last {
            let below = format!("{name}.downsamplers.0");
            if by_block {
                self.builder.block(&below, width, Resample::Halve, false);
            } else {
                self.builder.shrink(&format!("{below}.conv"), self.one_sided);
            }
            self.builder.push();
        }
        Ok(())
    }

    fn up(
        &mut self,
        kind: &str,
        at: usize,
        width: usize,
        layers: usize,
        is_last: bool,
    ) -> std::result::Result<(), String> {
        let name = format!("up_blocks.{at}");
        let (attends, by_block) = match kind {
            "UpBlock2D" => (false, false),
            "AttnUpBlock2D" => (true, false),
            "ResnetUpsampleBlock2D" => (false, true),
            _ => {
                return Err(format!(
                    "a block of type {}: known are UpBlock2D, AttnUpBlock2D and ResnetUpsampleBlock2D",
                    quoted(kind)
                ));
            }
        };
        for layer in 0..=layers {
            self.builder.join()?;
            self.builder
                .block(&format!("{name}.resnets.{layer}"), width, Resample::Keep, false);
            if attends {
                self.attention(&format!("{name}.attentions.{layer}"))?;
            }
        }
        if !is_last {
            let above = format!("{name}.upsamplers.0");
            if by_block {
                self.builder.block(&above, width, Resample::Double, false);
            } else {
                self.builder.grow(&format!("{above}.conv"));
            }
        }
        Ok(())
    }
}

/// # Errors
/// [`Error::BadFile`], naming the file and the setting that does not fit.
pub fn translate(folder: &Folder, tensors: &dyn Tensors, side: super::Side) -> Result<Translation> {
    let config = &folder.config;
    let bad = |reason: String| Error::bad_file(&config.path, reason);
    let class = config.text("_class_name", "UNet2DModel")?;
    if class != "UNet2DModel" {
        return Err(bad(format!(
            "is a {}: only UNet2DModel works on images alone, without text or a latent space",
            quoted(class)
        )));
    }
    if config.get("class_embed_type").is_some() || config.get("num_class_embeds").is_some() {
        return Err(bad(
            "is class-conditional: a prior that must be told what it sees is not supported".into(),
        ));
    }
    for (key, values) in [
        ("time_embedding_type", &["positional"][..]),
        ("act_fn", &["silu", "swish"]),
        ("center_input_sample", &["false"]),
        ("mid_block_scale_factor", &["1", "1.0"]),
        ("mid_block_type", &["UNetMidBlock2D"]),
        ("downsample_type", &["conv"]),
        ("upsample_type", &["conv"]),
    ] {
        config.only(key, values)?;
    }
    config.only_known(&KNOWN)?;
    let channels = config.whole("in_channels", 3)?;
    let outputs = config.whole("out_channels", 3)?;
    if outputs != channels && outputs != 2 * channels {
        return Err(config.wrong(
            "out_channels",
            "as many as in_channels, or twice, with a variance that is not used",
        ));
    }
    let widths = config.sizes("block_out_channels", &[224, 448, 672, 896])?;
    let layers = config.whole("layers_per_block", 2)?;
    if widths.is_empty() {
        return Err(config.wrong("block_out_channels", "a width at least is wanted"));
    }
    let mut attends_down = vec!["AttnDownBlock2D"; widths.len()];
    let mut attends_up = vec!["AttnUpBlock2D"; widths.len()];
    attends_down[0] = "DownBlock2D";
    attends_up[widths.len() - 1] = "UpBlock2D";
    let down = config.texts("down_block_types", &attends_down)?;
    let up = config.texts("up_block_types", &attends_up)?;
    if widths.len() > 16 || layers > 64 || down.len() != widths.len() || up.len() != widths.len() {
        return Err(config.wrong(
            "block_out_channels",
            "as many widths, down_block_types and up_block_types are wanted, up to 16",
        ));
    }
    let scale_shift = match config.text("resnet_time_scale_shift", "default")? {
        "default" => false,
        "scale_shift" => true,
        _ => return Err(config.wrong("resnet_time_scale_shift", "known are default and scale_shift")),
    };
    let groups = config.whole("norm_num_groups", 32)?;
    let attends_below = config.flag("add_attention", true)?;
    if attends_below && config.whole("attn_norm_num_groups", groups)? != groups
        || attends_below && scale_shift && config.get("attn_norm_num_groups").is_none()
    {
        let wanted = "as many as norm_num_groups: an attention without its norm is not supported";
        return Err(config.wrong("attn_norm_num_groups", wanted));
    }
    // Absent means heads of 8, null one head.
    let head = match config.settings.get("attention_head_dim") {
        Some(Value::Null) => None,
        _ => Some(config.whole("attention_head_dim", 8)?),
    };
    let trained = match config.get("sample_size") {
        Some(Value::Array(_)) => match config.sizes("sample_size", &[])?[..] {
            [height, width] => Some((height, width)),
            _ => return Err(config.wrong("sample_size", "a side, or height and width, are wanted")),
        },
        Some(_) => {
            let side = config.whole("sample_size", 1)?;
            Some((side, side))
        }
        None => None,
    };
    let (height, width) = side
        .or(trained)
        .ok_or_else(|| bad("lacks `sample_size`: say the images' shape".into()))?;
    let mut model = Model {
        tensors,
        builder: Builder::new(LEAVES, channels, 1.0),
        head,
        one_sided: match config.get("downsample_padding").map(Value::as_u64) {
            None | Some(Some(1)) => false,
            Some(Some(0)) => true,
            _ => return Err(config.wrong("downsample_padding", "0 or 1 are wanted")),
        },
    };
    let mut notes = Vec::new();
    let (steps, output) = process(folder.scheduler.as_ref(), &mut notes)?;
    let hidden = config.whole("time_embedding_dim", 4 * widths[0])?;
    let last = widths.len() - 1;
    let mut describe = || -> std::result::Result<(), String> {
        model
            .builder
            .level("time_embedding.linear_1", "time_embedding.linear_2");
        model.builder.conv("conv_in", widths[0]);
        model.builder.push();
        for (at, (kind, &width)) in down.iter().zip(&widths).enumerate() {
            model.down(kind, at, width, layers, at == last)?;
        }
        model
            .builder
            .block("mid_block.resnets.0", widths[last], Resample::Keep, false);
        if attends_below {
            model.attention("mid_block.attentions.0")?;
        }
        model
            .builder
            .block("mid_block.resnets.1", widths[last], Resample::Keep, false);
        for (at, (kind, &width)) in up.iter().zip(widths.iter().rev()).enumerate() {
            model.up(kind, at, width, layers, at == last)?;
        }
        model.builder.end("conv_norm_out", "conv_out", channels);
        Ok(())
    };
    describe().map_err(bad)?;
    if outputs != channels {
        notes.push("the learned variance, the second half of the output, is left out".into());
    }
    model.builder.notes = notes;
    let level = Level {
        steps: Some(steps),
        width: widths[0],
        hidden,
        cosines_first: config.flag("flip_sin_to_cos", true)?,
        shift: config.number("freq_shift", 0.0)?,
        scale_shift,
    };
    Ok(model.builder.finish(Frame {
        family: "diffusers UNet2DModel".into(),
        image: ImageShape::new(channels, height, width),
        trained,
        output,
        level: Some(level),
        groups,
        least_of_group: 1,
        epsilon: config.number("norm_eps", 1e-5)?,
    }))
}
