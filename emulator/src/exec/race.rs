//! The shared-memory race detector.
//!
//! Two accesses race if they come from different warps, touch the same cell, at least one writes,
//! and no barrier that both warps took part in lies between. Time is counted in completed barriers
//! of the block (`generation`); `seen[w][u]` is the generation before which everything warp `u` did
//! is ordered before what warp `w` does now. A cell is as large as the kernel's smallest access.
//!
//! With barriers of the whole block this is exact. With barriers of some warps only, a read that
//! another warp's later read hides may be missed; there are no false alarms.

use super::block::Block;
use super::lanes::{LANES, lanes_of};
use super::memory::Request;
use super::warp::Warp;
use crate::error::{FaultKind, RaceSide, Step, Trouble};
use crate::ir::Space;

#[derive(Clone, Copy, Default)]
struct Cell {
    write_generation: u32,
    write_pc: u32,
    read_generation: u32,
    read_pc: u32,
    /// Warps that read in `read_generation`.
    readers: u32,
    writer: u8,
    atomic: bool,
    /// A `cp.async` to this cell has been issued and not waited for.
    in_flight: bool,
}

pub struct RaceDetector {
    cells: Vec<Cell>,
    shift: u32,
    generation: u32,
    seen: [[u32; 32]; 32],
}

/// How an access counts.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Read,
    Write,
    Atomic,
}

enum Conflict {
    Write { warp: u8, pc: u32 },
    Read { warp: u32, pc: u32 },
    InFlight { warp: u8, pc: u32 },
}

impl RaceDetector {
    pub fn new(shared_bytes: usize, granule: usize) -> RaceDetector {
        RaceDetector {
            cells: vec![Cell::default(); shared_bytes.div_ceil(granule)],
            shift: granule.trailing_zeros(),
            generation: 1,
            seen: [[1; 32]; 32],
        }
    }

    /// Forgets the previous block: everything so far is ordered before everything to come.
    pub fn start_block(&mut self) {
        if self.generation > u32::MAX / 2 {
            self.cells.fill(Cell::default());
            self.generation = 0;
        }
        self.generation += 1;
        self.seen = [[self.generation; 32]; 32];
        // Copies that were never waited for die with their block.
        self.cells
            .iter_mut()
            .filter(|c| c.in_flight)
            .for_each(|c| c.in_flight = false);
    }

    /// A barrier completes: the warps in `participants` have seen all that any of them had.
    pub fn barrier(&mut self, participants: u32) {
        self.generation += 1;
        let mut joint = [0; 32];
        for warp in lanes_of(participants) {
            for (most, seen) in joint.iter_mut().zip(&self.seen[warp]) {
                *most = (*most).max(*seen);
            }
        }
        for warp in lanes_of(participants) {
            joint[warp] = self.generation;
        }
        for warp in lanes_of(participants) {
            self.seen[warp] = joint;
        }
    }

    fn cells(&self, address: u64, bytes: usize) -> std::ops::Range<usize> {
        let last = (address as usize).saturating_add(bytes - 1) >> self.shift;
        (address as usize >> self.shift).min(self.cells.len())..(last + 1).min(self.cells.len())
    }

    #[inline(always)]
    fn read(&mut self, warp: u32, pc: u32, address: u64, bytes: usize) -> Result<(), Conflict> {
        let generation = self.generation;
        let seen = &self.seen[warp as usize];
        let range = self.cells(address, bytes);
        for cell in &mut self.cells[range] {
            if cell.in_flight {
                return Err(Conflict::InFlight {
                    warp: cell.writer,
                    pc: cell.write_pc,
                });
            }
            if cell.writer as u32 != warp && cell.write_generation >= seen[cell.writer as usize & 31] {
                return Err(Conflict::Write {
                    warp: cell.writer,
                    pc: cell.write_pc,
                });
            }
            if cell.read_generation != generation {
                cell.read_generation = generation;
                cell.readers = 0;
            }
            cell.readers |= 1 << warp;
            cell.read_pc = pc;
        }
        Ok(())
    }

    #[inline(always)]
    fn write(&mut self, warp: u32, pc: u32, address: u64, bytes: usize, atomic: bool) -> Result<(), Conflict> {
        let generation = self.generation;
        let seen = &self.seen[warp as usize];
        let range = self.cells(address, bytes);
        for cell in &mut self.cells[range] {
            if cell.in_flight {
                return Err(Conflict::InFlight {
                    warp: cell.writer,
                    pc: cell.write_pc,
                });
            }
            let unordered = cell.writer as u32 != warp && cell.write_generation >= seen[cell.writer as usize & 31];
            if unordered && !(atomic && cell.atomic) {
                return Err(Conflict::Write {
                    warp: cell.writer,
                    pc: cell.write_pc,
                });
            }
            let others = cell.readers & !(1 << warp);
            if let Some(reader) = lanes_of(others).find(|u| cell.read_generation >= seen[*u]) {
                return Err(Conflict::Read {
                    warp: reader as u32,
                    pc: cell.read_pc,
                });
            }
            cell.write_generation = generation;
            cell.write_pc = pc;
            cell.writer = warp as u8;
            cell.atomic = atomic;
        }
        Ok(())
    }

    fn set_in_flight(&mut self, address: u64, bytes: usize, in_flight: bool) {
        let (range, generation) = (self.cells(address, bytes), self.generation);
        for cell in &mut self.cells[range] {
            cell.in_flight = in_flight;
            // The copy writes when it completes: it is ordered by the barrier after the wait.
            cell.write_generation = generation;
        }
    }
}

