//! The levels as the network is told them: the kernel's twin for each state.

use qcs_kernels::network::embed::embed;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::Embed;

impl CpuSession<'_> {
    pub(super) fn embed(&mut self, op: Embed) {
        let at = Operands::new(self.plan, &self.arena);
        let (level, frequencies) = (at.read::<f64>(op.level), self.param(op.frequencies));
        let table = op.table.map_or(&[][..], |table| self.param(table));
        self.threads
            .for_each(at.write(op.output), frequencies.len(), &|state, output| {
                embed(op.told, level[state], frequencies, table, op.cosines_first, output);
            });
    }
}
