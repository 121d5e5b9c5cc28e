//! One Langevin step of the engine, or one evaluation of a network or a likelihood, on the emulator, which writes down every launch.

use std::collections::HashMap;
use std::path::Path;

use qcs::engine::cuda::CudaEngine;
use qcs::engine::{Constants, Engine, Precision, State};
use qcs::likelihood::Likelihood;
use qcs::methods::{Algorithm, Inputs, Preset, QcsSgmPlus, ScorePlan};
use qcs::plan::{Activation, Contents, Conv, NetworkOp, Op, Plan, Program, Step};
use qcs::prior::Prior;
use qcs::problem::{Cells, Matrix, Measurements, Problem, Spectrum, Structure};
use qcs::{Error, ImageShape, Result};
use qcs_kernels::network::conv::winograd::{FREQUENCIES, Tiling};

use super::counts::{CountedOp, Launch};

/// What is predicted.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// A Langevin step of a preset, with the paper's network of this width
    Step { preset: &'static Preset, ngf: usize },
    /// An evaluation of the prior in this file or folder, for images of its size or so many pixels a side
    Evaluation { prior: &'static str, side: Option<usize> },
    /// The likelihood of the photograph: three channels of 256×256, half as many measurements by the Hadamard operator
    Hadamard,
}

/// Runs the subject in this process, whose environment names the emulator and `launches`, and returns the ops of the plan.
///
/// Convolutions of one shape run the same instructions, so the first stands for all of them. That leaves the network's
/// output without meaning, on which no other count depends.
pub fn count(subject: Subject, batch: usize, precision: Precision, launches: &Path) -> Result<Vec<CountedOp>> {
    let mut engine = CudaEngine::new(0, Some(precision))?;
    // Op by op, each in its range, instead of as a graph.
    engine.profile(1..=1)?;
    let (whole, prior, problem) = match subject {
        Subject::Step { preset, ngf } => {
            let prior = Prior::random_of_width(ngf, preset.image(), 0);
            let problem = dense(preset)?;
            engine.factorise(&problem)?;
            let settings = QcsSgmPlus::of_preset(preset).settings(Likelihood::default())?;
            let given = Inputs {
                prior: &prior,
                problem: Some(&problem),
                chains: 1,
            };
            let plan = settings.passes(given)[0].compile(batch, engine.target()).plan;
            (plan, Some(prior), Some(problem))
        }
        Subject::Evaluation { prior, side } => {
            let path = Path::new(super::ROOT).join(prior);
            let image = side.map(|side| ImageShape::new(3, side, side));
            let prior = Prior::open(&path, image)?;
            let plan = ScorePlan::of_prior(&prior, batch, engine.target()).plan;
            (plan, Some(prior), None)
        }
        Subject::Hadamard => {
            let shape = ImageShape::new(3, 256, 256);
            let operator = Structure::Hadamard.draw(shape, Some(Measurements::Share(0.5)), 0)?;
            let m = operator.rows();
            let cells = Cells::new(m, vec![0.0; m], vec![f64::INFINITY; m])?;
            let problem = Problem::new(operator, cells, 0.05)?;
            engine.factorise(&problem)?;
            let plan = ScorePlan::of_likelihood(&Likelihood::default(), &problem, batch, engine.target()).plan;
            (plan, None, Some(problem))
        }
    };
    let mut seen = Vec::new();
    let plan = whole.only(Program::Step, |op| match op {
        Op::Network(NetworkOp::Conv(conv)) if seen.contains(&Shape::of(&whole, conv)) => false,
        Op::Network(NetworkOp::Conv(conv)) => {
            seen.push(Shape::of(&whole, conv));
            true
        }
        _ => true,
    });
    let steps = [Step::plain(1.0, 1e-4, 0)];
    let constants = Constants {
        steps: &steps,
        prior: prior.as_ref(),
        problem: problem.as_ref(),
        ..Constants::default()
    };
    let mut session = engine.session(&plan, constants)?;
    session.bind(&(0..batch).map(|chain| State { image: 0, chain }).collect::<Vec<_>>())?;
    session.execute(Program::Start, 0)?;
    session.execute(Program::Step, 0)?;
    session.wait()?;

    let text = std::fs::read_to_string(launches).map_err(|e| Error::Failed(format!("{}: {e}", launches.display())))?;
    join(&whole, &plan, read(&text)?)
}

/// One image, measured with one bit by a matrix whose factorisation takes no time: [1 0]. What it holds changes no count.
fn dense(preset: &Preset) -> Result<Problem> {
    let (m, n) = (preset.measurements, preset.image().len());
    let identity = |columns: usize| {
        (0..m * columns)
            .map(move |at| f64::from(at % columns == at / columns))
            .collect::<Vec<_>>()
    };
    let cells = Cells::new(m, vec![0.0; m], vec![f64::INFINITY; m])?;
    let problem = Problem::new(Matrix::from_f64(m, n, identity(n))?, cells, 0.05)?;
    problem.with_spectrum(Spectrum {
        eigenvalues: vec![1.0; m],
        u: Some(identity(m)),
    })
}

/// The launches inside of a step, those of one range together.
fn read(text: &str) -> Result<Vec<Vec<Launch>>> {
    let unreadable = || Error::Failed("the emulator's list of launches cannot be read".to_owned());
    let mut ops: Vec<(serde_json::Value, Vec<Launch>)> = Vec::new();
    for line in text.lines() {
        let mut line: serde_json::Value = serde_json::from_str(line).map_err(|_| unreadable())?;
        if line["range"] == "" {
            continue;
        }
        let launch = Launch::from_report(&line["report"]).ok_or_else(unreadable)?;
        // The kernel that ends the step follows the last op's range without opening one.
        let range = serde_json::json!([line["ranges_opened"].take(), line["range"].take()]);
        match ops.last_mut() {
            Some((last, launches)) if *last == range => launches.push(launch),
            _ => ops.push((range, vec![launch])),
        }
    }
    Ok(ops.into_iter().map(|(_, launches)| launches).collect())
}

/// Gives every op of the whole plan the launches that were counted for it, or for a convolution of its shape.
fn join(whole: &Plan, executed: &Plan, counted: Vec<Vec<Launch>>) -> Result<Vec<CountedOp>> {
    let program = executed.program(Program::Step);
    if counted.len() != program.len() + 1 {
        let message = format!("{} ops were launched, not {}", counted.len(), program.len() + 1);
        return Err(Error::Failed(message));
    }
    let mut counted = counted.into_iter();
    let mut convs: HashMap<Shape, Vec<Launch>> = HashMap::new();
    let mut ops = Vec::new();
    for instruction in whole.program(Program::Step) {
        let mut next = || counted.next().expect("as many as the program has ops");
        let launches = match instruction.op {
            Op::Network(NetworkOp::Conv(conv)) => convs.entry(Shape::of(whole, &conv)).or_insert_with(next).clone(),
            _ => next(),
        };
        let cost = instruction.op.cost(whole);
        let mut launches: Vec<Launch> = launches;
        match instruction.op {
            Op::Network(NetworkOp::Conv(conv)) if launches.len() > 2 => share_transforms(whole, &conv, &mut launches),
            _ => {
                if let (Some(last), true) = (launches.last_mut(), cost.flops > 0) {
                    last.share_operands(cost.bytes + constant_bytes(whole, &instruction.op));
                }
            }
        }
        ops.push(CountedOp {
            name: name(whole, &instruction.op),
            flops: cost.flops,
            launches,
        });
    }
    ops.push(CountedOp {
        name: "advance_step".to_owned(),
        flops: 0,
        launches: counted.next().expect("the kernel that ends a step"),
    });
    Ok(ops)
}

/// Bytes of the weights, or of A or U in f64: an op's cost has its tensors alone. Each of their numbers is multiplied once for every
/// pixel, or state.
fn constant_bytes(plan: &Plan, op: &Op) -> u64 {
    let (times, bytes) = match op {
        Op::Network(NetworkOp::Conv(conv)) => {
            let (_, height, width) = plan.tensor(conv.output).contents.feature();
            (plan.batch * height * width, 4)
        }
        _ => (plan.batch, 8),
    };
    op.cost(plan).flops / 2 / times as u64 * bytes
}

/// Winograd's algorithm, in parts of three launches: tiles share the pixels between them, the products their operands. What the
/// output's transform touches belongs to one thread each.
fn share_transforms(plan: &Plan, conv: &Conv, launches: &mut [Launch]) {
    let (inputs, height, width) = plan.tensor(conv.input).contents.feature();
    let (outputs, ..) = plan.tensor(conv.output).contents.feature();
    let tiles = Tiling::new(height as u32, width as u32, conv.dilation as u32).per_image() as usize;
    let parts = launches.len() / 3;
    let of_part = |floats_per_image: usize| (4 * floats_per_image * plan.batch / parts) as u64;
    let (transformed, sums) = (FREQUENCIES * tiles * inputs, FREQUENCIES * tiles * outputs);
    let weights = 4 * (FREQUENCIES * inputs * outputs) as u64;
    for part in launches.chunks_exact_mut(3) {
        part[0].share_operands(of_part(inputs * height * width + transformed));
        part[1].share_operands(of_part(transformed + sums) + weights);
    }
}

/// What the launch of a convolution depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Shape {
    input: (usize, usize, usize),
    outputs: usize,
    kernel: usize,
    dilation: usize,
    /// None, ELU, norm and ELU
    activation: u8,
    bias: bool,
    residual: bool,
    statistics: bool,
    activated: bool,
    leaves: bool,
}

