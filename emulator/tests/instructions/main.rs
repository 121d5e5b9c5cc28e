//! Every instruction against expectations from outside: constants worked out from the PTX manual,
//! or arithmetic of another kind.

mod bits;
mod compare;
mod control;
mod convert;
mod float;
mod harness;
mod integer;
mod load_errors;
mod matrix;
mod memory;
mod warp;
