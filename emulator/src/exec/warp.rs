//! The state of one warp: registers, predicates, local memory and lane groups.

use super::copy_async::CopyQueue;
use super::lanes::{LANES, Lanes, Plane, Wide, blend, zip2, zip3};
use super::launch::Environment;
use super::schedule::Group;
use crate::ir::{Address, Pred, Reg, Space, Special};

pub struct Warp {
    pub id: u32,
    planes: Vec<Plane>,
    predicates: Vec<u32>,
    /// The carry flag of each lane.
    pub carry: u32,
    /// Lanes that have not exited.
    pub alive: u32,
    pub groups: Vec<Group>,
    pub local: Vec<u64>,
    pub copies: CopyQueue,
    /// Votes of the lanes waiting at a `bar.red`.
    pub barrier_votes: u32,
}

/// Registers start as a NaN in every float format and an absurd index: unset values show.
const POISON: u32 = u32::MAX;

impl Warp {
    pub fn new(env: &Environment) -> Warp {
        let kernel = env.kernel;
        Warp {
            id: 0,
            planes: vec![Plane([POISON; LANES]); kernel.planes],
            predicates: vec![0; kernel.predicates],
            carry: 0,
            alive: 0,
            groups: Vec::new(),
            local: vec![u64::MAX; kernel.local_bytes / 8 * LANES],
            copies: CopyQueue::default(),
            barrier_votes: 0,
        }
    }

    /// Makes the warp number `id` of the block `block`, about to start.
    pub fn reset(&mut self, env: &Environment, id: u32, block: [u32; 3]) {
        let left = env.threads_per_block() - id * 32;
        self.id = id;
        self.planes.fill(Plane([POISON; LANES]));
        self.predicates.fill(0);
        self.predicates[1] = u32::MAX; // the predicate that is always true
        self.carry = 0;
        self.alive = if left >= 32 { u32::MAX } else { (1 << left) - 1 };
        self.groups.clear();
        self.groups.push(Group::ready(0, self.alive));
        self.local.fill(u64::MAX);
        self.copies.clear();
        self.barrier_votes = 0;
        for (reg, value) in &env.kernel.constants {
            self.set_wide_or_narrow(*reg, &[*value; LANES]);
        }
        for (reg, special) in &env.kernel.specials {
            let values = std::array::from_fn(|lane| env.special(*special, id, lane as u32, block));
            self.set_wide_or_narrow(*reg, &values);
        }
    }

    fn set_wide_or_narrow(&mut self, reg: Reg, values: &Wide) {
        if reg.wide {
            self.set_wide(reg, u32::MAX, values);
        } else {
            self.set(reg, u32::MAX, &values.map(|v| v as u32));
        }
    }

    /// A 32-bit register.
    #[inline(always)]
    pub fn get(&self, reg: Reg) -> &Lanes {
        &self.planes[reg.plane as usize].0
    }

    #[inline(always)]
    pub fn get_mut(&mut self, reg: Reg) -> &mut Lanes {
        &mut self.planes[reg.plane as usize].0
    }

    /// A 64-bit register: two planes seen as one array.
    #[inline(always)]
    pub fn get_wide(&self, reg: Reg) -> &Wide {
        let planes = &self.planes[reg.plane as usize..reg.plane as usize + 2];
        // SAFETY: two planes are 256 contiguous bytes, aligned to 64, and any bits are a number.
        unsafe { &*planes.as_ptr().cast() }
    }

    #[inline(always)]
    fn get_wide_mut(&mut self, reg: Reg) -> &mut Wide {
        let planes = &mut self.planes[reg.plane as usize..reg.plane as usize + 2];
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { &mut *planes.as_mut_ptr().cast() }
    }

    /// A register as 64 bits; narrow ones are zero-extended.
    #[inline(always)]
    pub fn wide(&self, reg: Reg) -> Wide {
        if reg.wide {
            return *self.get_wide(reg);
        }
        let mut value = [0; LANES];
        value
            .iter_mut()
            .zip(self.get(reg))
            .for_each(|(v, low)| *v = *low as u64);
        value
    }

    #[inline(always)]
    pub fn set(&mut self, reg: Reg, mask: u32, value: &Lanes) {
        blend(&mut self.planes[reg.plane as usize].0, value, mask);
    }

    #[inline(always)]
    pub fn set_wide(&mut self, reg: Reg, mask: u32, value: &Wide) {
        blend(self.get_wide_mut(reg), value, mask);
    }