impl Shape {
    fn of(plan: &Plan, conv: &Conv) -> Self {
        Self {
            input: plan.tensor(conv.input).contents.feature(),
            outputs: plan.tensor(conv.output).contents.feature().0,
            kernel: conv.kernel,
            dilation: conv.dilation,
            activation: match conv.activation {
                Activation::None => 0,
                Activation::Elu => 1,
                Activation::NormElu(_) => 2,
                Activation::NormSilu(_) => 3,
                Activation::Norm(_) => 4,
                Activation::Relu => 5,
            },
            bias: conv.bias.is_some(),
            residual: conv.residual.is_some(),
            statistics: conv.statistics.is_some(),
            activated: conv.activated.is_some(),
            leaves: conv.leaves.is_some(),
        }
    }
}

/// What ops are grouped by in the table.
fn name(plan: &Plan, op: &Op) -> String {
    let Op::Network(NetworkOp::Conv(conv)) = op else {
        return op.name().to_owned();
    };
    let Contents::Feature { channels: outputs, .. } = plan.tensor(conv.output).contents else {
        unreachable!("a convolution writes a feature map");
    };
    let (inputs, height, width) = plan.tensor(conv.input).contents.feature();
    let k = conv.kernel;
    let dilation = match conv.dilation {
        1 => String::new(),
        d => format!(", dilation {d}"),
    };
    format!("conv {k}×{k} {inputs}→{outputs}, {height}×{width}{dilation}")
}
