//! Runs a warp until it must wait: divergence, reconvergence and dispatch.
//!
//! Lanes of a warp that share a program counter form a group. The group that is furthest behind in
//! the kernel's flow runs, and groups that meet merge; so branches reconverge as early as possible,
//! while lanes may also stay apart for good (independent thread scheduling).

use super::block::Block;
use super::lanes::{lanes_of, mask_where};
use super::warp::Warp;
use super::{atomic, bits, compare, convert, copy_async, float, integer, load_store, matrix, mma, moves, warp_sync};
use crate::error::{Fault, FaultKind, Step, Trouble};
use crate::ir::{Barrier, BarrierKind, Instruction, Op, Reg, Vote};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum State {
    Ready,
    /// At a warp-synchronous instruction whose other members have not arrived.
    AwaitsLanes,
    /// At a barrier of the block: its number and the threads it needs (0 for all).
    AtBarrier {
        id: u32,
        threads: u32,
    },
}

/// Lanes that execute together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub pc: u32,
    pub mask: u32,
    pub state: State,
}

impl Group {
    pub fn ready(pc: u32, mask: u32) -> Group {
        let state = State::Ready;
        Group { pc, mask, state }
    }
}

/// Instructions before other warps get a turn: lets a warp that spins on shared memory see progress.
const QUANTUM: u32 = 200_000;

enum Next {
    /// Continue with the instruction after this one.
    Advance,
    Jump(u32),
    /// The group was put back or dissolved.
    Reschedule,
}

