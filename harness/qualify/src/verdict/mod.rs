//! Verdicts: an observation held against what must hold. Runs nothing.

pub mod limits;
