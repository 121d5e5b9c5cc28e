//! Where everything of a session lies on the device: one allocation, its size known before anything is uploaded.

use std::collections::HashMap;

use bytemuck::cast_slice;
use qcs_kernels::network::conv::tensor::Generation;
use qcs_kernels::network::padded;
use qcs_kernels::sampler::StateKey;
use qcs_kernels::sampler::step::StepRecord;

use super::algorithm::{Algorithm, Layer};
use super::blas::{WORKSPACE_ALIGNMENT, WORKSPACE_BYTES};
use crate::Result;
use crate::engine::{Constants, Precision, State, step_record};
use crate::plan::{ALIGNMENT, Conv, NetworkOp, Op, Packing, ParamId, Plan};
use crate::problem::{Problem, Spectrum};

/// Copies bytes to an offset of the allocation.
pub type Write<'a> = dyn FnMut(usize, &[u8]) -> Result<()> + 'a;

/// Byte offsets into the allocation. The plan's arena comes first, so a tensor's offset is its own.
pub struct Layout {
    /// The weights of the prior, packed as the ops want them
    params: HashMap<ParamId, usize>,
    /// What the ops of A compute with
    pub arrays: Vec<usize>,
    /// `[M, M]` f64
    pub u: usize,
    /// `[M]` f64
    pub eigenvalues: usize,
    /// diag(A·Aᵀ), `[M]` f64
    pub diag: usize,
    /// Bounds of the cells of the bound states, `[batch, M]` f64
    pub lower: usize,
    pub upper: usize,
    /// One [`StateKey`] per state
    pub keys: usize,
    /// One [`StepRecord`] per step
    pub records: usize,
    /// One u32: the step that runs next
    pub cursor: usize,
    /// What cuBLAS works in
    pub workspace: usize,
    /// Of the whole allocation
    pub bytes: usize,
}

impl Layout {
    pub fn new(plan: &Plan, constants: Constants<'_>, precision: Precision, with_blas: bool) -> Self {
        let mut end = plan.arena_bytes;
        let mut place = |bytes: usize| {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + bytes;
            start
        };
        let bytes = |(id, packing): &(ParamId, Packing)| {
            4 * match packing {
                Packing::Conv(conv) => layer(plan, conv).packed_words(precision),
                Packing::Channels => padded(plan.param(*id).shape[0]),
                Packing::Plain => plan.param(*id).shape.iter().product(),
            }
        };
        let params = plan.packed_params().into_iter();
        let params = params.map(|param| (param.0, place(bytes(&param)))).collect();
        let m = constants.problem.map_or(0, |p| p.a().rows());
        let arrays = constants.problem.map_or_else(Vec::new, |p| p.a().arrays());
        let when = |needed: bool, bytes: usize| if needed { bytes } else { 0 };
        let arrays = arrays.iter().map(|array| place(array.bytes().len())).collect();
        let u = place(when(plan.rotates(), 8 * m * m));
        let eigenvalues = place(when(plan.needs_spectrum(), 8 * m));
        let diag = place(8 * m);
        let lower = place(8 * plan.batch * m);
        let upper = place(8 * plan.batch * m);
        let keys = place(size_of::<StateKey>() * plan.batch);
        let records = place(size_of::<StepRecord>() * constants.steps.len());
        let cursor = place(4);
        let workspace = end.next_multiple_of(WORKSPACE_ALIGNMENT);
        if with_blas {
            end = workspace + WORKSPACE_BYTES;
        }
        Self {
            params,
            arrays,
            u,
            eigenvalues,
            diag,
            lower,
            upper,
            keys,
            records,
            cursor,
            workspace,
            bytes: end,
        }
    }

    /// Where a weight lies.
    pub fn param(&self, id: ParamId) -> usize {
        self.params[&id]
    }

