//! The driver: deals the states of a run to batches, shows progress, saves, resumes. It is the same for all methods.

use std::time::Instant;

use super::checkpoint::{At, Checkpoint, Slot};
use crate::engine::{Constants, Engine, Session, State};
use crate::methods::options::between;
use crate::methods::{Algorithm, BatchPlan, Held, Inputs, Kind, Outputs, Pass, Samples};
use crate::plan::{Plan, Program, Step};
use crate::{Error, ImageShape, Result};

/// A method and what it reconstructs: `images` measured images, or as many draws from the prior where there is no problem.
#[derive(Clone, Copy)]
pub struct Driver<'a> {
    pub algorithm: &'a dyn Algorithm,
    pub given: Inputs<'a>,
    /// The first of them in the problem
    pub first: usize,
    pub images: usize,
    /// Keys all noise
    pub seed: u64,
    /// States worked on at once; changes speed and memory, never results
    pub batch: usize,
}

/// Pixels of all states together: 16 GiB of them.
const MOST_VALUES: usize = 1 << 32;
/// The noise is keyed by so many chains.
const MOST_CHAINS: usize = (1 << 24) - 1;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Share of the whole run's work that is done
    pub fraction: f64,
    /// Evaluations of the network so far, in this session
    pub evaluations: usize,
    /// States that are finished, that are being worked on, and all of them
    pub done: usize,
    pub working: usize,
    pub states: usize,
    /// What a stage is, and where the batch stands: "level", 12 of 60
    pub stage: (&'static str, u32, u32),
    /// Whether a stage has just ended
    pub at_stage_end: bool,
}

/// What the run is told to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// Hand the state over to [`Observer::checkpoint`], then continue
    Checkpoint,
    /// Hand the state over, then end with [`Outcome::Stopped`]
    Stop,
}

/// Watches a run: is told what happens, says whether it goes on.
pub trait Observer {
    /// A method of a run in a folder begins, from its start or from a checkpoint.
    fn begin(&mut self, _method: &Kind, _resumed: bool) {}

    /// A step is done.
    fn after_step(&mut self, progress: &Progress) -> Next;

    /// A method of a run in a folder has ended, or was stopped.
    fn end(&mut self, _method: &Kind) {}

    /// Hears how the run is set up.
    fn note(&mut self, _text: &str) {}

    /// Keeps the state; a run that starts from it gives the same bits.
    ///
    /// # Errors
    /// Ends the run.
    fn checkpoint(&mut self, _checkpoint: &Checkpoint) -> Result<()> {
        Ok(())
    }
}

/// Watches nothing.
pub struct Unobserved;

