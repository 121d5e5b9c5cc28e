//! Every op × shape as a case that any [`Engine`] can run: a plan of one op, its operands, and what the op's twin makes of
//! them. Tests run [`cases`] on every engine, `qcs check` on a new device; benches time [`paper_size`].
//!
//! A case also has the engine compute some of its states in another batch, which must give the same bits, and looks at
//! what the op must not write: its inputs, and the words behind every tensor.
//!
//! To add an op: a function that makes its case, in the file of its room, and its shapes in that room's list. Shapes that are odd,
//! one, and larger than a block find most. `cargo test --release --test ops NAME` runs the cases of that name on every engine.

mod conv;
mod fused_norm;
mod likelihood;
mod network;
mod product;
mod sampler;
mod turbo;
mod units;
mod values;

use std::collections::HashMap;

use super::{Constants, Engine, Precision, State};
use crate::ImageShape;
use crate::plan::{Contents, LangevinNumbers, Op, Param, ParamId, Plan, PlanBuilder, Program, Step, Target, TensorId};
use crate::prior::{Network, Prior};
use crate::problem::Problem;

/// One op on one shape.
pub struct Case {
    /// The op and its shape
    pub name: String,
    /// The largest error that counts as correct
    pub bound: f64,
    /// What the engine must multiply in
    pub precision: Precision,
    setup: Box<MakeSetup>,
}

type MakeSetup = dyn Fn(&dyn Target) -> Setup;

/// All cases that are compared with the twins.
pub fn cases() -> Vec<Case> {
    let mut cases = network::cases();
    cases.extend(conv::cases());
    cases.extend(fused_norm::cases());
    cases.extend(product::cases());
    cases.extend(likelihood::cases());
    cases.extend(sampler::cases());
    cases.extend(turbo::cases());
    cases.extend(units::cases());
    cases
}

/// The ops of a Langevin step at the paper's size, for CIFAR-10 with 2000 measurements: too large for the twins.
pub fn paper_size() -> Vec<Case> {
    let mut cases = conv::paper_size();
    cases.extend(network::paper_size());
    cases.extend(product::paper_size());
    cases.extend(likelihood::paper_size());
    cases.extend(sampler::paper_size());
    cases
}

impl Case {
    fn new(name: String, bound: f64, setup: impl Fn(&dyn Target) -> Setup + 'static) -> Self {
        Self {
            name,
            bound,
            precision: Precision::Fp32,
            setup: Box::new(setup),
        }
    }

    fn in_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The plan and its operands, for an engine with this target.
    pub fn setup(&self, target: &dyn Target) -> Setup {
        (self.setup)(target)
    }

    /// Runs the case and gives its error, infinite where a value is NaN and should not be.
    ///
    /// # Errors
    /// What the device says if it fails; or that the op wrote what is not its own, or that a state's result depends on its
    /// batch.
    pub fn run(&self, engine: &mut dyn Engine) -> Result<f64, String> {
        let setup = self.setup(engine.target());
        let all: Vec<usize> = (0..setup.plan.batch).collect();
        let together = setup.execute(engine, &all)?;
        setup.same_inputs(&together)?;
        if all.len() > 1 {
            let some: Vec<usize> = all[all.len() / 2..].iter().rev().copied().collect();
            setup.same_results(&together, &some, &setup.execute(engine, &some)?)?;
        }
        (setup.error)(&together)
    }

    /// What became of the case.
    pub fn verdict(&self, engine: &mut dyn Engine) -> Verdict {
        Verdict {
            name: self.name.clone(),
            bound: self.bound,
            error: self.run(engine),
        }
    }
}

/// What became of one case.
pub struct Verdict {
    /// The op and its shape
    pub name: String,
    /// The largest error that counts as correct
    pub bound: f64,
    /// The error, or what went wrong
    pub error: Result<f64, String>,
}

impl Verdict {
    pub fn is_correct(&self) -> bool {
        self.error.as_ref().is_ok_and(|&error| error <= self.bound)
    }
}

/// A plan of one op, everything it computes with, and how far a result is off.
pub struct Setup {
    pub plan: Plan,
    prior: Option<Prior>,
    problem: Option<Problem>,
    steps: Vec<Step>,
    /// The steps that are executed, one after the other
    executed: std::ops::Range<usize>,
    states: Vec<State>,
    /// What every tensor holds at first
    values: Vec<Vec<u8>>,
    error: Box<Error>,
}

