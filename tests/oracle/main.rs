//! The network and the likelihood scores against float64 oracles.

mod golden;
mod likelihood;
mod network;
