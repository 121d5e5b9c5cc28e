//! Shuffles, votes, matches and reductions within a warp.
//!
//! The scheduler calls these when all member lanes have arrived; `mask` is those lanes.

use super::atomic;
use super::lanes::{LANES, lanes_of, mask_where};
use super::warp::Warp;
use crate::error::{FaultKind, Step, Trouble};
use crate::ir::{Match, Reduce, Shuffle, ShuffleMode, Vote};

pub fn shuffle(i: &Shuffle, w: &mut Warp, mask: u32) -> Step {
    let (a, b, c) = (*w.get(i.a), *w.get(i.b), *w.get(i.c));
    let mut value = [0; LANES];
    let mut in_range = 0;
    for lane in lanes_of(mask) {
        let source = source_lane(i.mode, lane as u32, b[lane] & 31, c[lane]);
        let from = source.unwrap_or(lane as u32);
        if mask >> from & 1 == 0 {
            return Err(Trouble::at(lane, FaultKind::InactiveLane { source: from }));
        }
        value[lane] = a[from as usize];
        in_range |= (source.is_some() as u32) << lane;
    }
    w.set(i.d, mask, &value);
    if let Some(p) = i.in_range {
        w.set_predicate(p, mask, in_range);
    }
    Ok(())
}

/// `control` holds the clamp in bits 0–4 and the mask of the segment number in bits 8–12.
fn source_lane(mode: ShuffleMode, lane: u32, b: u32, control: u32) -> Option<u32> {
    let (clamp, segment) = (control & 31, control >> 8 & 31);
    let first = lane & segment;
    let last = first | (clamp & !segment);
    match mode {
        ShuffleMode::Up => lane.checked_sub(b).filter(|source| *source >= last),
        ShuffleMode::Down => Some(lane + b).filter(|source| *source <= last),
        ShuffleMode::Butterfly => Some(lane ^ b).filter(|source| *source <= last),
        ShuffleMode::Index => Some(first | (b & !segment)).filter(|source| *source <= last),
    }
}

pub fn vote(i: &Vote, w: &mut Warp, mask: u32) {
    let all = |value: bool| if value { u32::MAX } else { 0 };
    match *i {
        Vote::All { d, a, .. } => {
            let votes = w.predicate(a) & mask;
            w.set_predicate(d, mask, all(votes == mask));
        }
        Vote::Any { d, a, .. } => {
            let votes = w.predicate(a) & mask;
            w.set_predicate(d, mask, all(votes != 0));
        }
        Vote::Uniform { d, a, .. } => {
            let votes = w.predicate(a) & mask;
            w.set_predicate(d, mask, all(votes == 0 || votes == mask));
        }
        Vote::Ballot { d, a, .. } => {
            let votes = w.predicate(a) & mask;
            w.set(d, mask, &[votes; LANES]);
        }
    }
}

pub fn matching(i: &Match, w: &mut Warp, mask: u32) {
    let a = w.wide(i.a).map(|v| v & i.ty.mask());
    let same_as = |lane: usize| mask_where(|other| a[other] == a[lane]) & mask;
    if !i.all {
        return w.set(i.d, mask, &std::array::from_fn(same_as));
    }
    let agree = lanes_of(mask).next().is_some_and(|first| same_as(first) == mask);
    w.set(i.d, mask, &[if agree { mask } else { 0 }; LANES]);
    if let Some(p) = i.agrees {
        w.set_predicate(p, mask, if agree { u32::MAX } else { 0 });
    }
}

pub fn reduce(i: &Reduce, w: &mut Warp, mask: u32) {
    let a = *w.get(i.a);
    let total = lanes_of(mask)
        .map(|l| a[l] as u64)
        .reduce(|x, y| atomic::apply(i.op, i.ty, x, y, 0));
    w.set(i.d, mask, &[total.unwrap_or(0) as u32; LANES]);
}
