//! Shards put together: the folder that one run would have written.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::blocks::Part;
use super::run::Configured;
use super::writer::MethodWriter;
use super::{Found, Results, Run, RunConfig, RunFolder, Shard};
use crate::engine::{self, Device, Engine};
use crate::error::Remedy;
use crate::output::report::write_text;
use crate::reconstruct::fingerprint;
use crate::{Error, Result};

/// More names than this are not read.
const MOST_NAMED: usize = 20;

/// Puts the shards in a run's folder together, and writes what one run would have written there, byte for byte but for the time
/// it took. The shards stay.
///
/// # Errors
/// [`Error::Usage`] if a shard is missing, not complete, or of another run, and if the folder holds a run already and `force` is
/// not given.
pub fn merge(out: &Path, force: bool) -> Result<(Run, Results)> {
    let folder = RunFolder::new(out);
    // One that has a configuration and no metrics was ended in the middle: the shards have it all.
    if !force && folder.metrics_json().exists() {
        let shown = out.display();
        return Err(
            Error::usage(format!("{shown} holds a run already; the shards stay where they are")).or(Remedy::Replace),
        );
    }
    let configs = complete(out)?;
    let manifests = configs
        .iter()
        .map(|(shard, config)| Manifest::read(&RunFolder::new(shard.folder(out)), *shard, config))
        .collect::<Result<Vec<_>>>()?;
    let whole = RunConfig {
        shard: None,
        block: None,
        ..configs[0].1.clone()
    };
    for (shard, config) in &configs[1..] {
        let other = RunConfig {
            shard: None,
            batch: whole.batch,
            block: whole.block,
            ..config.clone()
        };
        if other != whole {
            let differences = whole.differences(&other).join("; ");
            return Err(Error::usage(format!(
                "shard {shard} is of another run than shard {}: {differences}",
                configs[0].0
            )));
        }
    }
    // What is computed is read; the engine is asked for its precision only.
    let engine = engine::open(&Device::Cpu, whole.precision, 0)?.engine;
    let mut run = Run::load(whole, engine.as_ref())?;
    if run.config.identity != configs[0].1.identity {
        let notes = run.notes.join("; ");
        return Err(Error::usage(format!("the shards cannot be put together: {notes}")));
    }
    let mut shards = Vec::new();
    for (shard, config) in configs {
        let folder = RunFolder::new(shard.folder(out));
        let of_method = |configured: &Configured| Part::all(&config, &folder, configured.kind);
        let parts = run.methods.iter().map(of_method).collect::<Result<Vec<_>>>()?;
        // Nothing is replaced unless every part can be read.
        parts.iter().flatten().try_for_each(|part| part.read().map(|_| ()))?;
        shards.push((config.share().start, parts));
    }
    run.notes.extend(mixed(&manifests));
    folder.claim(&run.config, true)?;
    let mut methods = Vec::new();
    for index in 0..run.methods.len() {
        let kind = run.methods[index].kind;
        let mut writer = MethodWriter::begin(&run, kind, &folder)?;
        for (start, parts) in &shards {
            for part in &parts[index] {
                let images = start + part.images.start..start + part.images.end;
                let left = part.read()?.left;
                writer.append(&run.driver_of(index, &images).outcome(&left))?;
            }
        }
        methods.push(writer.finish()?);
    }
    let results = Results::new(methods);
    results.write(&run, &folder)?;
    Ok((run, results))
}

impl Run {
    /// Says in a shard's folder which share it is of what.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_manifest(&self, folder: &RunFolder, engine: &dyn Engine) -> Result<()> {
        let manifest = Manifest {
            first: self.first(),
            images: self.images(),
            ..Manifest::of(&self.config, engine.rounds_as())?
        };
        let text = serde_json::to_string_pretty(&manifest).expect("texts and numbers");
        write_text(&folder.manifest(), &(text + "\n"))
    }
}

