//! What the command line names, and what a file is that it names.

use std::path::Path;

use qcs::Result;
use qcs::files::{LoadOptions, load_named, on_one_line, safetensors};
use qcs::prior::{Prior, published};
use qcs::problem::Problem;
use qcs::run::{RunConfig, RunFolder, load_prior};

use super::{ImagesInfo, InfoArgs, RunInfo};
use crate::cli::flags::is_problem;

/// Whether a file is a checkpoint of PyTorch, by its name: images may be zips, too.
fn is_checkpoint(file: &Path) -> bool {
    let endings = ["pt", "pth", "ckpt", "bin", "pkl"];
    file.extension()
        .is_some_and(|e| endings.iter().any(|ending| e.eq_ignore_ascii_case(ending)))
}

/// What the command line names.
#[derive(Default)]
pub struct Named {
    pub run: Option<RunInfo>,
    pub images: Option<ImagesInfo>,
    /// Its name too
    pub prior: Option<(String, Prior)>,
    pub problem: Option<(String, Problem)>,
}

impl Named {
    pub fn find(args: &InfoArgs) -> Result<Self> {
        let mut named = Self::default();
        if let Some(file) = &args.file {
            named.look_at(file, args)?;
        }
        if let Some(path) = &args.problem {
            named.problem = Some((path.display().to_string(), Problem::read(path)?));
        }
        // A shape alone may be that of the file.
        let names_model = args.model.model.is_some() || args.model.given() && named.prior.is_none();
        if names_model || named.prior.is_none() {
            let (name, prior) = args.model.load()?;
            // The shipped model is told of where it could be meant.
            let fits = |(_, problem): &(String, Problem)| problem.a().cols() == prior.image().len();
            let asked = args.file.is_none() && named.problem.as_ref().is_none_or(fits);
            let meant = asked && named.images.is_none();
            if names_model || meant {
                named.prior = Some((name, prior));
            }
        }
        Ok(named)
    }

    /// Looks what a file is, by what it holds.
    fn look_at(&mut self, file: &Path, args: &InfoArgs) -> Result<()> {
        let (folder, shown) = (RunFolder::new(file), file.display().to_string());
        if folder.config().exists() {
            let mut config = RunConfig::read(&folder.config())?;
            self.run = Some(RunInfo {
                folder: shown,
                finished: folder.metrics_json().exists(),
                methods: config.methods.clone(),
                images: config.count,
                chains: config.chains,
                seed: config.seed,
                diverged: folder.diverged()?.len(),
            });
            // What the run was made of may be gone, and is then not told of.
            self.prior = load_prior(&config.model, config.shape()?)
                .ok()
                .map(|prior| (config.model.clone(), prior));
            let name = config.problem.as_ref().map(|path| path.display().to_string());
            let problem = config.load_problem().ok();
            self.problem = problem.map(|problem| (name.unwrap_or_else(|| "measured by the run".to_owned()), problem));
        } else if published::is_folder(file) || is_checkpoint(file) {
            self.prior = Some((shown, Prior::open(file, args.model.shape)?));
        } else if is_problem(file) {
            // One whose A needs no matrix has no such tensor.
            if safetensors::read(file, |tensors| Ok(tensors.has("A") || tensors.has("lower")))? {
                self.problem = Some((shown, Problem::read(file)?));
            } else {
                self.prior = Some((shown, Prior::open(file, args.model.shape)?));
            }
        } else {
            let loaded = load_named(file, &LoadOptions::default())?;
            let array = loaded
                .array
                .map_or_else(String::new, |array| format!(":{}", on_one_line(&array)));
            self.images = Some(ImagesInfo {
                file: shown + &array,
                count: loaded.images.count(),
                shape: loaded.images.shape.to_string(),
            });
        }
        Ok(())
    }
}
