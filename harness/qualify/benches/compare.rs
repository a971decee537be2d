//! Comparison speed.

fn main() {}
