//! Observations: what a worker saw, raw facts only.

pub mod compare;
pub mod figure;
