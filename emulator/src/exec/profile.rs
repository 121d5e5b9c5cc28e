//! Counters of a launch, kept per instruction so that a report can name the offending line.

use super::lanes::{LANES, lanes_of};
use super::memory::Request;
use crate::ir::Space;
use std::collections::HashMap;

/// Memory traffic of one instruction.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct MemoryCounters {
    /// Warp-wide requests to global memory.
    pub global_requests: u64,
    /// 32-byte sectors those requests touch.
    pub global_sectors: u64,
    /// Distinct bytes they ask for; with full sectors this is 32 times the sectors.
    pub global_bytes: u64,
    /// Warp-wide requests to shared memory.
    pub shared_requests: u64,
    /// Passes over the banks that those take.
    pub shared_wavefronts: u64,
    /// Passes beyond the least possible: bank conflicts.
    pub shared_conflicts: u64,
}

impl MemoryCounters {
    fn all_mut(&mut self) -> [&mut u64; 6] {
        [
            &mut self.global_requests,
            &mut self.global_sectors,
            &mut self.global_bytes,
            &mut self.shared_requests,
            &mut self.shared_wavefronts,
            &mut self.shared_conflicts,
        ]
    }

    pub fn add(&mut self, other: &MemoryCounters) {
        self.global_requests += other.global_requests;
        self.global_sectors += other.global_sectors;
        self.global_bytes += other.global_bytes;
        self.shared_requests += other.shared_requests;
        self.shared_wavefronts += other.shared_wavefronts;
        self.shared_conflicts += other.shared_conflicts;
    }
}

/// The 32-byte sectors of global memory that a launch touches, each once: bits of 64 neighbours under their common address.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Footprint(HashMap<u64, u64>);

impl Footprint {
    pub fn touch(&mut self, addresses: &[u64; LANES], mask: u32) {
        let (mut page, mut bits) = (u64::MAX, 0);
        for lane in lanes_of(mask) {
            let sector = addresses[lane] >> 5;
            if sector >> 6 != page {
                self.add(page, bits);
                (page, bits) = (sector >> 6, 0);
            }
            bits |= 1 << (sector & 63);
        }
        self.add(page, bits);
    }

    fn add(&mut self, page: u64, bits: u64) {
        if bits != 0 {
            *self.0.entry(page).or_default() |= bits;
        }
    }

    fn merge(&mut self, other: &Footprint) {
        other.0.iter().for_each(|(page, bits)| self.add(*page, *bits));
    }

    /// The sectors of both.
    pub fn common(&self, other: &Footprint) -> Footprint {
        let both = |(page, bits): (&u64, &u64)| (*page, bits & other.0.get(page).copied().unwrap_or(0));
        Footprint(self.0.iter().map(both).collect())
    }

    /// Of the sectors, whole.
    pub fn bytes(&self) -> u64 {
        32 * self.0.values().map(|bits| u64::from(bits.count_ones())).sum::<u64>()
    }
}

/// What happened in a launch.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Warp instructions, per instruction of the kernel.
    pub executed: Vec<u64>,
    /// Lanes active in them, in total.
    pub thread_instructions: u64,
    /// Per instruction; empty unless profiling was asked for.
    pub memory: Vec<MemoryCounters>,
    /// Sectors read and written; empty unless profiling was asked for.
    pub read: Footprint,
    pub written: Footprint,
    /// Sectors read with `.nc`
    pub constant: Footprint,
    /// Sectors that the block under way has read, and bytes of those that each block before it read, each once
    of_block: Footprint,
    pub read_by_blocks: u64,
    pub blocks: u64,
}

impl Profile {
    pub fn new(instructions: usize, profile_memory: bool) -> Profile {
        let memory = if profile_memory {
            vec![MemoryCounters::default(); instructions]
        } else {
            vec![]
        };
        Profile {
            executed: vec![0; instructions],
            thread_instructions: 0,
            memory,
            read: Footprint::default(),
            written: Footprint::default(),
            constant: Footprint::default(),
            of_block: Footprint::default(),
            read_by_blocks: 0,
            blocks: 0,
        }
    }

    pub fn warp_instructions(&self) -> u64 {
        self.executed.iter().sum()
    }

