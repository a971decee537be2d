//! Recipes: pinned software environments as data, and the prefixes they become on disk.
//!
//! `env-recipes/NAME.toml` is a [`Recipe`], `env-recipes/lock.json` the [`Lock`]. Together they are a [`Resolved`] recipe,
//! whose key names a directory in the [`Store`]; [`Store::realise`] makes that directory and gives a [`Prefix`].
//! Fetching and unpacking wheels is uv's work ([`installer`]); packages of other kinds are fetched by [`fetch`] and unpacked by
//! [`package`]. The rest decides what, checks it and keeps it.

mod accelerator;
mod cache;
mod cause;
mod check;
mod container;
mod debian;
mod description;
mod doctor;
mod elf;
mod error;
mod extend;
mod fetch;
mod host;
mod index;
mod installer;
mod lock;
mod locking;
mod make;
mod options;
mod owner;
mod package;
mod prefix;
mod progress;
mod python;
mod resolved;
mod store;
mod tree;
mod wheel;

pub use accelerator::devices;
pub use cause::Cause;
pub use container::{Container, Program};
pub use description::{
    Append, Data, Device, Host, Kind, Library, Overlay, Provider, Recipe, Tool, Unfit, Wanted, Worker, names,
};
pub use doctor::Diagnosis;
pub use error::{RealiseError, RecipeError};
pub use host::{HostMismatch, glibc};
pub use lock::{Artifact, HashSource, Lock};
pub use locking::{Disagreement, lock, record_on_first_use};
pub use prefix::{Altered, Prefix};
pub use progress::Progress;
pub use python::{Environment, Python};
pub use resolved::{Pinned, Resolved};
pub use store::{Options, Store};
pub use tree::TreeFile;

/// The folder of recipes and lock, below the project's root.
pub const FOLDER: &str = "env-recipes";
