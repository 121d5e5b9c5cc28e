//! Writing a plan down: declare tensors and weights, push ops, then let lifetimes decide the arena.

use std::collections::HashMap;

use super::arena::{Lifetime, place};
use super::fork::Fork;
use super::{
    Activated, Contents, Conv, GroupNorm, Instruction, NetworkOp, Op, Operands, Param, ParamId, Plan, Program, Target,
    Tensor, TensorId,
};

/// Collects tensors, weights and ops; [`finish`](Self::finish) makes the [`Plan`].
pub struct PlanBuilder {
    batch: usize,
    channel_block: usize,
    tensors: Vec<Tensor>,
    params: Vec<Param>,
    param_ids: HashMap<String, ParamId>,
    ops: Vec<(Program, Op)>,
    program: Program,
}

impl PlanBuilder {
    /// A plan for `batch` states at once.
    pub fn new(batch: usize, target: &dyn Target) -> Self {
        Self {
            batch,
            channel_block: target.channel_block(),
            tensors: Vec::new(),
            params: Vec::new(),
            param_ids: HashMap::new(),
            ops: Vec::new(),
            program: Program::Step,
        }
    }

    /// The tensors, weights and ops of a finished plan, for another batch size.
    pub(super) fn again(plan: &Plan, batch: usize, target: &dyn Target) -> Self {
        let mut builder = Self::new(batch, target);
        for tensor in plan.tensors() {
            match tensor.behind {
                Some(of) => builder.guard(of, tensor.contents),
                None => builder.tensor(tensor.contents, tensor.persistent),
            };
        }
        for param in plan.params() {
            builder.param(param.name.clone(), &param.shape);
        }
        for program in Program::ALL {
            builder.begin(program);
            plan.program(program).iter().for_each(|i| builder.push(i.op));
        }
        builder
    }

    pub fn batch(&self) -> usize {
        self.batch
    }

    pub fn channel_block(&self) -> usize {
        self.channel_block
    }

    pub fn contents(&self, id: TensorId) -> Contents {
        self.tensors[id.0 as usize].contents
    }

    /// Ops pushed from now on belong to `program`.
    pub fn begin(&mut self, program: Program) {
        self.program = program;
    }

    /// A tensor that lives from the op that writes it to the last op that reads it.
    pub fn temporary(&mut self, contents: Contents) -> TensorId {
        self.tensor(contents, false)
    }

    /// A tensor that keeps its value between executions.
    pub fn persistent(&mut self, contents: Contents) -> TensorId {
        self.tensor(contents, true)
    }

    /// Makes a temporary persistent, so that it can be read after an execution.
    pub fn keep(&mut self, id: TensorId) {
        self.tensors[id.0 as usize].persistent = true;
    }

    /// A tensor that keeps its value and begins where another ends, without a gap: what an op writes past the end of that one
    /// is found here. For tests.
    pub fn guard(&mut self, of: TensorId, contents: Contents) -> TensorId {
        let id = self.tensor(contents, true);
        self.tensors[id.0 as usize].behind = Some(of);
        id
    }

    fn tensor(&mut self, contents: Contents, persistent: bool) -> TensorId {
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(Tensor {
            contents,
            offset: 0,
            bytes: self.batch * contents.bytes(self.channel_block),
            persistent,
            behind: None,
        });
        id
    }

    /// The weight of this name; the same name twice is the same weight.
    ///
    /// Panics if one name is given two shapes: that is a mistake in the network's description.
    pub fn param(&mut self, name: String, shape: &[usize]) -> ParamId {
        if let Some(&id) = self.param_ids.get(&name) {
            assert_eq!(self.params[id.0 as usize].shape, shape, "{name} has two shapes");
            return id;
        }
        let id = ParamId(self.params.len() as u32);
        self.param_ids.insert(name.clone(), id);
        self.params.push(Param {
            name,
            shape: shape.to_vec(),
        });
        id
    }

    pub fn push(&mut self, op: impl Into<Op>) {
        self.ops.push((self.program, op.into()));
    }

    /// The weights declared so far.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Plans the arena.
    ///
    /// Panics if an op reads a temporary that no earlier op of its program wrote.
    pub fn finish(mut self, target: &dyn Target) -> Plan {
        self.fuse_statistics(target);
        self.fuse_activation(target);
        let mut blocks = self.lifetimes();
        let scratch: Vec<usize> = self.ops.iter().map(|(_, op)| target.scratch_bytes(op, &self)).collect();
        blocks.extend(scratch.iter().enumerate().map(|(at, &bytes)| Lifetime {
            bytes,
            first: at,
            last: at,
        }));
        let (before, fork) = self.fork(target);
        let (offsets, arena_bytes) = place(&blocks, &fork.shifted(before));
        for (tensor, &offset) in self.tensors.iter_mut().zip(&offsets) {
            tensor.offset = offset;
        }
        for at in 0..self.tensors.len() {
            if let Some(of) = self.tensors[at].behind {
                let of = self.tensors[of.0 as usize];
                self.tensors[at].offset = of.offset + of.bytes;
            }
        }
        let mut programs: [Vec<Instruction>; Program::COUNT] = Default::default();
        let scratch_offsets = &offsets[self.tensors.len()..];
        for ((&(program, op), &start), &bytes) in self.ops.iter().zip(scratch_offsets).zip(&scratch) {
            programs[program as usize].push(Instruction {
                op,
                scratch: start..start + bytes,
            });
        }
        Plan {
            fork,
            batch: self.batch,
            channel_block: self.channel_block,
            arena_bytes,
            tensors: self.tensors,
            params: self.params,
            programs,
        }
    }

