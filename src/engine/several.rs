//! Several engines as one: each takes a part of the batch. What a state becomes does not depend on its batch, so it does
//! not depend on the split; where a library computes products, its last bits may ([`Products::Own`] prevents it).

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Constants, Engine, Precision, Products, Session, State, Wait};
use crate::Result;
use crate::plan::{Op, Plan, Program, Target, TensorId};
use crate::problem::Problem;

/// Engines of one kind that share the work.
pub struct SeveralEngines {
    engines: Vec<Box<dyn Engine>>,
    /// The plans of the current session's parts
    plans: Vec<Plan>,
}

impl SeveralEngines {
    /// # Panics
    /// If there is no engine.
    pub fn new(engines: Vec<Box<dyn Engine>>) -> Self {
        assert!(!engines.is_empty());
        Self {
            engines,
            plans: Vec::new(),
        }
    }

    /// The part of a batch that each engine takes, largest first; an engine without a state is left out.
    fn parts(&self, batch: usize) -> Vec<usize> {
        let n = self.engines.len();
        (0..n)
            .map(|i| batch / n + usize::from(i < batch % n))
            .filter(|&part| part > 0)
            .collect()
    }
}

impl Engine for SeveralEngines {
    fn describe(&self) -> String {
        let all: Vec<String> = self.engines.iter().map(|e| e.describe()).collect();
        all.join(" + ")
    }

    fn precision(&self) -> Precision {
        self.engines[0].precision()
    }

    fn target(&self) -> &dyn Target {
        self.engines[0].target()
    }

    fn rounds_as(&self) -> &'static str {
        self.engines[0].rounds_as()
    }

    fn factorise(&mut self, problem: &Problem) -> Result<Vec<String>> {
        self.engines[0].factorise(problem)
    }

    /// Of the first engine: the others do the same.
    fn profile(&mut self, stages: RangeInclusive<u32>) -> Result<()> {
        self.engines[0].profile(stages)
    }

    fn choose_products(&mut self, by: Products) -> bool {
        // Every engine is told, also after one that has no library.
        let told: Vec<bool> = self.engines.iter_mut().map(|e| e.choose_products(by)).collect();
        told.iter().all(|&can| can)
    }

    /// Of the engine that needs most.
    fn bytes(&self, plan: &Plan, constants: Constants<'_>) -> usize {
        let engine = &self.engines[0];
        engine.bytes(&plan.with_batch(self.parts(plan.batch)[0], engine.target()), constants)
    }

    /// Of the engine that has least.
    fn free_bytes(&self) -> Option<usize> {
        self.engines.iter().filter_map(|e| e.free_bytes()).min()
    }

    fn kernels(&self) -> Option<String> {
        self.engines[0].kernels()
    }

    fn can_index(&self, plan: &Plan) -> bool {
        let engine = &self.engines[0];
        engine.can_index(&plan.with_batch(self.parts(plan.batch)[0], engine.target()))
    }

    /// Of the engine that has most to do.
    fn effort(&self, plan: &Plan, batch: usize) -> Option<u64> {
        self.engines[0].effort(plan, self.parts(batch)[0])
    }

    fn peak_gflops(&self) -> Option<f64> {
        self.engines.iter().map(|e| e.peak_gflops()).sum()
    }

    fn session<'a>(&'a mut self, plan: &'a Plan, constants: Constants<'a>) -> Result<Box<dyn Session + 'a>> {
        let parts = self.parts(plan.batch);
        let Self { engines, plans } = self;
        *plans = parts
            .iter()
            .zip(engines.iter())
            .map(|(&part, e)| plan.with_batch(part, e.target()))
            .collect();
        let pairs = engines.iter_mut().zip(plans.iter());
        let sessions = pairs.map(|(engine, plan)| engine.session(plan, constants));
        Ok(Box::new(SeveralSessions {
            sessions: sessions.collect::<Result<_>>()?,
            parts,
        }))
    }
}

struct SeveralSessions<'a> {
    sessions: Vec<Box<dyn Session + 'a>>,
    parts: Vec<usize>,
}

impl SeveralSessions<'_> {
    /// Each session with its part of a tensor's values.
    fn each<T>(&mut self, mut values: &[T], f: impl Fn(&mut dyn Session, &[T]) -> Result<()>) -> Result<()> {
        let per_state = values.len() / self.parts.iter().sum::<usize>();
        for (session, part) in self.sessions.iter_mut().zip(&self.parts) {
            let (own, rest) = values.split_at(part * per_state);
            f(session.as_mut(), own)?;
            values = rest;
        }
        Ok(())
    }
}

impl Session for SeveralSessions<'_> {
    fn bind(&mut self, states: &[State]) -> Result<()> {
        let batch: usize = self.parts.iter().sum();
        let state = |slot: usize| states[slot.min(states.len() - 1)];
        let all: Vec<State> = (0..batch).map(state).collect();
        self.each(&all, |session, states| session.bind(states))
    }

    fn execute(&mut self, program: Program, step: usize) -> Result<()> {
        self.sessions.iter_mut().try_for_each(|s| s.execute(program, step))
    }

    /// One engine after the other: its ops as if it were alone.
    fn execute_timed(&mut self, program: Program, step: usize, report: &mut dyn FnMut(&Op, Duration)) -> Result<()> {
        self.sessions
            .iter_mut()
            .try_for_each(|s| s.execute_timed(program, step, report))
    }

    fn raised(&mut self, flags: TensorId, wait: Wait) -> Result<usize> {
        self.sessions.iter_mut().map(|s| s.raised(flags, wait)).sum()
    }

    /// Those of all, each once.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.sessions.iter().flat_map(|s| s.notes()).collect();
        notes.dedup();
        notes
    }

    fn wait(&mut self) -> Result<()> {
        self.sessions.iter_mut().try_for_each(|s| s.wait())
    }

    fn write(&mut self, tensor: TensorId, bytes: &[u8]) -> Result<()> {
        self.each(bytes, |session, bytes| session.write(tensor, bytes))
    }

    fn read(&mut self, tensor: TensorId, bytes: &mut [u8]) -> Result<()> {
        let per_state = bytes.len() / self.parts.iter().sum::<usize>();
        let mut rest = bytes;
        for (session, part) in self.sessions.iter_mut().zip(&self.parts) {
            let (own, others) = rest.split_at_mut(part * per_state);
            session.read(tensor, own)?;
            rest = others;
        }
        Ok(())
    }
}