type Error = dyn Fn(&Results) -> Result<f64, String>;

/// Words of each state behind every tensor, which no op may write.
const GUARD: usize = 16;

/// Keys all noise of the cases.
const SEED: u64 = 0x0123_4567_89ab_cdef;

impl Setup {
    pub fn constants(&self) -> Constants<'_> {
        Constants {
            prior: self.prior.as_ref(),
            problem: self.problem.as_ref(),
            steps: &self.steps,
            stage: "step",
            seed: SEED,
        }
    }

    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// The step that is executed first.
    pub fn step(&self) -> usize {
        self.executed.start
    }

    /// The tensors of a plan for so many states, and what they hold for these.
    pub fn inputs<'a>(&'a self, chosen: &'a [usize]) -> impl Iterator<Item = (TensorId, Vec<u8>)> + 'a {
        let of = |(at, values): (usize, &Vec<u8>)| (TensorId(at as u32), self.part(values, chosen));
        self.values.iter().enumerate().map(of)
    }

    /// The chosen states' part of a tensor.
    fn part(&self, bytes: &[u8], chosen: &[usize]) -> Vec<u8> {
        let len = bytes.len() / self.plan.batch;
        chosen
            .iter()
            .flat_map(|state| &bytes[state * len..(state + 1) * len])
            .copied()
            .collect()
    }

    /// Every tensor after the op was executed for the chosen states.
    fn execute(&self, engine: &mut dyn Engine, chosen: &[usize]) -> Result<Results, String> {
        let plan = self.plan.with_batch(chosen.len(), engine.target());
        let states: Vec<State> = chosen.iter().map(|&state| self.states[state]).collect();
        let mut run = || -> crate::Result<Results> {
            let mut session = engine.session(&plan, self.constants())?;
            session.bind(&states)?;
            let mut tensors = Vec::new();
            for (tensor, values) in self.inputs(chosen) {
                session.write(tensor, &values)?;
                tensors.push(values);
            }
            for step in self.executed.clone() {
                session.execute(Program::Step, step)?;
            }
            for (at, values) in tensors.iter_mut().enumerate() {
                session.read(TensorId(at as u32), values)?;
            }
            Ok(Results { tensors })
        };
        run().map_err(|e| e.to_string())
    }

    /// Tensors of the case that its ops write. Those that the planner added for itself are nobody else's matter.
    fn written(&self) -> Vec<TensorId> {
        let ops = self.plan.instructions();
        let writes = ops.flat_map(|instruction| instruction.op.operands().writes);
        writes.filter(|id| (id.0 as usize) < self.values.len()).collect()
    }

    fn same_inputs(&self, results: &Results) -> Result<(), String> {
        let written = self.written();
        let kept = |at: usize| written.contains(&TensorId(at as u32)) || results.tensors[at] == self.values[at];
        if (0..self.values.len()).all(kept) {
            Ok(())
        } else {
            Err("wrote what is not its own".into())
        }
    }

    fn same_results(&self, together: &Results, chosen: &[usize], some: &Results) -> Result<(), String> {
        let same = |id: TensorId| self.part(&together.tensors[id.0 as usize], chosen) == some.tensors[id.0 as usize];
        if self.written().into_iter().all(same) {
            Ok(())
        } else {
            Err("a state's result depends on its batch".into())
        }
    }
}

/// Every tensor of a plan after it was executed.
struct Results {
    tensors: Vec<Vec<u8>>,
}

impl Results {
    fn of<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(&self, id: TensorId) -> Vec<T> {
        bytemuck::pod_collect_to_vec(&self.tensors[id.0 as usize])
    }
}

/// Collects the operands of a case.
struct Builder<'a> {
    target: &'a dyn Target,
    plan: PlanBuilder,
    values: Vec<Vec<u8>>,
    weights: HashMap<String, Vec<f32>>,
    problem: Option<Problem>,
    steps: Vec<Step>,
    executed: std::ops::Range<usize>,
    states: Vec<State>,
}