impl Block<'_> {
    /// Runs the warp until all its groups wait or have exited. Whether any instruction ran.
    pub fn run_warp(&mut self, w: &mut Warp) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        let mut quantum = QUANTUM;
        loop {
            merge_groups(&mut w.groups);
            let ready = w.groups.iter().enumerate().filter(|(_, g)| g.state == State::Ready);
            let Some((index, _)) = ready.min_by_key(|(_, g)| self.env.kernel.order[g.pc as usize]) else {
                self.check_members(w)?;
                return Ok(progress);
            };
            let group = w.groups.swap_remove(index);
            self.run_group(w, group, &mut quantum, &mut progress)?;
            if quantum == 0 {
                return Ok(true);
            }
        }
    }

    fn run_group(
        &mut self,
        w: &mut Warp,
        group: Group,
        quantum: &mut u32,
        progress: &mut bool,
    ) -> Result<(), Box<Fault>> {
        let env = self.env;
        let Group { mut pc, mut mask, .. } = group;
        let alone = w.groups.is_empty();
        let mut first = true;
        loop {
            // Another group waits here, to be merged with, or has to catch up.
            let order = |pc: u32| env.kernel.order[pc as usize];
            let waits =
                |g: &Group| (g.pc == pc && can_merge(g)) || (g.state == State::Ready && order(g.pc) < order(pc));
            if (!alone && !first && w.groups.iter().any(waits)) || *quantum == 0 {
                w.groups.push(Group::ready(pc, mask));
                return Ok(());
            }
            first = false;
            *quantum -= 1;
            *progress = true;
            let instruction = &env.kernel.code[pc as usize];
            let active = match instruction.guard {
                None => mask,
                Some(guard) => mask & w.predicate(guard),
            };
            self.instructions += 1;
            self.profile.executed[pc as usize] += 1;
            self.profile.thread_instructions += active.count_ones() as u64;
            self.pc = pc;
            let outcome = self.step(w, instruction, active, &mut mask);
            match outcome.map_err(|trouble| self.fault(w, *trouble))? {
                Next::Advance => pc += 1,
                Next::Jump(target) => pc = target,
                Next::Reschedule => return Ok(()),
            }
        }
    }

    /// Executes one instruction for the group `mask`, of which the lanes `active` pass the guard.
    #[inline(always)]
    fn step(
        &mut self,
        w: &mut Warp,
        instruction: &Instruction,
        active: u32,
        mask: &mut u32,
    ) -> Result<Next, Box<Trouble>> {
        match &instruction.op {
            Op::Branch { target } => Ok(self.branch(w, *target, active, *mask)),
            Op::BranchTable { index, targets } => self.branch_by_index(w, *index, targets, active, *mask),
            Op::Exit => {
                w.alive &= !active;
                *mask &= !active;
                // Groups that wait for lanes may now be complete.
                let waiting = w.groups.iter_mut().filter(|g| g.state == State::AwaitsLanes);
                waiting.for_each(|g| g.state = State::Ready);
                Ok(if *mask == 0 { Next::Reschedule } else { Next::Advance })
            }
            Op::Barrier(barrier) => self.arrive(w, barrier, active, *mask),
            _ if active == 0 => Ok(Next::Advance),
            op => match members(op, w, active) {
                Some(needed) => self.step_together(w, op, active, *mask, needed),
                None => self.execute(w, op, active, *mask).map(|()| Next::Advance),
            },
        }
    }

    #[inline(always)]
    fn branch(&mut self, w: &mut Warp, target: u32, active: u32, mask: u32) -> Next {
        if active == 0 {
            return Next::Advance;
        }
        if active == mask {
            return Next::Jump(target);
        }
        w.groups.push(Group::ready(target, active));
        w.groups.push(Group::ready(self.pc + 1, mask & !active));
        Next::Reschedule
    }

    fn branch_by_index(
        &mut self,
        w: &mut Warp,
        index: Reg,
        targets: &[u32],
        active: u32,
        mask: u32,
    ) -> Result<Next, Box<Trouble>> {
        let index = *w.get(index);
        let beyond = mask_where(|l| index[l] as usize >= targets.len()) & active;
        if let Some(lane) = lanes_of(beyond).next() {
            return Err(Trouble::at(lane, FaultKind::BranchIndex(index[lane])));
        }
        for (slot, target) in targets.iter().enumerate() {
            let taken = mask_where(|l| index[l] as usize == slot) & active;
            w.groups.push(Group::ready(*target, taken));
        }
        w.groups.push(Group::ready(self.pc + 1, mask & !active));
        Ok(Next::Reschedule)
    }

    /// An instruction that needs all its member lanes at once.
    fn step_together(
        &mut self,
        w: &mut Warp,
        op: &Op,
        active: u32,
        mask: u32,
        needed: u32,
    ) -> Result<Next, Box<Trouble>> {
        let missing = needed & w.alive & !active;
        let whole_warp = needed == u32::MAX && matches!(op, Op::Mma(_) | Op::LoadMatrix(_));
        // Lanes that the guard turned off, or that do not exist, will not come.
        if missing & mask != 0 || (whole_warp && w.alive != u32::MAX) {
            return Err(Trouble::new(
                None,
                FaultKind::MissingLanes {
                    needed,
                    arrived: active,
                },
            ));
        }
        if active & !needed != 0 {
            let lane = (active & !needed).trailing_zeros() as usize;
            return Err(Trouble::at(lane, FaultKind::NotAMember { members: needed }));
        }
        if missing != 0 {
            w.groups.push(Group {
                pc: self.pc,
                mask,
                state: State::AwaitsLanes,
            });
            return Ok(Next::Reschedule);
        }
        match op {
            Op::Shuffle(i) => warp_sync::shuffle(i, w, active)?,
            Op::Vote(i) => warp_sync::vote(i, w, active),
            Op::Match(i) => warp_sync::matching(i, w, active),
            Op::Reduce(i) => warp_sync::reduce(i, w, active),
            Op::LoadMatrix(i) => matrix::load_matrix(self, w, i, active)?,
            Op::Mma(i) => mma::execute(i, w),
            _ => {}
        }
        Ok(Next::Advance)
    }

    /// Lanes reach a barrier of the block: they wait there, unless they only announce themselves.
    fn arrive(&mut self, w: &mut Warp, barrier: &Barrier, active: u32, mask: u32) -> Result<Next, Box<Trouble>> {
        if active == 0 {
            return Ok(Next::Advance);
        }
        let lane = active.trailing_zeros() as usize;
        let id = w.get(barrier.id)[lane];
        if id >= 16 {
            return Err(Trouble::at(lane, FaultKind::BarrierId(id)));
        }
        let threads = barrier.threads.map_or(0, |reg| w.get(reg)[lane]);
        match barrier.kind {
            BarrierKind::Arrive => {
                self.announce(id, w.id, active.count_ones());
                return Ok(Next::Advance);
            }
            BarrierKind::CountTrue { a, .. } | BarrierKind::AllTrue { a, .. } | BarrierKind::AnyTrue { a, .. } => {
                w.barrier_votes = w.barrier_votes & !active | w.predicate(a) & active;
            }
            BarrierKind::Sync => {}
        }
        w.groups.push(Group {
            pc: self.pc,
            mask: active,
            state: State::AtBarrier { id, threads },
        });
        if mask & !active != 0 {
            w.groups.push(Group::ready(self.pc + 1, mask & !active));
        }
        Ok(Next::Reschedule)
    }

    /// Instructions that each lane executes on its own.
    #[inline(always)]
    fn execute(&mut self, w: &mut Warp, op: &Op, active: u32, group: u32) -> Step {
        match op {
            Op::Float(i) => float::execute(i, w, active),
            Op::Integer(i) => integer::execute(i, w, active),
            Op::Bits(i) => bits::execute(i, w, active),
            Op::Move(i) => moves::mov(i, w, active),
            Op::Load(i) => return load_store::load(self, w, i, active),
            Op::Store(i) => return load_store::store(self, w, i, active),
            Op::Compare(i) => compare::execute(i, w, active),
            Op::TestFloat(i) => compare::test_float(i, w, active),
            Op::Logic(i) => compare::logic(i, w, active),
            Op::Select(i) => compare::select(i, w, active),
            Op::Convert(i) => convert::execute(i, w, active),
            Op::Pack(i) => moves::pack(i, w, active),
            Op::Unpack(i) => moves::unpack(i, w, active),
            Op::ToGeneric { space, d, a } => moves::to_generic(*space, *d, *a, w, active),
            Op::FromGeneric { space, d, a } => moves::from_generic(*space, *d, *a, w, active),
            Op::IsSpace { space, d, a } => moves::is_space(*space, *d, *a, w, active),
            // Time passes by instructions: monotonic and reproducible.
            Op::Clock(d) => w.set_any(*d, active, &[self.profile.thread_instructions; 32]),
            Op::ActiveMask(d) => w.set(*d, active, &[group; 32]),
            Op::Atomic(i) => return atomic::execute(self, w, i, active),
            Op::CopyAsync(i) => return copy_async::issue(self, w, i, active),
            Op::CopyCommit => copy_async::commit(w, active),
            Op::CopyWait { pending } => return copy_async::wait(self, w, *pending, active),
            Op::Trap => return Err(Trouble::at(active.trailing_zeros() as usize, FaultKind::Trap)),
            _ => {}
        }
        Ok(())
    }

    /// All groups wait. If some wait for lanes of their own warp only, those never come.
    fn check_members(&self, w: &Warp) -> Result<(), Box<Fault>> {
        if w.groups.iter().any(|g| matches!(g.state, State::AtBarrier { .. })) {
            return Ok(());
        }
        let Some(stuck) = w.groups.iter().find(|g| g.state == State::AwaitsLanes) else {
            return Ok(());
        };
        let op = &self.env.kernel.code[stuck.pc as usize].op;
        let needed = members(op, w, stuck.mask).unwrap_or(0);
        let kind = FaultKind::MissingLanes {
            needed,
            arrived: stuck.mask,
        };
        Err(self.fault_at(w.id, stuck.pc, Trouble { lane: None, kind }))
    }
}

