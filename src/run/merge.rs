//! Shards put together: the folder that one run would have written.

use std::path::Path;

use super::blocks::Part;
use super::writer::MethodWriter;
use super::{Configured, Found, Results, Run, RunConfig, RunFolder, Shard};
use crate::engine::{self, Device};
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
    if !force && folder.config().exists() {
        let shown = out.display();
        return Err(Error::usage(format!(
            "{shown} holds a run already: --force replaces it; the shards stay"
        )));
    }
    let configs = complete(out)?;
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
    let run = Run::load(whole, engine.as_ref())?;
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
