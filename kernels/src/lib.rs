//! What the CPU and the GPU share, compiled for both.
#![no_std]
