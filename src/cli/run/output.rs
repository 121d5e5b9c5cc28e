//! Where the results of a run go, and what is said of them.

use std::collections::BTreeSet;
use std::path::Path;

use qcs::engine::{Engine, Precision};
use qcs::methods;
use qcs::output::Diverged;
use qcs::run::{Cache, Found, Lock, Run, RunConfig, RunFolder};
use qcs::{Error, Result};

use super::super::progress::Display;
use super::super::{signals, table, terminal};

/// Where the results of a run go.
pub struct Output {
    pub folder: RunFolder,
    quiet: bool,
    json: bool,
    /// Keeps other runs out of the folder, from when it exists
    lock: Option<Lock>,
}

impl Output {
    pub fn new(out: &Path, quiet: bool, json: bool) -> Result<Self> {
        let folder = RunFolder::new(out);
        let lock = out.is_dir().then(|| folder.lock()).transpose()?;
        Ok(Self {
            folder,
            quiet,
            json,
            lock,
        })
    }

    /// Says so; what diverged in the run is an error as it was then.
    pub fn nothing_to_do(&self, config: &RunConfig) -> Result<()> {
        if !self.quiet {
            terminal::note(&format!(
                "{} holds a finished run: nothing to do",
                self.folder.path().display()
            ));
        }
        let states = config.methods.len() * config.count.unwrap_or(0) * config.chains;
        let precision = config.precision.unwrap_or(Precision::Fp32);
        diverged(&self.folder.diverged()?, states, precision)
    }

    /// Takes the folder for the run, or makes sure that the unfinished run found in it is the same: flags may repeat
    /// its settings, but not change them.
    pub fn claim(&mut self, run: &Run, found: &Found, force: bool) -> Result<()> {
        if self.lock.is_none() {
            self.lock = Some(self.folder.lock()?);
        }
        match found {
            Found::Unfinished(config) | Found::Finished(config) if *config == run.config => {
                self.folder.remove_temporaries()
            }
            Found::Unfinished(config) | Found::Finished(config) => Err(Error::usage(format!(
                "--out {} holds a run with other settings or files ({}): --force starts over",
                self.folder.path().display(),
                config.differences(&run.config).join("; ")
            ))),
            _ => self.folder.claim(&run.config, force),
        }
    }

    /// Runs, writes everything, and prints the metrics. Diverged states are an error, but only after that.
    pub fn execute(&self, run: &Run, engine: &mut dyn Engine, cache: Option<&Cache>) -> Result<()> {
        signals::catch()?;
        if !self.quiet {
            run.notes
                .iter()
                .for_each(|note| terminal::note(&format!("note: {note}")));
            terminal::note(&describe(run, engine));
        }
        for note in run.factorise(engine, cache)? {
            if !self.quiet {
                terminal::note(&note);
            }
        }
        let shown = self.folder.path().display();
        let results = run.execute(engine, &self.folder, &mut Display::new(self.quiet));
        let results = results.map_err(|error| match error {
            Error::Interrupted(words) => {
                Error::Interrupted(format!("{words}: continue with `qcs run --resume --out {shown}`"))
            }
            error => error,
        })?;
        if run.config.shard.is_some() {
            // What is put together later is what the checkpoints hold.
            run.write_manifest(&self.folder, engine)?;
        }
        results.write(run, &self.folder)?;
        if run.config.shard.is_none() {
            self.folder.remove_checkpoints()?;
        }
        if self.json {
            terminal::print_json(&results.report)?;
        } else {
            terminal::print(&format!(
                "{}\nresults in {shown}\n",
                table::report(&results.report, run.images())
            ))?;
        }
        if !self.quiet && results.report.methods.iter().any(|method| method.contradicted > 0) {
            terminal::note(
                "note: the measurements contradict some images: they lie farther from A·x than the noise and the predicted \
                 error explain. Are A, the cells and sigma those of one another?",
            );
        }
        diverged(&results.report.diverged, results.states, engine.precision())
    }
}

fn describe(run: &Run, engine: &dyn Engine) -> String {
    let (images, chains) = (run.images(), run.config.chains);
    let plural = |n: usize, what: &str| {
        if n == 1 {
            format!("1 {what}")
        } else {
            format!("{n} {what}s")
        }
    };
    let a = run.problem.a();
    let bits = run
        .problem
        .quantiser()
        .map_or(String::new(), |q| format!(" of {}", plural(q.bits().into(), "bit")));
    let evaluations = run.evaluations();
    let steps: Vec<String> = match evaluations
        .iter()
        .map(|(_, steps)| steps)
        .collect::<BTreeSet<_>>()
        .len()
    {
        1 => vec![format!("{} steps", evaluations[0].1)],
        _ => evaluations
            .iter()
            .map(|(kind, steps)| format!("{} {steps} steps", kind.title()))
            .collect(),
    };
    let steps = steps.join(", ");
    format!(
        "{}, {} each: {} measurements{bits} of {} pixels; {steps}; {}",
        plural(images, "image"),
        plural(chains, "chain"),
        a.rows(),
        a.cols(),
        engine.describe()
    )
}

/// Names the states that diverged, and how many there were in all.
fn diverged(list: &[Diverged], states: usize, precision: Precision) -> Result<()> {
    for Diverged { method, at } in list {
        let where_to = at.reach.map_or(String::new(), |reach| format!(", to {reach:.1e}"));
        terminal::note(&format!(
            "diverged: {method}, image {}, chain {}, at level {}, step {}{where_to}",
            at.image, at.chain, at.level, at.step
        ));
    }
    match list.len() {
        0 => Ok(()),
        n => {
            // Turbo takes no steps whose size could be chosen.
            let steps = |one: &Diverged| methods::find(&one.method).is_ok_and(|kind| kind.has("step_scale"));
            let mut remedies = Vec::new();
            if list.iter().any(steps) {
                remedies.push("a smaller --step-scale or --xi");
            }
            if precision != Precision::Fp32 {
                remedies.push("--precision fp32");
            }
            let remedies = match remedies.len() {
                0 => String::new(),
                _ => format!(". Try {}", remedies.join(", or ")),
            };
            Err(Error::Diverged(format!(
                "{n} of {states} states diverged; the results are written, the means are of the others{remedies}"
            )))
        }
    }
}