    /// Lets every convolution whose output goes into a norm leave the statistics that the target wants.
    fn fuse_statistics(&mut self, target: &dyn Target) {
        for at in 0..self.ops.len() {
            let (
                program,
                Op::Network(NetworkOp::NormCoefficients { input, .. } | NetworkOp::GroupNorm(GroupNorm { input, .. })),
            ) = self.ops[at]
            else {
                continue;
            };
            let writes = |(p, op): &(Program, Op)| *p == program && op.operands().writes.contains(&input);
            let Some(writer) = self.ops[..at].iter().rposition(writes) else {
                continue;
            };
            let conv = match self.ops[writer].1 {
                Op::Network(NetworkOp::Conv(conv)) => conv,
                _ => continue,
            };
            let Some(contents) = target.statistics(&conv, self) else {
                continue;
            };
            let tensor = conv.statistics.unwrap_or_else(|| self.temporary(contents));
            for op in [writer, at] {
                if let Op::Network(
                    NetworkOp::Conv(Conv { statistics, .. })
                    | NetworkOp::NormCoefficients { statistics, .. }
                    | NetworkOp::GroupNorm(GroupNorm { statistics, .. }),
                ) = &mut self.ops[op].1
                {
                    *statistics = Some(tensor);
                }
            }
        }
    }

    /// Lets every convolution whose output goes into another one, without a norm between them, leave what the target multiplies.
    fn fuse_activation(&mut self, target: &dyn Target) {
        for at in 0..self.ops.len() {
            let (program, Op::Network(NetworkOp::Conv(reader))) = self.ops[at] else {
                continue;
            };
            let writes = |(p, op): &(Program, Op)| *p == program && op.operands().writes.contains(&reader.input);
            let Some(writer_at) = self.ops[..at].iter().rposition(writes) else {
                continue;
            };
            let Op::Network(NetworkOp::Conv(writer)) = self.ops[writer_at].1 else {
                continue;
            };
            let (None, Some(contents)) = (reader.activated, target.activated(&writer, &reader, self)) else {
                continue;
            };
            let leaves = writer.leaves.unwrap_or_else(|| Activated {
                tensor: self.temporary(contents),
                activation: reader.activation,
            });
            if leaves.activation != reader.activation {
                continue;
            }
            self.ops[writer_at].1 = Op::Network(NetworkOp::Conv(Conv {
                leaves: Some(leaves),
                ..writer
            }));
            self.ops[at].1 = Op::Network(NetworkOp::Conv(Conv {
                activated: Some(leaves.tensor),
                ..reader
            }));
        }
    }

    /// Where the ops of a step begin, and their fork, if the target has a use for it.
    fn fork(&self, target: &dyn Target) -> (usize, Fork) {
        let is_step = |(program, _): &&(Program, Op)| *program == Program::Step;
        let before = self.ops.iter().take_while(|op| !is_step(op)).count();
        let step = self.ops[before..].iter().take_while(is_step);
        let operands: Vec<Operands> = step.map(|(_, op)| op.operands()).collect();
        let all = self.ops.iter().filter(is_step).count();
        assert_eq!(
            operands.len(),
            all,
            "the ops of a program are pushed one after the other"
        );
        let fork = if target.forks() {
            Fork::of(&operands)
        } else {
            Fork::default()
        };
        (before, fork)
    }

    fn lifetimes(&self) -> Vec<Lifetime> {
        let mut spans: Vec<Option<(usize, usize)>> = vec![None; self.tensors.len()];
        for (at, (program, op)) in self.ops.iter().enumerate() {
            let operands = op.operands();
            for id in &operands.reads {
                let index = id.0 as usize;
                if self.tensors[index].persistent {
                    continue;
                }
                match &mut spans[index] {
                    Some((first, last)) if self.ops[*first].0 == *program => *last = at,
                    _ => panic!("{} reads a tensor that nothing in its program wrote", op.name()),
                }
            }
            for id in &operands.writes {
                let span = spans[id.0 as usize].get_or_insert((at, at));
                span.1 = at;
            }
        }
        let of = |(tensor, span): (&Tensor, &Option<(usize, usize)>)| {
            let (first, last) = if tensor.persistent {
                (0, self.ops.len())
            } else {
                span.unwrap_or((0, self.ops.len()))
            };
            Lifetime {
                bytes: tensor.bytes,
                first,
                last,
            }
        };
        let mut lifetimes: Vec<Lifetime> = self.tensors.iter().zip(&spans).map(of).collect();
        for (at, tensor) in self.tensors.iter().enumerate() {
            if let Some(of) = tensor.behind {
                lifetimes[of.0 as usize].bytes += std::mem::take(&mut lifetimes[at].bytes);
            }
        }
        lifetimes
    }
}