impl Block<'_> {
    /// Checks the shared part of a load or store.
    pub fn watch(&mut self, warp: &Warp, request: Request, addresses: &[u64; LANES], mask: u32) -> Step {
        let kind = if request.write { Kind::Write } else { Kind::Read };
        let mut previous = u64::MAX;
        for lane in lanes_of(mask) {
            let address = addresses[lane];
            // Broadcasts: neighbouring lanes often use one address.
            if address == previous {
                continue;
            }
            previous = address;
            let (space, at) = if request.space == Space::Generic {
                Space::of_generic(address)
            } else {
                (request.space, address)
            };
            if space == Space::Shared {
                self.watch_lane(warp, kind, at, request.bytes, lane)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub fn watch_lane(&mut self, warp: &Warp, kind: Kind, at: u64, bytes: usize, lane: usize) -> Step {
        let pc = self.pc;
        let Some(races) = &mut self.races else { return Ok(()) };
        let outcome = match kind {
            Kind::Read => races.read(warp.id, pc, at, bytes),
            Kind::Write => races.write(warp.id, pc, at, bytes, false),
            Kind::Atomic => races.write(warp.id, pc, at, bytes, true),
        };
        outcome.map_err(|conflict| self.report(warp, kind, at, lane, conflict))
    }

    #[cold]
    fn report(&self, warp: &Warp, kind: Kind, address: u64, lane: usize, conflict: Conflict) -> Box<Trouble> {
        let line = |pc: u32| self.env.kernel.code[pc as usize].line;
        let this = RaceSide {
            write: kind != Kind::Read,
            warp: warp.id,
            line: line(self.pc),
        };
        let kind = match conflict {
            Conflict::InFlight { warp, pc } => FaultKind::CopyInFlight {
                address,
                issued: RaceSide {
                    write: true,
                    warp: warp as u32,
                    line: line(pc),
                },
            },
            Conflict::Write { warp, pc } => {
                let other = RaceSide {
                    write: true,
                    warp: warp as u32,
                    line: line(pc),
                };
                FaultKind::SharedRace { address, this, other }
            }
            Conflict::Read { warp, pc } => FaultKind::SharedRace {
                address,
                this,
                other: RaceSide {
                    write: false,
                    warp,
                    line: line(pc),
                },
            },
        };
        Trouble::at(lane, kind)
    }

    /// A `cp.async` starts: from now until the wait nobody may touch its target.
    pub fn copy_issued(&mut self, warp: &Warp, to: u64, bytes: usize, lane: usize) -> Step {
        self.watch_lane(warp, Kind::Write, to, bytes, lane)?;
        if let Some(races) = &mut self.races {
            races.set_in_flight(to, bytes, true);
        }
        Ok(())
    }

    pub fn copy_completed(&mut self, to: u64, bytes: usize) {
        if let Some(races) = &mut self.races {
            races.set_in_flight(to, bytes, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raced(outcome: Result<(), Conflict>) -> bool {
        outcome.is_err()
    }

    #[test]
    fn a_barrier_orders_a_write_before_a_read() {
        let mut r = RaceDetector::new(64, 4);
        assert!(!raced(r.write(0, 0, 8, 4, false)));
        assert!(!raced(r.read(0, 1, 8, 4)), "a warp is ordered with itself");
        assert!(raced(r.read(1, 1, 8, 4)));
        r.barrier(0b11);
        assert!(!raced(r.read(1, 1, 8, 4)));
        assert!(raced(r.write(0, 2, 8, 4, false)), "write after read of another warp");
        r.barrier(0b11);
        assert!(!raced(r.write(0, 2, 8, 4, false)));
    }

    #[test]
    fn neighbouring_cells_do_not_disturb_each_other() {
        let mut r = RaceDetector::new(64, 2);
        assert!(!raced(r.write(0, 0, 8, 2, false)));
        assert!(!raced(r.write(1, 0, 10, 2, false)));
        assert!(raced(r.read(2, 0, 8, 4)), "a wider access meets both");
    }

    #[test]
    fn a_barrier_of_two_warps_does_not_order_a_third() {
        let mut r = RaceDetector::new(64, 4);
        assert!(!raced(r.write(0, 0, 0, 4, false)));
        r.barrier(0b011);
        assert!(!raced(r.read(1, 0, 0, 4)));
        assert!(raced(r.read(2, 0, 0, 4)));
    }

    #[test]
    fn order_is_transitive() {
        let mut r = RaceDetector::new(64, 4);
        assert!(!raced(r.write(0, 0, 0, 4, false)));
        r.barrier(0b011);
        r.barrier(0b110);
        assert!(!raced(r.read(2, 0, 0, 4)), "0 before 1 before 2");
    }

    #[test]
    fn atomics_race_with_plain_accesses_only() {
        let mut r = RaceDetector::new(64, 4);
        assert!(!raced(r.write(0, 0, 0, 4, true)));
        assert!(!raced(r.write(1, 0, 0, 4, true)));
        assert!(raced(r.read(2, 0, 0, 4)));
        assert!(raced(r.write(2, 0, 0, 4, false)));
    }

    #[test]
    fn blocks_do_not_race_with_each_other() {
        let mut r = RaceDetector::new(64, 4);
        assert!(!raced(r.write(0, 0, 0, 4, false)));
        r.set_in_flight(0, 4, true);
        r.start_block();
        assert!(!raced(r.write(1, 0, 0, 4, false)));
    }
}
