//! The network and the likelihood scores against float64 oracles, on every engine.

#[path = "../engines/mod.rs"]
mod engines;
mod golden;
mod likelihood;
mod network;
mod published;
