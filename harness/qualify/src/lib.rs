//! ort-qualify as a library: one module per word of the design (see `docs/flow.md`), data flowing one way:
//! recipe -> prefix, bundle -> case, (prefix, case) -> worker -> observation -> verdict -> evidence -> report.

pub mod atomic;
pub mod audit;
pub mod bundle;
pub mod case;
pub mod cli;
pub mod digest;
pub mod evidence;
pub mod graph;
pub mod nearest;
pub mod observation;
mod random;
pub mod recipe;
pub mod report;
pub mod run;
pub mod toml_file;
pub mod verdict;
pub mod worker;