impl<'a> Builder<'a> {
    /// For so many states, of images 0, 1, …. The current step is the second of three, and the others are not numbers.
    fn new(batch: usize, target: &'a dyn Target) -> Self {
        let mut plan = PlanBuilder::new(batch, target);
        plan.begin(Program::Step);
        let nowhere = Step {
            langevin: LangevinNumbers {
                beta: f64::NAN,
                alpha: f64::NAN,
                noise: f64::NAN,
                momentum: f64::NAN,
            },
            ..Step::default()
        };
        Self {
            target,
            plan,
            values: Vec::new(),
            weights: HashMap::new(),
            problem: None,
            steps: vec![nowhere; 3],
            executed: 1..2,
            states: (0..batch).map(|image| State { image, chain: 0 }).collect(),
        }
    }

    /// A tensor with these values, for the whole batch.
    fn tensor<T: bytemuck::NoUninit>(&mut self, contents: Contents, values: &[T]) -> TensorId {
        let bytes = self.plan.batch() * contents.bytes(self.plan.channel_block());
        assert_eq!(size_of_val(values), bytes, "a tensor has its values");
        self.values.push(bytemuck::cast_slice(values).to_vec());
        self.plan.persistent(contents)
    }

    /// A tensor that nobody has written: NaN.
    fn unset(&mut self, contents: Contents) -> TensorId {
        let bytes = self.plan.batch() * contents.bytes(self.plan.channel_block());
        self.tensor(contents, &vec![0xff_u8; bytes])
    }

    fn weight(&mut self, name: &str, shape: &[usize], values: Vec<f32>) -> ParamId {
        self.weights.insert(name.to_owned(), values);
        self.plan.param(name.to_owned(), shape)
    }

    fn push(&mut self, op: impl Into<Op>) {
        self.plan.push(op);
    }

    fn finish(mut self, error: impl Fn(&Results) -> Result<f64, String> + 'static) -> Setup {
        for tensor in 0..self.values.len() {
            let guard = Contents::U32(GUARD);
            self.values.push(vec![0xa5; self.plan.batch() * guard.bytes(1)]);
            self.plan.guard(TensorId(tensor as u32), guard);
        }
        let plan = self.plan.finish(self.target);
        let prior =
            (!plan.params().is_empty()).then(|| Prior::new(Weights(plan.params().to_vec()), None, self.weights));
        Setup {
            plan,
            prior,
            problem: self.problem,
            steps: self.steps,
            executed: self.executed,
            states: self.states,
            values: self.values,
            error: Box::new(error),
        }
    }
}

/// A network that is nothing but its weights.
struct Weights(Vec<Param>);

impl Network for Weights {
    fn describe(&self) -> String {
        "the weights of one op".into()
    }

    fn image(&self) -> ImageShape {
        ImageShape::new(1, 1, 1)
    }

    fn push(&self, plan: &mut PlanBuilder, _: TensorId, _: TensorId, _: TensorId) {
        for param in &self.0 {
            plan.param(param.name.clone(), &param.shape);
        }
    }
}

/// The part of an array that belongs to one of the states of a batch.
fn part<T>(values: &[T], states: usize, state: usize) -> &[T] {
    let len = values.len() / states;
    &values[state * len..(state + 1) * len]
}

/// What the twin makes of each state: `of(state, output)` fills a state's part of an array that was not a number.
fn each<T: Copy>(unset: T, states: usize, len: usize, mut of: impl FnMut(usize, &mut [T])) -> Vec<T> {
    let mut all = vec![unset; states * len];
    for (state, output) in all.chunks_exact_mut(len).enumerate() {
        of(state, output);
    }
    all
}

/// The largest difference, in units of the largest expected magnitude, infinite where only one of the two is NaN or the
/// infinities differ.
fn relative_error<T: Copy + Into<f64>>(actual: &[T], expected: &[T]) -> f64 {
    let scale = expected
        .iter()
        .map(|&e| e.into().abs())
        .filter(|e| e.is_finite())
        .fold(f64::MIN_POSITIVE, f64::max);
    absolute_error(actual, expected) / scale
}

/// The largest difference.
fn absolute_error<T: Copy + Into<f64>>(actual: &[T], expected: &[T]) -> f64 {
    assert_eq!(actual.len(), expected.len(), "the case compares arrays of one length");
    let pairs = actual.iter().zip(expected).map(|(&a, &e)| (a.into(), e.into()));
    let error = |(a, e): (f64, f64)| {
        if a == e || a.is_nan() && e.is_nan() {
            0.0
        } else if (a - e).is_nan() {
            f64::INFINITY
        } else {
            (a - e).abs()
        }
    };
    pairs.map(error).fold(0.0, f64::max)
}

/// Values as words: equal where they are not numbers, too.
fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()))
}
