//! Golden cases as tests.

fn main() {}
