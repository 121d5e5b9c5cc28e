//! Which registers an instruction reads and writes.

use super::instruction::*;

impl Op {
    /// Calls `f` for every register read.
    pub fn reads(&self, f: &mut impl FnMut(Reg)) {
        match self {
            Op::Integer(i) => [i.a, i.b, i.c].into_iter().for_each(f),
            Op::Bits(i) => i.s.into_iter().for_each(f),
            Op::Float(i) => [i.a, i.b, i.c].into_iter().for_each(f),
            Op::Compare(i) => [i.a, i.b].into_iter().for_each(f),
            Op::TestFloat(i) => f(i.a),
            Op::Select(i) => {
                [i.a, i.b].into_iter().for_each(&mut *f);
                if let SelectBy::Sign(reg, _) = i.by {
                    f(reg);
                }
            }
            Op::Convert(i) => [Some(i.a), i.b].into_iter().flatten().for_each(f),
            Op::Move(i) => f(i.a),
            Op::Pack(i) => i.s.iter().copied().for_each(f),
            Op::Unpack(i) => f(i.s),
            Op::ToGeneric { a, .. } | Op::FromGeneric { a, .. } | Op::IsSpace { a, .. } => f(*a),
            Op::Load(i) => i.address.base.into_iter().for_each(f),
            Op::Store(i) => i.address.base.into_iter().chain(i.regs().iter().copied()).for_each(f),
            Op::Atomic(i) => i.address.base.into_iter().chain([i.b, i.c]).for_each(f),
            Op::CopyAsync(i) => [i.to.base, i.from.base, i.source_bytes]
                .into_iter()
                .flatten()
                .for_each(f),
            Op::Shuffle(i) => [i.a, i.b, i.c, i.members].into_iter().for_each(f),
            Op::Vote(
                Vote::All { members, .. }
                | Vote::Any { members, .. }
                | Vote::Uniform { members, .. }
                | Vote::Ballot { members, .. },
            ) => f(*members),
            Op::Match(i) => [i.a, i.members].into_iter().for_each(f),
            Op::Reduce(i) => [i.a, i.members].into_iter().for_each(f),
            Op::WarpBarrier { members } => f(*members),
            Op::LoadMatrix(i) => i.address.base.into_iter().for_each(f),
            Op::Mma(i) => i.a.iter().chain(&i.b).chain(&i.c).copied().for_each(f),
            Op::Barrier(i) => [Some(i.id), i.threads].into_iter().flatten().for_each(f),
            Op::BranchTable { index, .. } => f(*index),
            Op::Logic(_) | Op::Clock(_) | Op::ActiveMask(_) | Op::CopyCommit | Op::CopyWait { .. } => {}
            Op::Branch { .. } | Op::Exit | Op::Trap | Op::Nothing => {}
        }
    }

    /// Calls `f` for every register written.
    pub fn writes(&self, f: &mut impl FnMut(Reg)) {
        match self {
            Op::Integer(i) => f(i.d),
            Op::Bits(i) => f(i.d),
            Op::Float(i) => f(i.d),
            Op::Compare(Compare {
                to: CompareTarget::Register(d, _),
                ..
            }) => f(*d),
            Op::Select(i) => f(i.d),
            Op::Convert(i) => f(i.d),
            Op::Move(i) => f(i.d),
            Op::Pack(i) => f(i.d),
            Op::Unpack(i) => i.d.iter().copied().for_each(f),
            Op::Clock(d) | Op::ActiveMask(d) => f(*d),
            Op::ToGeneric { d, .. } | Op::FromGeneric { d, .. } => f(*d),
            Op::Load(i) => i.regs().iter().copied().for_each(f),
            Op::Atomic(i) => i.d.into_iter().for_each(f),
            Op::Shuffle(i) => f(i.d),
            Op::Vote(Vote::Ballot { d, .. }) => f(*d),
            Op::Match(i) => f(i.d),
            Op::Reduce(i) => f(i.d),
            Op::LoadMatrix(i) => i.regs[..i.count as usize].iter().copied().for_each(f),
            Op::Mma(i) => i.d.iter().copied().for_each(f),
            Op::Barrier(Barrier {
                kind: BarrierKind::CountTrue { d, .. },
                ..
            }) => f(*d),
            _ => {}
        }
    }
}