    /// Makes the counts of some blocks those of `all`. Footprints stay: how much of them blocks share is not known.
    pub fn stand_for(&mut self, all: u64) {
        let (some, scaled) = (self.blocks.max(1), |count: &mut u64, some: u64| {
            *count = *count * all / some
        });
        self.executed.iter_mut().for_each(|count| scaled(count, some));
        scaled(&mut self.thread_instructions, some);
        scaled(&mut self.read_by_blocks, some);
        for counters in &mut self.memory {
            for count in counters.all_mut() {
                scaled(count, some);
            }
        }
        self.blocks = all;
    }

    pub fn merge(&mut self, other: &Profile) {
        self.executed.iter_mut().zip(&other.executed).for_each(|(a, b)| *a += b);
        self.memory.iter_mut().zip(&other.memory).for_each(|(a, b)| a.add(b));
        self.thread_instructions += other.thread_instructions;
        self.read_by_blocks += other.read_by_blocks;
        self.read.merge(&other.read);
        self.written.merge(&other.written);
        self.constant.merge(&other.constant);
        self.blocks += other.blocks;
    }

    /// A block has come to its end.
    pub fn end_block(&mut self) {
        self.blocks += 1;
        self.read_by_blocks += std::mem::take(&mut self.of_block).bytes();
    }

    /// Counts one warp-wide access. The first active lane decides the space of a generic one.
    pub fn access(&mut self, pc: u32, request: Request, addresses: &[u64; LANES], mask: u32) {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        let space = if request.space == Space::Generic {
            Space::of_generic(first).0
        } else {
            request.space
        };
        let counters = &mut self.memory[pc as usize];
        match space {
            Space::Global => {
                counters.global_requests += 1;
                let (sectors, distinct) = sectors(addresses, mask, request.bytes as u64);
                counters.global_sectors += sectors;
                counters.global_bytes += distinct * request.bytes as u64;
                if request.write {
                    self.written.touch(addresses, mask);
                } else {
                    self.read.touch(addresses, mask);
                    self.of_block.touch(addresses, mask);
                }
            }
            Space::Shared => {
                let (wavefronts, conflicts) = wavefronts(addresses, mask, request.bytes);
                counters.shared_requests += 1;
                counters.shared_wavefronts += wavefronts;
                counters.shared_conflicts += conflicts;
            }
            _ => {}
        }
    }
}

/// The number of 32-byte sectors and of distinct addresses.
fn sectors(addresses: &[u64; LANES], mask: u32, bytes: u64) -> (u64, u64) {
    let mut active = [0; LANES];
    let mut count = 0;
    for lane in lanes_of(mask) {
        active[count] = addresses[lane];
        count += 1;
    }
    let active = &mut active[..count];
    active.sort_unstable();
    let (mut sectors, mut distinct) = (0, 0);
    let (mut last_sector, mut last_address) = (u64::MAX, u64::MAX);
    for address in active.iter() {
        // Accesses are aligned and at most 16 bytes: each lies in one sector.
        sectors += (address >> 5 != last_sector) as u64;
        distinct += (*address != last_address) as u64;
        (last_sector, last_address) = (address >> 5, *address);
    }
    debug_assert!(bytes <= 16);
    (sectors, distinct)
}

/// Shared memory serves 32 banks of 4 bytes per pass. Accesses of 8 bytes go by half warps, those
/// of 16 by quarter warps; in each part the pass count is the most words any bank must deliver.
fn wavefronts(addresses: &[u64; LANES], mask: u32, bytes: usize) -> (u64, u64) {
    let parts = (bytes / 4).max(1);
    let lanes_per_part = LANES / parts;
    let (mut total, mut conflicts) = (0, 0);
    for part in 0..parts {
        let part_mask = (u32::MAX >> (32 - lanes_per_part)) << (part * lanes_per_part) & mask;
        if part_mask == 0 {
            continue;
        }
        let passes = passes(addresses, part_mask, parts);
        total += passes;
        conflicts += passes - 1;
    }
    (total, conflicts)
}

