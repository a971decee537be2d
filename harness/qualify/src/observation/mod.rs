//! Observations: what a worker saw, raw facts only.

pub mod figure;
