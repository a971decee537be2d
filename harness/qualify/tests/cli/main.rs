//! The command line, driven as a user drives it: the real binary, real libraries, throw-away projects.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod audit;
mod bad_input;
mod doctor;
mod faults;
mod first_use;
mod graph;
mod packages;
mod project;
mod python;
mod recipes;
mod resume;
mod server;
mod verdicts;