fn can_merge(group: &Group) -> bool {
    !matches!(group.state, State::AtBarrier { .. })
}

fn merge_groups(groups: &mut Vec<Group>) {
    groups.retain(|g| g.mask != 0);
    let mut a = 0;
    while a < groups.len() {
        let mut b = a + 1;
        while b < groups.len() {
            if groups[a].pc == groups[b].pc && can_merge(&groups[a]) && can_merge(&groups[b]) {
                groups[a].mask |= groups[b].mask;
                groups[a].state = State::Ready;
                groups.swap_remove(b);
            } else {
                b += 1;
            }
        }
        a += 1;
    }
}

/// The lanes an instruction needs, for those that lanes execute together.
#[inline(always)]
fn members(op: &Op, w: &Warp, active: u32) -> Option<u32> {
    let reg = match op {
        Op::Shuffle(i) => i.members,
        Op::Match(i) => i.members,
        Op::Reduce(i) => i.members,
        Op::WarpBarrier { members } => *members,
        Op::Vote(
            Vote::All { members, .. }
            | Vote::Any { members, .. }
            | Vote::Uniform { members, .. }
            | Vote::Ballot { members, .. },
        ) => *members,
        Op::LoadMatrix(_) | Op::Mma(_) => return Some(u32::MAX),
        _ => return None,
    };
    Some(w.get(reg)[active.trailing_zeros() as usize & 31])
}
