//! Reports: one file a form. They read results and evidence, and nothing flows back.

pub mod json;
pub mod snapshot;
pub mod table;