impl Observer for Unobserved {
    fn after_step(&mut self, _: &Progress) -> Next {
        Next::Continue
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // one of them in a run
pub enum Outcome {
    Finished(Samples),
    /// The observer said stop; it has the checkpoint.
    Stopped,
}

impl Driver<'_> {
    /// Reconstructs all images.
    ///
    /// # Errors
    /// Settings out of range, a problem that does not fit the prior, a checkpoint of another run, a device that cannot
    /// hold a batch, or the observer's own error.
    pub fn run(
        &self,
        engine: &mut dyn Engine,
        resume: Option<Checkpoint>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        self.check()?;
        let mut run = resume.unwrap_or_default();
        if let Some(direct) = self.algorithm.on_host(self.given) {
            return self.run_on_host(direct.as_ref(), run, engine, observer);
        }
        let passes = self.algorithm.passes(self.given);
        let works: Vec<Work<'_>> = passes.iter().map(|pass| Work::new(self, pass.as_ref())).collect();
        let mut watch = Watch {
            observer,
            all: works.iter().map(Work::evaluations).sum(),
            before: 0,
            evaluations: 0,
        };
        for (index, work) in works.iter().enumerate() {
            if run.at == At::Pass(index) {
                if work.run(engine, &mut run, &mut watch)? == Next::Stop {
                    return Ok(Outcome::Stopped);
                }
                run.next_pass();
            }
            watch.before += work.evaluations();
        }
        let finished = Checkpoint::finished(run.left);
        watch.observer.checkpoint(&finished)?;
        Ok(Outcome::Finished(self.outcome(&finished.left)))
    }

    /// The result, from what the passes left of all states.
    pub(crate) fn outcome(&self, left: &Outputs) -> Samples {
        let mut samples = self.algorithm.outcome(self.given, left);
        let passes = self.algorithm.passes(self.given);
        let steps = passes.last().map_or(Vec::new(), |pass| pass.steps());
        let stage = steps.last().map_or(1, |step| step.stage);
        let steps = steps.iter().filter(|step| step.stage == stage).count();
        samples.mark_far(stage as usize, steps.max(1));
        samples
    }

    /// Has the engine factorise A, for a method that needs its spectrum.
    pub(super) fn factorise(&self, engine: &mut dyn Engine, observer: &mut dyn Observer) -> Result<()> {
        if let Some(problem) = self.given.problem {
            engine.factorise(problem)?.iter().for_each(|note| observer.note(note));
        }
        Ok(())
    }

    fn shape(&self) -> ImageShape {
        self.given.prior.image()
    }

    /// Refuses what [`Driver::run`] would refuse, before anything is computed.
    ///
    /// # Errors
    /// As [`Driver::run`].
    pub fn check(&self) -> Result<()> {
        let chains = self.given.chains;
        between("chains", 1, MOST_CHAINS, chains)?;
        between("batch", 1, usize::MAX, self.batch)?;
        let states = self.images.checked_mul(chains);
        let values = states.and_then(|states| states.checked_mul(self.shape().len()));
        if values.is_none_or(|values| values > MOST_VALUES) {
            let images = self.images;
            return Err(Error::usage(format!(
                "{images} images with {chains} chains each are more than fit into memory"
            )));
        }
        if let Some(problem) = self.given.problem {
            let (n, image) = (problem.a().cols(), self.shape());
            if n != image.len() || problem.shape().is_some_and(|shape| shape != image) {
                let shape = problem.shape().map_or_else(|| format!("N = {n}"), |s| format!("{s}"));
                return Err(Error::usage(format!(
                    "the problem's images ({shape}) are not the prior's ({image}): choose a model trained for them"
                )));
            }
            let (first, asked, there) = (self.first, self.images, problem.cells().count());
            if first.checked_add(asked).is_none_or(|end| end > there) {
                let from = if first == 0 {
                    String::new()
                } else {
                    format!(" from index {first} on")
                };
                return Err(Error::usage(format!(
                    "{asked} images{from} asked for, but the problem holds {there}"
                )));
            }
        }
        self.algorithm.check(self.given)
    }

    /// Bytes of device memory that a batch of this size takes.
    pub fn bytes(&self, engine: &dyn Engine, batch: usize) -> usize {
        let bytes = |pass: Box<dyn Pass + '_>| {
            let (compiled, steps) = (pass.compile(batch, engine.target()), pass.steps());
            engine.bytes(&compiled.plan, self.constants(&steps, pass.stage()))
        };
        self.algorithm
            .passes(self.given)
            .into_iter()
            .map(bytes)
            .max()
            .unwrap_or(0)
    }