fn passes(addresses: &[u64; LANES], mask: u32, words: usize) -> u64 {
    let mut seen = [0u64; LANES * 2];
    let mut count = 0;
    let mut per_bank = [0u8; 32];
    for lane in lanes_of(mask) {
        let first = (addresses[lane] & 0xffff_ffff) >> 2;
        for word in first..first + words as u64 {
            // Lanes that read the same word share it.
            if seen[..count].contains(&word) {
                continue;
            }
            seen[count] = word;
            count += 1;
            per_bank[word as usize & 31] += 1;
        }
    }
    per_bank.iter().copied().max().unwrap_or(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(f: impl Fn(u64) -> u64) -> [u64; LANES] {
        std::array::from_fn(|l| f(l as u64))
    }

    #[test]
    fn sectors_of_textbook_patterns() {
        assert_eq!(sectors(&lanes(|l| 4 * l), u32::MAX, 4), (4, 32), "coalesced");
        assert_eq!(
            sectors(&lanes(|l| 4 * l + 4), u32::MAX, 4),
            (5, 32),
            "shifted by one element"
        );
        assert_eq!(
            sectors(&lanes(|l| 128 * l), u32::MAX, 4),
            (32, 32),
            "one column of a matrix"
        );
        assert_eq!(sectors(&lanes(|_| 64), u32::MAX, 4), (1, 1), "broadcast");
        assert_eq!(
            sectors(&lanes(|l| 16 * l), u32::MAX, 16),
            (16, 32),
            "four floats per lane"
        );
    }

    #[test]
    fn a_footprint_counts_every_sector_once() {
        let mut footprint = Footprint::default();
        footprint.touch(&lanes(|l| 4 * l), u32::MAX);
        footprint.touch(&lanes(|l| 4 * l + 4), u32::MAX);
        assert_eq!(footprint.bytes(), 5 * 32, "the same line, and one element further");
        let mut other = Footprint::default();
        other.touch(&lanes(|l| 128 * l), 0xff);
        footprint.merge(&other);
        assert_eq!(footprint.bytes(), (5 + 6) * 32, "two of the eight sectors were known");
    }

    #[test]
    fn what_two_blocks_read_is_read_twice() {
        let mut profile = Profile::new(1, true);
        let request = Request {
            space: Space::Global,
            bytes: 4,
            write: false,
        };
        for reads in [2, 1] {
            (0..reads).for_each(|_| profile.access(0, request, &lanes(|l| 4 * l), u32::MAX));
            profile.end_block();
        }
        assert_eq!((profile.read.bytes(), profile.read_by_blocks), (128, 256));
    }

    #[test]
    fn counts_of_some_blocks_stand_for_all() {
        let mut profile = Profile::new(2, true);
        (profile.executed[1], profile.blocks) = (6, 3);
        profile.memory[0].shared_wavefronts = 12;
        profile.stand_for(10);
        assert_eq!((profile.executed[1], profile.blocks), (20, 10));
        assert_eq!(profile.memory[0].shared_wavefronts, 40);
    }

    #[test]
    fn bank_conflicts_of_textbook_patterns() {
        assert_eq!(wavefronts(&lanes(|l| 4 * l), u32::MAX, 4), (1, 0), "one word per bank");
        assert_eq!(wavefronts(&lanes(|l| 8 * l), u32::MAX, 4), (2, 1), "stride two");
        assert_eq!(
            wavefronts(&lanes(|l| 128 * l), u32::MAX, 4),
            (32, 31),
            "a column of 32 words"
        );
        assert_eq!(wavefronts(&lanes(|l| 132 * l), u32::MAX, 4), (1, 0), "a padded column");
        assert_eq!(wavefronts(&lanes(|_| 0), u32::MAX, 4), (1, 0), "broadcast");
        assert_eq!(
            wavefronts(&lanes(|l| 16 * l), u32::MAX, 16),
            (4, 0),
            "vectors, a quarter warp at a time"
        );
        assert_eq!(
            wavefronts(&lanes(|l| 32 * l), u32::MAX, 16),
            (8, 4),
            "vectors with gaps"
        );
        assert_eq!(
            wavefronts(&lanes(|l| 2 * l), u32::MAX, 2),
            (1, 0),
            "two halves share a word"
        );
    }
}
