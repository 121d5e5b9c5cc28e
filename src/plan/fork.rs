//! Which ops of a step a device may compute at once, from what they read and write.

use std::collections::HashMap;
use std::ops::Range;

use super::{Operands, TensorId};

/// Two runs of ops, one behind the other, of which neither needs what the other writes: a device may execute them at the
/// same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fork {
    pub main: Range<usize>,
    pub side: Range<usize>,
}

impl Fork {
    /// The longest two runs among these ops, if they are at least half of them: a smaller fork is not worth the memory that its
    /// branches cannot share.
    pub fn of(ops: &[Operands]) -> Self {
        let earlier = dependences(ops);
        let mut best = Self::default();
        for middle in 1..ops.len() {
            // The last op before the side run that one of the run's ops clashes with: behind it the main run begins.
            let mut start = 0;
            for end in middle + 1..=ops.len() {
                let clashes = &earlier[end - 1];
                let before = clashes.partition_point(|&at| at < middle);
                start = start.max(clashes[..before].last().map_or(0, |&at| at + 1));
                if start == middle {
                    break;
                }
                if end - start > best.len() {
                    best = Self {
                        main: start..middle,
                        side: middle..end,
                    };
                }
            }
        }
        if 2 * best.len() >= ops.len() {
            best
        } else {
            Self::default()
        }
    }

    fn len(&self) -> usize {
        self.side.end - self.main.start
    }

    /// The same with every index so much later.
    pub(super) fn shifted(&self, by: usize) -> Self {
        let shifted = |run: &Range<usize>| run.start + by..run.end + by;
        match self.side.is_empty() {
            true => Self::default(),
            false => Self {
                main: shifted(&self.main),
                side: shifted(&self.side),
            },
        }
    }
}

/// For each op the earlier ones, in order, that write what it reads or writes, or read what it writes.
fn dependences(ops: &[Operands]) -> Vec<Vec<usize>> {
    #[derive(Default)]
    struct Users {
        readers: Vec<usize>,
        writers: Vec<usize>,
    }
    let mut users: HashMap<TensorId, Users> = HashMap::new();
    let of = |(at, op): (usize, &Operands)| {
        let mut earlier = Vec::new();
        for id in op.reads.iter().chain(&op.writes) {
            earlier.extend(users.get(id).map_or(&[][..], |users| &users.writers));
        }
        for id in &op.writes {
            earlier.extend(users.get(id).map_or(&[][..], |users| &users.readers));
        }
        for id in &op.reads {
            users.entry(*id).or_default().readers.push(at);
        }
        for id in &op.writes {
            users.entry(*id).or_default().writers.push(at);
        }
        earlier.sort_unstable();
        earlier.dedup();
        earlier
    };
    ops.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(reads, writes)` of each op.
    fn ops(all: &[(&[u32], &[u32])]) -> Vec<Operands> {
        let ids = |all: &[u32]| all.iter().map(|&id| TensorId(id)).collect();
        all.iter()
            .map(|(reads, writes)| Operands {
                reads: ids(reads),
                writes: ids(writes),
            })
            .collect()
    }

    /// 0 is the level, 1 the state, 2 to 4 a network, 5 to 7 a likelihood; the last op needs both.
    const STEP: [(&[u32], &[u32]); 6] = [
        (&[], &[0]),
        (&[0, 1], &[2]),
        (&[2], &[3]),
        (&[0, 1], &[5]),
        (&[5], &[6]),
        (&[3, 6], &[1]),
    ];

    #[test]
    fn two_chains_that_share_their_inputs_fork() {
        let fork = Fork::of(&ops(&STEP));
        assert_eq!((fork.main, fork.side), (1..3, 3..5));
    }

    #[test]
    fn a_chain_does_not_fork() {
        let chain = ops(&[(&[0], &[1]), (&[1], &[2]), (&[2], &[3]), (&[3], &[0])]);
        assert_eq!(Fork::of(&chain), Fork::default());
    }

    #[test]
    fn writing_what_the_other_run_reads_is_a_dependence() {
        let mut step = STEP;
        // The likelihood's last op writes what the network's first reads.
        step[4] = (&[5], &[6, 1]);
        let fork = Fork::of(&ops(&step));
        assert_eq!(fork.len(), 3, "one of the two gives up an op: {fork:?}");
        assert!(!(fork.main.contains(&1) && fork.side.contains(&4)), "{fork:?}");
    }

    #[test]
    fn a_short_detour_in_a_long_chain_is_not_worth_a_fork() {
        let mut all: Vec<(Vec<u32>, Vec<u32>)> = (0..10).map(|at| (vec![at], vec![at + 1])).collect();
        // A shortcut from the fourth op's input, added two ops later.
        all.insert(5, (vec![3], vec![20]));
        all[7].0.push(20);
        let all: Vec<(&[u32], &[u32])> = all.iter().map(|(r, w)| (&r[..], &w[..])).collect();
        assert_eq!(Fork::of(&ops(&all)), Fork::default());
    }
}
