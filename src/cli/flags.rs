//! Flags that several commands share. All are optional: what is left out comes from the configuration, the preset or the
//! model. The flags of methods and of measuring stand with their settings, in the library.

use std::path::{Path, PathBuf};

use clap::Args;

use qcs::files::safetensors;
use qcs::prior::Prior;
use qcs::run::{RunConfig, demo, load_prior};
use qcs::{ImageShape, Result};

/// TOML holds no larger integer.
pub const MOST_SEED: i64 = i64::MAX;

/// Which score network.
#[derive(Args, Clone, Debug)]
pub struct ModelFlags {
    /// Weights of a score network (.safetensors); the shipped MNIST prior if left out
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Image shape C,H,W, for a model file that does not say it
    #[arg(long, value_name = "C,H,W")]
    pub shape: Option<ImageShape>,
}

impl ModelFlags {
    pub fn given(&self) -> bool {
        self.model.is_some() || self.shape.is_some()
    }

    /// Puts the flags over a configuration.
    pub fn apply(&self, config: &mut RunConfig) -> Result<()> {
        if let Some(model) = &self.model {
            config.model = absolute(model)?;
            config.shape = None;
        }
        if let Some(shape) = self.shape {
            config.shape = Some(shape.to_string());
        }
        Ok(())
    }

    /// The name of the model, and the model.
    pub fn load(&self) -> Result<(String, Prior)> {
        self.load_for(None)
    }

    /// The same; images of this shape are at hand, where the file does not say its own.
    pub fn load_for(&self, images: Option<ImageShape>) -> Result<(String, Prior)> {
        let name = match &self.model {
            Some(model) if model.as_os_str() != Prior::SHIPPED => model,
            _ => return Ok((Prior::SHIPPED.to_owned(), load_prior(Prior::SHIPPED, self.shape)?)),
        };
        let is_silent = || safetensors::read(name, |file| Ok(file.text("image_size").is_none()));
        let shape = match (self.shape, images) {
            (None, Some(images)) if is_silent()? => Some(images),
            (shape, _) => shape,
        };
        Ok((name.display().to_string(), Prior::open(name, shape)?))
    }
}

/// The path as it will still be right in another folder; names of bundled data stay as they are.
pub fn absolute(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        qcs::Error::usage(format!(
            "{}: the path is not UTF-8, which a configuration must be",
            path.display()
        ))
    })?;
    if [Prior::SHIPPED, demo::DIGITS].contains(&text) {
        return Ok(text.to_owned());
    }
    let absolute: PathBuf = std::path::absolute(path).map_err(|e| qcs::Error::io(path, "read", e))?;
    Ok(absolute.to_str().map_or_else(|| text.to_owned(), str::to_owned))
}

/// Whether a file is a problem rather than images: by its name or by its first bytes.
pub fn is_problem(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors"));
    // A safetensors file starts with the length of its header, eight bytes, and the header with a brace.
    let starts_so = || {
        use std::io::Read;
        let mut start = [0; 9];
        let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && start[8] == b'{' && start[5..8] == [0; 3]
    };
    named || path.is_file() && starts_so()
}
