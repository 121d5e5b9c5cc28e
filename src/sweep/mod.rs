//! Experiments: a grid over anything that a run takes, every point a run folder of its own, and a report of them all.
//!
//! [`Sweep`] is what a file or flags ask for, [`Point`] one run of it, [`execute`] runs what is not there yet, and
//! [`Collected`] reads the folders back and writes the [report](Collected::write).

mod collect;
mod execute;
mod file;
mod keys;
mod mark;
mod point;
mod report;

pub use collect::{Collected, Row};
pub use execute::{Ended, Materials, SweepObserver, execute};
pub use file::{Grid, Sweep};
pub use keys::{flat_keys, value_of};
pub use mark::claim;
pub use point::Point;

/// The folder of a point, below that of its sweep.
const POINTS: &str = "points";