    /// The batch of the run's states that the device is through with first, of those that it has room for; or the given one where
    /// the device does not say how much it has. The largest, unless a smaller one fills a GPU's multiprocessors better, or the last of
    /// the batches.
    ///
    /// # Errors
    /// [`Error::Device`] if not even one state fits.
    pub fn best_batch(&self, engine: &dyn Engine) -> Result<usize> {
        // First, because it opens the libraries that a session will use, and they take memory too.
        let bytes = self.bytes(engine, 1);
        let Some(free) = engine.free_bytes() else {
            return Ok(self.batch);
        };
        let can_index = |batch: usize| {
            let passes = self.algorithm.passes(self.given);
            passes
                .iter()
                .all(|pass| engine.can_index(&pass.compile(batch, engine.target()).plan))
        };
        let fits = |batch: usize| self.bytes(engine, batch) <= free && can_index(batch);
        if !fits(1) {
            return Err(Error::Device(format!(
                "one state needs {bytes} bytes of device memory, but only {free} are free"
            )));
        }
        // The largest batch that fits lies between the two.
        let (mut low, mut high) = (1, self.images * self.given.chains);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let passes = self.algorithm.passes(self.given);
        let plans: Vec<Plan> = passes
            .iter()
            .map(|pass| pass.compile(low, engine.target()).plan)
            .collect();
        let states = self.images * self.given.chains;
        let effort = |batch: usize| -> Option<u64> {
            let one: Option<u64> = plans.iter().map(|plan| engine.effort(plan, batch)).sum();
            Some(states.div_ceil(batch) as u64 * one?)
        };
        // Much smaller ones would pay for their launches more often.
        let best = (low.div_ceil(2)..=low).rev().min_by_key(|&batch| effort(batch));
        Ok(best.expect("one state fits"))
    }

    fn constants<'b>(&'b self, steps: &'b [Step], stage: &'static str) -> Constants<'b> {
        Constants {
            prior: Some(self.given.prior),
            problem: self.given.problem,
            steps,
            stage,
            seed: self.seed,
        }
    }
}

/// The observer, and what is counted for it over all passes.
struct Watch<'a> {
    observer: &'a mut dyn Observer,
    /// Evaluations of the whole run, if no state ends early
    all: usize,
    /// Those of the passes that are over
    before: usize,
    /// In this session
    evaluations: usize,
}

/// One pass over the states.
struct Work<'a> {
    driver: &'a Driver<'a>,
    pass: &'a dyn Pass,
    steps: Vec<Step>,
    /// Chains of an image in this pass
    chains: usize,
    states: usize,
}

impl<'a> Work<'a> {
    fn new(driver: &'a Driver<'a>, pass: &'a dyn Pass) -> Self {
        let chains = if pass.per_chain() { driver.given.chains } else { 1 };
        Self {
            driver,
            pass,
            steps: pass.steps(),
            chains,
            states: driver.images * chains,
        }
    }

    /// Evaluations of the network, if no state ends early.
    fn evaluations(&self) -> usize {
        self.states * self.steps.len()
    }

    fn state(&self, index: usize) -> State {
        State {
            image: self.driver.first + index / self.chains,
            chain: index % self.chains,
        }
    }

    fn run(&self, engine: &mut dyn Engine, run: &mut Checkpoint, watch: &mut Watch<'_>) -> Result<Next> {
        let driver = self.driver;
        let mut factorised = false;
        // All batches but a shorter last one share a session: weights, A and U are packed and uploaded once.
        while run.next < self.states || !run.slots.is_empty() {
            let batch = match run.slots.len() {
                0 => driver.batch.min(self.states - run.next),
                slots => slots,
            };
            let begun = Instant::now();
            let compiled = self.pass.compile(batch, engine.target());
            if compiled.plan.needs_spectrum() && !factorised {
                driver.factorise(engine, watch.observer)?;
                factorised = true;
            }
            run.check(self.states, self.steps.len(), &compiled)?;
            let mut session = engine.session(&compiled.plan, driver.constants(&self.steps, self.pass.stage()))?;
            for note in session.notes() {
                watch.observer.note(&note);
            }
            let mut batches = Batches {
                work: self,
                compiled: &compiled,
                session: session.as_mut(),
                before: run.left.seconds,
                begun,
            };
            if batches.run(run, watch)? == Next::Stop {
                return Ok(Next::Stop);
            }
        }
        Ok(Next::Continue)
    }
}

