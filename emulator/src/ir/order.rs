//! The order in which diverged lanes should run, so that they meet again as early as they can.

use super::kernel::Kernel;

impl Kernel {
    /// Where each instruction stands when every block follows those that lead to it, loops left aside: lanes on one side of
    /// a branch then come before the place where both sides meet. The text does not have that order: compilers place a loop's
    /// last block before its first.
    pub(crate) fn flow_order(&self) -> Vec<u32> {
        let blocks = self.blocks(0);
        let mut seen = vec![false; blocks.len()];
        let mut finished = Vec::new();
        // Depth first. Of two ways the later in the text is finished first and so comes last: the way out of a loop.
        let mut stack: Vec<(usize, Vec<usize>)> = Vec::new();
        let enter = |block: usize| {
            let mut next = blocks[block].successors.clone();
            next.sort_unstable();
            (block, next)
        };
        if let Some(first) = seen.first_mut() {
            *first = true;
            stack.push(enter(0));
        }
        while let Some((block, next)) = stack.last_mut() {
            match next.pop() {
                Some(successor) if !seen[successor] => {
                    seen[successor] = true;
                    stack.push(enter(successor));
                }
                Some(_) => {}
                None => {
                    finished.push(*block);
                    stack.pop();
                }
            }
        }
        let mut order = vec![u32::MAX; self.code.len()];
        let reached = finished.iter().rev().flat_map(|block| blocks[*block].range.clone());
        reached.zip(0..).for_each(|(at, place)| order[at] = place);
        order
    }
}