    /// Copies what does not change from batch to batch: weights, A, U, the steps.
    pub fn upload(
        &self,
        write: &mut Write<'_>,
        plan: &Plan,
        constants: Constants<'_>,
        precision: Precision,
        generation: Generation,
        spectrum: Option<&Spectrum>,
    ) -> Result<()> {
        let weight = |id: ParamId| {
            let prior = constants.prior.expect("checked when the session was made");
            prior.weight(&plan.params()[id.0 as usize].name)
        };
        for (id, packing) in plan.packed_params() {
            let offset = self.param(id);
            match packing {
                Packing::Conv(conv) => {
                    let (layer, name) = (layer(plan, &conv), &plan.params()[id.0 as usize].name);
                    let name = format!("cuda {name} {:?} {generation:?}", layer.algorithm(precision));
                    let prior = constants.prior.expect("checked when the session was made");
                    let packed = prior.packed(name, || layer.pack(precision, generation, weight(id)));
                    write(offset, cast_slice(&packed))?;
                }
                Packing::Plain => write(offset, cast_slice(weight(id)))?,
                Packing::Channels => {
                    let mut values = weight(id).to_vec();
                    values.resize(padded(values.len()), 0.0);
                    write(offset, cast_slice(&values))?;
                }
            }
        }
        if let Some(problem) = constants.problem {
            self.upload_problem(write, problem, spectrum, plan.rotates())?;
        }
        let words = constants.steps.iter().flat_map(|&step| step_record(step).words());
        let records: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        write(self.records, &records)
    }

    fn upload_problem(
        &self,
        write: &mut Write<'_>,
        problem: &Problem,
        spectrum: Option<&Spectrum>,
        rotates: bool,
    ) -> Result<()> {
        for (array, &offset) in problem.a().arrays().iter().zip(&self.arrays) {
            write(offset, array.bytes())?;
        }
        write(self.diag, cast_slice(problem.diag()))?;
        if let Some(spectrum) = spectrum {
            write(self.eigenvalues, cast_slice(&spectrum.eigenvalues))?;
            if let (Some(u), true) = (&spectrum.u, rotates) {
                write(self.u, cast_slice(u))?;
            }
        }
        Ok(())
    }

    /// Copies the keys and the cells of the states of a batch; the last state fills it up.
    pub fn bind(&self, write: &mut Write<'_>, batch: usize, constants: Constants<'_>, states: &[State]) -> Result<()> {
        assert!(!states.is_empty() && states.len() <= batch);
        let bound = |slot: usize| states[slot.min(states.len() - 1)];
        let bound: Vec<State> = (0..batch).map(bound).collect();
        let keys: Vec<u32> = bound.iter().flat_map(|s| [s.key().image, s.key().chain]).collect();
        write(self.keys, cast_slice(&keys))?;
        if let Some(problem) = constants.problem {
            let cells = |upper: bool| {
                let of = |s: &State| {
                    let (lower_bounds, upper_bounds) = problem.cells().image(s.image);
                    if upper { upper_bounds } else { lower_bounds }
                };
                bound.iter().flat_map(|s| of(s).iter().copied()).collect::<Vec<f64>>()
            };
            write(self.lower, cast_slice(&cells(false)))?;
            write(self.upper, cast_slice(&cells(true)))?;
        }
        Ok(())
    }
}

fn layer(plan: &Plan, conv: &Conv) -> Layer {
    Layer::of(conv, |id| plan.tensor(id).contents)
}

fn layers(plan: &Plan) -> impl Iterator<Item = Layer> + '_ {
    plan.instructions().filter_map(|instruction| match &instruction.op {
        Op::Network(NetworkOp::Conv(conv)) => Some(layer(plan, conv)),
        _ => None,
    })
}

/// What the convolutions of a plan take with another batch.
pub fn effort(plan: &Plan, batch: usize, precision: Precision, generation: Generation, multiprocessors: u32) -> u64 {
    layers(plan)
        .map(|layer| layer.effort(precision, batch as u32, generation, multiprocessors))
        .sum()
}

/// Whether the kernels reach everything: they number the elements of a tensor with 32 bits, and those on tensor cores the bytes of a
/// prepared map. Where a tensor lies takes 64.
pub fn can_index(plan: &Plan, precision: Precision) -> bool {
    let prepared = layers(plan)
        .filter(|layer| matches!(layer.algorithm(precision), Algorithm::Tensor(_)))
        .map(|layer| layer.scratch_bytes(precision, plan.batch, 0));
    let elements = plan.tensors().iter().map(|tensor| tensor.bytes / 4);
    prepared.chain(elements).all(|most| u32::try_from(most).is_ok())
}