/// The batches of one size.
struct Batches<'a> {
    work: &'a Work<'a>,
    compiled: &'a BatchPlan,
    session: &'a mut (dyn Session + 'a),
    /// Seconds that the run had taken when this began
    before: f64,
    begun: Instant,
}

impl Batches<'_> {
    /// Works until no slot is busy and no state is left for a whole batch, or until the observer says stop.
    fn run(&mut self, run: &mut Checkpoint, watch: &mut Watch<'_>) -> Result<Next> {
        // A run may have been stopped between two batches.
        if run.slots.iter().all(|slot| slot.state.is_none()) {
            run.slots = vec![Slot::default(); self.compiled.plan.batch];
        } else {
            self.bind(run)?;
            for &Held { name, tensor } in &self.compiled.state {
                self.session.write(tensor, &run.work[name])?;
            }
        }
        loop {
            self.fill(run)?;
            let Some(step) = run
                .slots
                .iter()
                .filter(|slot| slot.state.is_some())
                .map(|s| s.step)
                .max()
            else {
                break;
            };
            self.session.execute(Program::Step, step)?;
            let busy = run.slots.iter_mut().filter(|slot| slot.state.is_some());
            watch.evaluations += busy.map(|slot| slot.step += 1).count();
            let steps = &self.work.steps;
            let at_stage_end = steps.get(step + 1).is_none_or(|next| next.stage != steps[step].stage);
            if at_stage_end {
                self.finish(run)?;
            }
            let progress = self.progress(run, watch, steps[step].stage, at_stage_end);
            let next = watch.observer.after_step(&progress);
            run.left.seconds = self.before + self.begun.elapsed().as_secs_f64();
            if next != Next::Continue {
                self.take(run)?;
                watch.observer.checkpoint(run)?;
            }
            if next == Next::Stop {
                return Ok(Next::Stop);
            }
            if self.is_half_empty(run) {
                // A plan for the states that are left serves them faster than this one.
                self.take(run)?;
                run.compact();
                return Ok(Next::Continue);
            }
        }
        run.slots.clear();
        run.work.clear();
        Ok(Next::Continue)
    }

    /// Whether states that go on by themselves have left half of the slots, and nobody is there to take them.
    fn is_half_empty(&self, run: &Checkpoint) -> bool {
        let busy = run.slots.iter().filter(|slot| slot.state.is_some()).count();
        self.compiled.counter.is_some() && run.next == self.work.states && busy > 0 && 2 * busy <= run.slots.len()
    }

    /// Gives free slots to the next states: all at once, or one by one where states go on by themselves.
    fn fill(&mut self, run: &mut Checkpoint) -> Result<()> {
        let free = run.slots.iter().filter(|slot| slot.state.is_none()).count();
        let left = self.work.states - run.next;
        let together = self.compiled.counter.is_none();
        if free == 0 || left == 0 || together && (free < run.slots.len() || left < free) {
            return Ok(());
        }
        let mut begun = vec![false; run.slots.len()];
        for (slot, begun) in run.slots.iter_mut().zip(&mut begun) {
            if slot.state.is_none() && run.next < self.work.states {
                *slot = Slot {
                    state: Some(run.next),
                    step: 0,
                };
                (*begun, run.next) = (true, run.next + 1);
            }
        }
        self.bind(run)?;
        if let Some(counter) = self.compiled.counter {
            let zero = [0; 4];
            self.write_rows(counter, &begun, |_| &zero)?;
        }
        for &Held { name, tensor } in &self.compiled.from {
            let values = &run.left.values[name];
            let row = values.len() / self.work.driver.images;
            let of = |slot: usize| {
                let image = run.slots[slot].state.map_or(0, |state| state / self.work.chains);
                &values[image * row..(image + 1) * row]
            };
            self.write_rows(tensor, &begun, of)?;
        }
        self.session.execute(Program::Start, 0)
    }

    /// Overwrites a tensor for some slots.
    fn write_rows<'v>(
        &mut self,
        tensor: crate::plan::TensorId,
        slots: &[bool],
        value: impl Fn(usize) -> &'v [u8],
    ) -> Result<()> {
        let mut bytes = vec![0; self.compiled.plan.tensor(tensor).bytes];
        self.session.read(tensor, &mut bytes)?;
        let row = bytes.len() / slots.len();
        for (slot, bytes) in bytes.chunks_mut(row).enumerate().filter(|(slot, _)| slots[*slot]) {
            bytes.copy_from_slice(value(slot));
        }
        self.session.write(tensor, &bytes)
    }

    /// Binds each slot to its state; a free one repeats another, and its results mean nothing.
    fn bind(&mut self, run: &Checkpoint) -> Result<()> {
        let any = run
            .slots
            .iter()
            .find_map(|slot| slot.state)
            .expect("a batch has a state");
        let states = run.slots.iter().map(|slot| self.work.state(slot.state.unwrap_or(any)));
        self.session.bind(&states.collect::<Vec<_>>())
    }

    /// Frees the slots whose states are done, and keeps what is left of them.
    fn finish(&mut self, run: &mut Checkpoint) -> Result<()> {
        let (last, batch) = (self.work.steps.len(), run.slots.len());
        let raised = self.session.raised(self.compiled.done, self.compiled.wait)?;
        let ended: Vec<bool> = if self.compiled.counter.is_none() {
            let all = raised == batch || run.slots[0].step == last;
            vec![all; batch]
        } else if raised > 0 {
            let mut done = vec![0u32; batch];
            self.session.read_values(self.compiled.done, &mut done)?;
            let ended = |(slot, done): (&Slot, u32)| slot.state.is_some() && (done != 0 || slot.step == last);
            run.slots.iter().zip(done).map(ended).collect()
        } else {
            run.slots
                .iter()
                .map(|slot| slot.state.is_some() && slot.step == last)
                .collect()
        };
        if !ended.contains(&true) {
            return Ok(());
        }
        if self.compiled.counter.is_none() {
            self.session.execute(Program::Finish, last - 1)?;
        }
        for &Held { name, tensor } in &self.compiled.left {
            let mut bytes = vec![0; self.compiled.plan.tensor(tensor).bytes];
            self.session.read(tensor, &mut bytes)?;
            let row = bytes.len() / batch;
            let all = run.left.values.entry(name.to_owned()).or_default();
            all.resize(self.work.states * row, 0);
            for ((slot, ended), bytes) in run.slots.iter().zip(&ended).zip(bytes.chunks(row)) {
                if let (Some(state), true) = (slot.state, ended) {
                    all[state * row..(state + 1) * row].copy_from_slice(bytes);
                }
            }
        }
        for (slot, ended) in run.slots.iter_mut().zip(ended) {
            if ended {
                *slot = Slot::default();
            }
        }
        Ok(())
    }

    /// Takes over the states in work from the device.
    fn take(&mut self, run: &mut Checkpoint) -> Result<()> {
        for &Held { name, tensor } in &self.compiled.state {
            let bytes = run.work.entry(name.to_owned()).or_default();
            bytes.resize(self.compiled.plan.tensor(tensor).bytes, 0);
            self.session.read(tensor, bytes)?;
        }
        Ok(())
    }

    fn progress(&self, run: &Checkpoint, watch: &Watch<'_>, stage: u32, at_stage_end: bool) -> Progress {
        let (steps, states) = (self.work.steps.len(), self.work.states);
        let working = run.slots.iter().filter(|slot| slot.state.is_some());
        let (working, in_work) = working.fold((0, 0), |(n, sum), slot| (n + 1, sum + slot.step));
        let done = run.next - working;
        let last = self.work.steps.last().map_or(0, |step| step.stage);
        Progress {
            fraction: (watch.before + done * steps + in_work) as f64 / watch.all as f64,
            evaluations: watch.evaluations,
            done,
            working,
            states,
            stage: (self.work.pass.stage(), stage, last),
            at_stage_end,
        }
    }
}
