//! `ldmatrix`: 8×8 tiles of 16-bit elements from shared memory into fragments.

use super::block::Block;
use super::lanes::LANES;
use super::memory::Request;
use super::warp::Warp;
use crate::error::Step;
use crate::ir::LoadMatrix;

/// Lane `8t + r` gives the address of row `r` of tile `t`; lane `l` receives the elements
/// `(l / 4, 2 (l % 4))` and the next one, of the transposed tile if asked.
pub fn load_matrix(block: &mut Block, w: &mut Warp, i: &LoadMatrix, mask: u32) -> Step {
    let addresses = w.addresses(i.address, i.space);
    let request = Request {
        space: i.space,
        bytes: 16,
        write: false,
    };
    for tile in 0..i.count as usize {
        let rows = 0xff << (8 * tile);
        block.observe(w, request, &addresses, rows)?;
        let mut elements = [[0u32; 8]; 8];
        for (row, values) in elements.iter_mut().enumerate() {
            let lane = 8 * tile + row;
            let from = block.resolve(w, request, addresses[lane], lane)?;
            for (column, value) in values.iter_mut().enumerate() {
                *value = from.load(2 * column, 2) as u32;
            }
        }
        let at = |r: usize, c: usize| if i.transpose { elements[c][r] } else { elements[r][c] };
        let value: [u32; LANES] = std::array::from_fn(|l| {
            let (row, column) = (l / 4, 2 * (l % 4));
            at(row, column) | at(row, column + 1) << 16
        });
        w.set(i.regs[tile], mask, &value);
    }
    Ok(())
}
