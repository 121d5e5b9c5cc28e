//! Shards put together: the folder that one run would have written.

use std::path::Path;

use super::{Checkpoint, Found, MethodSamples, Results, Run, RunConfig, RunFolder, Shard, fingerprint};
use crate::engine::{self, DeviceChoice};
use crate::methods::Left;
use crate::output::report::write_text;
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
    if !force && folder.config().exists() {
        let shown = out.display();
        return Err(Error::usage(format!(
            "{shown} holds a run already: --force replaces it; the shards stay"
        )));
    }
    let configs = complete(out)?;
    let whole = RunConfig {
        shard: None,
        ..configs[0].1.clone()
    };
    for (shard, config) in &configs[1..] {
        let other = RunConfig {
            shard: None,
            batch: whole.batch,
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
    let engine = engine::open(&DeviceChoice::Cpu, whole.precision, 0)?.engine;
    let run = Run::load(whole, engine.as_ref())?;
    if run.config.identity != configs[0].1.identity {
        let notes = run.notes.join("; ");
        return Err(Error::usage(format!("the shards cannot be put together: {notes}")));
    }
    let mut methods = Vec::new();
    for index in 0..run.methods.len() {
        let kind = run.methods[index].kind;
        let mut left = Left::default();
        for (shard, config) in &configs {
            let path = RunFolder::new(shard.folder(out)).checkpoint(kind);
            let own = Checkpoint::read(&path, &fingerprint::of_run(kind, config)?)?;
            for (name, bytes) in &own.left.values {
                left.values.entry(name.clone()).or_default().extend_from_slice(bytes);
            }
            left.seconds += own.left.seconds;
        }
        let samples = run.driver(index).outcome(&left);
        methods.push(MethodSamples { kind, samples });
    }
    folder.claim(&run.config, true)?;
    let results = Results::new(&run, methods);
    results.write(&folder)?;
    Ok((run, results))
}

impl Run {
    /// Says in a shard's folder which share it is of what.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_manifest(&self, folder: &RunFolder) -> Result<()> {
        let whole = RunConfig {
            shard: None,
            ..self.config.clone()
        };
        let manifest = serde_json::json!({
            "shard": self.config.shard.map(|shard| shard.to_string()),
            "first": self.first(),
            "images": self.images(),
            "methods": self.config.methods,
            "configuration": fingerprint::of_text(&whole.to_toml()?),
        });
        write_text(&folder.manifest(), &format!("{manifest:#}\n"))
    }
}

/// The configurations of all shards, each of them complete.
fn complete(out: &Path) -> Result<Vec<(Shard, RunConfig)>> {
    let found = Shard::found(out)?;
    let shown = out.display();
    let Some(&Shard { count, .. }) = found.first() else {
        return Err(Error::usage(format!(
            "{shown} holds no shards: `qcs run --shard I/N --out {shown}` makes them"
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
        (true, false) => Err(Error::usage(format!(
            "{shown}: shards are not complete: {}; the same command with --resume goes on",
            list(&unfinished)
        ))),
        (false, false) => Err(Error::usage(format!(
            "{shown}: shards are missing: {}; not complete: {}",
            list(&missing),
            list(&unfinished)
        ))),
    }
}
