//! The audit: is what is pinned what is there ([`pins`]), and was it what ran ([`evidence`])? Reads files; runs nothing.

mod evidence;
mod finding;
mod pins;

pub use evidence::{Loaded, Run, evidence};
pub use finding::{Finding, Severity, annotations};
pub use pins::{PinRow, pins};