    /// Writes as much of the values as the register holds.
    #[inline(always)]
    pub fn set_any(&mut self, reg: Reg, mask: u32, value: &Wide) {
        if reg.wide {
            self.set_wide(reg, mask, value);
        } else {
            let mut low = [0; LANES];
            low.iter_mut().zip(value).for_each(|(low, v)| *low = *v as u32);
            self.set(reg, mask, &low);
        }
    }

    #[inline(always)]
    pub fn set_lane(&mut self, reg: Reg, lane: usize, value: u64) {
        if reg.wide {
            self.get_wide_mut(reg)[lane] = value;
        } else {
            self.get_mut(reg)[lane] = value as u32;
        }
    }

    #[inline(always)]
    pub fn predicate(&self, pred: Pred) -> u32 {
        let bits = self.predicates[pred.index as usize];
        if pred.negate { !bits } else { bits }
    }

    #[inline(always)]
    pub fn set_predicate(&mut self, index: u32, mask: u32, bits: u32) {
        let target = &mut self.predicates[index as usize];
        *target = *target & !mask | bits & mask;
    }

    /// Lane addresses of `[base + offset]`. Shared and local addresses may come as 32 bits.
    #[inline(always)]
    pub fn addresses(&self, address: Address, space: Space) -> Wide {
        match address.base {
            None => [address.offset; LANES],
            Some(base) if !base.wide && space != Space::Global => {
                let low = self.get(base);
                std::array::from_fn(|l| low[l].wrapping_add(address.offset as u32) as u64)
            }
            Some(base) => {
                let mut value = self.wide(base);
                value.iter_mut().for_each(|a| *a = a.wrapping_add(address.offset));
                value
            }
        }
    }

    /// `d = f(a, b)` on 32-bit lanes. `f` also runs for inactive lanes and must not fail.
    #[inline(always)]
    pub fn map2(&mut self, d: Reg, a: Reg, b: Reg, mask: u32, f: impl Fn(u32, u32) -> u32) {
        let value = zip2(self.get(a), self.get(b), f);
        self.set(d, mask, &value);
    }

    #[inline(always)]
    pub fn map3(&mut self, d: Reg, s: [Reg; 3], mask: u32, f: impl Fn(u32, u32, u32) -> u32) {
        let value = zip3([self.get(s[0]), self.get(s[1]), self.get(s[2])], f);
        self.set(d, mask, &value);
    }

    #[inline(always)]
    pub fn map2_wide(&mut self, d: Reg, a: Reg, b: Reg, mask: u32, f: impl Fn(u64, u64) -> u64) {
        let value = match (a.wide, b.wide) {
            (true, true) => zip2(self.get_wide(a), self.get_wide(b), f),
            _ => zip2(&self.wide(a), &self.wide(b), f),
        };
        self.set_wide(d, mask, &value);
    }

    /// `d = f(a, b, c)` on values of any width.
    #[inline(always)]
    pub fn map3_any(&mut self, d: Reg, s: [Reg; 3], mask: u32, f: impl Fn(u64, u64, u64) -> u64) {
        let value = zip3([&self.wide(s[0]), &self.wide(s[1]), &self.wide(s[2])], f);
        self.set_any(d, mask, &value);
    }
}

impl Environment<'_> {
    /// The value a special register has in one lane.
    fn special(&self, special: Special, warp: u32, lane: u32, block: [u32; 3]) -> u64 {
        let thread = warp * 32 + lane;
        let [x, y, _] = self.block;
        let below = (1u64 << lane) - 1;
        let value = match special {
            Special::Tid(0) => thread % x,
            Special::Tid(1) => thread / x % y,
            Special::Tid(_) => thread / (x * y),
            Special::Ntid(axis) => self.block[axis as usize],
            Special::Ctaid(axis) => block[axis as usize],
            Special::Nctaid(axis) => self.grid[axis as usize],
            Special::LaneId => lane,
            Special::WarpId => warp,
            Special::WarpCount => self.threads_per_block().div_ceil(32),
            Special::LaneMaskEq => 1 << lane,
            Special::LaneMaskLt => below as u32,
            Special::LaneMaskLe => (below << 1 | 1) as u32,
            Special::LaneMaskGt => !(below << 1 | 1) as u32,
            Special::LaneMaskGe => !below as u32,
            Special::SmId | Special::GridId => 0,
            Special::SmCount => 1,
            Special::DynamicSharedBytes => self.dynamic_shared as u32,
            Special::TotalSharedBytes => self.shared_bytes() as u32,
            Special::DynamicShared => self.dynamic_shared_offset() as u32,
            Special::GlobalAddress(index) => return self.globals[index as usize],
        };
        value as u64
    }
}