/// What a shard says of itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    shard: Option<Shard>,
    /// Its first image in the problem, and how many it has
    first: usize,
    images: usize,
    methods: Vec<String>,
    /// A digest of the run's configuration
    configuration: String,
    /// The kind of device and the instruction set that it was computed with: others round differently
    rounds_as: String,
}

impl Manifest {
    /// What the shard of this configuration should say.
    fn of(config: &RunConfig, rounds_as: &str) -> Result<Self> {
        let whole = RunConfig {
            shard: None,
            ..config.clone()
        };
        let share = config.share();
        Ok(Self {
            shard: config.shard,
            first: config.first.unwrap_or(0) + share.start,
            images: share.len(),
            methods: config.methods.clone(),
            configuration: fingerprint::of_text(&whole.to_toml()?),
            rounds_as: rounds_as.to_owned(),
        })
    }

    /// The manifest of a shard that is what its folder and its configuration say.
    fn read(folder: &RunFolder, shard: Shard, config: &RunConfig) -> Result<Self> {
        let path = folder.manifest();
        let text = crate::files::read_text(&path)?;
        let found: Self = serde_json::from_str(&text)
            .map_err(|e| Error::bad_file(&path, format!("is no manifest of a shard ({e}): run the shard again")))?;
        if found.shard != Some(shard) || config.shard != Some(shard) {
            let other = found
                .shard
                .or(config.shard)
                .map_or_else(String::new, |other| other.to_string());
            return Err(Error::bad_file(
                &path,
                format!("is of shard {other}, in the place of {shard}: run {shard}"),
            ));
        }
        if found != Self::of(config, &found.rounds_as)? {
            return Err(Error::bad_file(
                &path,
                "does not fit the configuration beside it: run the shard again",
            ));
        }
        Ok(found)
    }
}

/// A word on shards that were not computed alike.
fn mixed(manifests: &[Manifest]) -> Option<String> {
    let other = manifests.iter().find(|one| one.rounds_as != manifests[0].rounds_as)?;
    let name = |manifest: &Manifest| manifest.shard.map_or_else(String::new, |shard| shard.to_string());
    Some(format!(
        "shard {} was computed on {} and shard {} on {}: last bits differ, one run would give other bytes",
        name(&manifests[0]),
        manifests[0].rounds_as,
        name(other),
        other.rounds_as
    ))
}

/// The configurations of all shards, each of them complete.
fn complete(out: &Path) -> Result<Vec<(Shard, RunConfig)>> {
    let found = Shard::found(out)?;
    let shown = out.display();
    let Some(&Shard { count, .. }) = found.first() else {
        return Err(Error::usage(format!(
            "{shown} holds no shards: a run with `shard` makes them"
        )));
    };
    if let Some(other) = found.iter().find(|shard| shard.count != count) {
        return Err(Error::usage(format!(
            "{shown} holds shards of {count} and of {}: which are meant?",
            other.count
        )));
    }
    let (mut missing, mut unfinished, mut configs) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..count {
        let shard = Shard { index, count };
        match RunFolder::new(shard.folder(out)).find()? {
            Found::Finished(config) => configs.push((shard, config)),
            Found::Unfinished(_) => unfinished.push(shard.to_string()),
            Found::Nothing | Found::Other => missing.push(shard.to_string()),
        }
    }
    let list = |names: &[String]| {
        let more = names.len().saturating_sub(MOST_NAMED);
        let shown = names[..names.len() - more].join(", ");
        if more > 0 {
            format!("{shown} and {more} more")
        } else {
            shown
        }
    };
    match (missing.is_empty(), unfinished.is_empty()) {
        (true, true) => Ok(configs),
        (false, true) => Err(Error::usage(format!("{shown}: shards are missing: {}", list(&missing)))),
        (true, false) => {
            Err(Error::usage(format!("{shown}: shards are not complete: {}", list(&unfinished))).or(Remedy::Continue))
        }
        (false, false) => Err(Error::usage(format!(
            "{shown}: shards are missing: {}; not complete: {}",
            list(&missing),
            list(&unfinished)
        ))),
    }
}
