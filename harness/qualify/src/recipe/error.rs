//! What can be wrong with recipes (the request), and what can keep them from becoming a prefix (mostly the environment).
//!
//! Messages are whole: the I/O error is in the text and not a `source`, so a printed chain does not say it twice.

use super::cause::{Cause, DENIED, DISK_FULL, QUOTA, READ_ONLY, TOO_LARGE};
use super::{Altered, HostMismatch};
use crate::toml_file::TomlFileError;
use camino::Utf8PathBuf;
use std::io;

/// A recipe or a lock that cannot be used as it stands: the request's fault, but for one.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The folder of recipes cannot be listed.
    #[error("cannot list the recipes in {path}: {why}; run from the project's root or name it")]
    Folder {
        /// Which folder.
        path: Utf8PathBuf,
        /// Why.
        why: io::Error,
    },
    /// There is no such recipe.
    #[error("there is no recipe `{name}` in {folder}{hint}; known are: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// Where recipes are.
        folder: Utf8PathBuf,
        /// The nearest name, in words.
        hint: String,
        /// All names.
        known: String,
    },
    /// The file is not TOML or has unknown, missing or mistyped fields.
    #[error(transparent)]
    File(#[from] TomlFileError),
    /// A field's value makes no sense.
    #[error("{path}: field `{field}`: {problem}")]
    Field {
        /// Which recipe file.
        path: Utf8PathBuf,
        /// Which field.
        field: String,
        /// What is wrong with it and what is wanted.
        problem: String,
    },
    /// The lock cannot be read or is unsound.
    #[error("{path}: {problem}")]
    Lock {
        /// Which lock file.
        path: Utf8PathBuf,
        /// Which artifact and field, and what is wrong.
        problem: String,
    },
    /// The recipe wants what the lock does not have.
    #[error(
        "recipe `{recipe}` wants {artifacts}, which {lock} does not have; correct the recipe, or let `ort-qualify recipe lock` look it up"
    )]
    NotLocked {
        /// Which recipe.
        recipe: String,
        /// The artifacts, with version and index.
        artifacts: String,
        /// Which lock file.
        lock: Utf8PathBuf,
    },
    /// The index does not give what is wanted.
    #[error("cannot lock {artifact} of `{index}`, which recipe `{recipe}` wants: {problem}")]
    LookUp {
        /// Which recipe.
        recipe: String,
        /// Name and version.
        artifact: String,
        /// The index by word.
        index: String,
        /// What is wrong.
        problem: String,
    },
    /// The artifact's hash is not known, so nothing could tell the right file from another.
    #[error(
        "recipe `{recipe}` cannot be realised: no SHA-256 is recorded for {artifact} of `{index}` ({reason}), and what \
         cannot be checked is not installed. Record the file's hash in lock.json, or let \
         `ort-qualify recipe realise {recipe} --record-on-first-use` trust what the index serves now and write that down"
    )]
    Unrecorded {
        /// Which recipe.
        recipe: String,
        /// Name and version.
        artifact: String,
        /// The index by word.
        index: String,
        /// Why the lock has no hash.
        reason: String,
    },
    /// The lock's wheel is not one for what the recipe says.
    #[error(
        "recipe `{recipe}`: {filename} of lock.json does not fit Python {python} on {platform}, for which the recipe wants it; \
         correct `python` and `platform` there, or remove the entry from the lock and let `ort-qualify recipe lock` look again"
    )]
    Misfit {
        /// Which recipe.
        recipe: String,
        /// The wheel.
        filename: String,
        /// The Python that the recipe says.
        python: String,
        /// The platform that the recipe says.
        platform: String,
    },
    /// None of the C++ runtimes loads on this machine.
    #[error(
        "recipe `{recipe}` needs a newer C++ runtime, and none of its overlays loads here: {needs}, and this machine has \
         {}.{}", found.0, found.1
    )]
    NoOverlay {
        /// Which recipe.
        recipe: String,
        /// Each overlay with what it needs.
        needs: String,
        /// Version of the glibc in use here.
        found: (u32, u32),
    },
    /// The image of a container is the user's to name.
    #[error(
        "recipe `{recipe}`: field `container.{field}` is not given: which image it is, only you know. Write a recipe that \
         `extends` this one, with `image`, its absolute path, and `sha256`, as `sha256sum` says it, under `[container]`"
    )]
    NoImage {
        /// Which recipe.
        recipe: String,
        /// Which field.
        field: &'static str,
    },
    /// A recipe was used for what it is not.
    #[error("recipe `{recipe}` is of kind `{kind}`, and a `{wanted}` is needed here")]
    WrongKind {
        /// Which recipe.
        recipe: String,
        /// What it is.
        kind: &'static str,
        /// What is needed.
        wanted: &'static str,
    },
}

impl RecipeError {
    /// Is it this machine, rather than the recipe, that is at fault?
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::NoOverlay { .. })
    }
}

/// A prefix that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum RealiseError {
    /// The recipe or the lock is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The recipe cannot exist on this machine.
    #[error(transparent)]
    Host(#[from] HostMismatch),
    /// No place for the store is known.
    #[error("no place for the store is known ({0}); name one with --store or ORT_QUALIFY_STORE")]
    NoPlace(String),
    /// The file system refused.
    #[error("cannot {action} {path}: {}", in_words(why))]
    Disk {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: Utf8PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// The entry's own record is unreadable or belongs to something else.
    #[error("{path}: {problem}; `ort-qualify recipe realise {recipe} --repair` makes the entry anew")]
    Entry {
        /// The record.
        path: Utf8PathBuf,
        /// Which recipe.
        recipe: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Files of the entry are not what was installed.
    #[error(transparent)]
    Altered(Box<Altered>),
    /// It is not in the store, and nothing may be fetched.
    #[error("recipe `{recipe}` is not in the store {store}, and it cannot be fetched offline: {reason}")]
    Offline {
        /// Which recipe.
        recipe: String,
        /// Which store.
        store: Utf8PathBuf,
        /// What offline work was tried.
        reason: String,
    },
    /// Neither uv nor pip.
    #[error(
        "recipe `{recipe}` needs uv or pip to be fetched. uv: {uv}. pip: {pip}. Install uv (or point ORT_QUALIFY_UV at \
         its binary), or install Python 3 with pip"
    )]
    NoInstaller {
        /// Which recipe.
        recipe: String,
        /// Why uv cannot be used.
        uv: String,
        /// Why pip cannot be used.
        pip: String,
    },
    /// uv or pip failed.
    #[error("recipe `{recipe}`: {tool} did not install {artifacts}: {cause}. It said:\n{said}")]
    Installer {
        /// Which recipe.
        recipe: String,
        /// Program and version.
        tool: String,
        /// Names and versions.
        artifacts: String,
        /// What its messages mean.
        cause: Cause,
        /// The last lines of its messages, as they were.
        said: String,
    },
    /// A file that uv does not fetch could not be had.
    #[error("recipe `{recipe}`: cannot fetch {artifact} from {from}: {problem}")]
    Fetch {
        /// Which recipe.
        recipe: String,
        /// Name and version.
        artifact: String,
        /// The address, or what stands for it.
        from: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// The file served is not the file that is pinned.
    #[error(
        "recipe `{recipe}`: {artifact} from {from} has {hashes}, so it was refused. \
         Either the lock is wrong or the file was replaced: find out which before you change the pin"
    )]
    WrongFile {
        /// Which recipe.
        recipe: String,
        /// Name and version.
        artifact: String,
        /// The address, or what stands for it.
        from: String,
        /// The file's hash and the lock's, in words.
        hashes: String,
    },
    /// A vendor's index does not answer.
    #[error("the index {index} could not be reached. uv said:\n{said}")]
    Unreachable {
        /// Its address.
        index: String,
        /// uv's last lines.
        said: String,
    },
    /// The recipe's image cannot be used.
    #[error("recipe `{recipe}` runs in an image: {problem}")]
    Container {
        /// Which recipe.
        recipe: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// No interpreter of the version that an environment is for.
    #[error(
        "recipe `{recipe}` needs a Python {version}, and uv neither found one nor could fetch one. Install it, or `uv python install {version}` where there is a network. uv said:\n{said}"
    )]
    NoPython {
        /// Which recipe.
        recipe: String,
        /// Which version.
        version: String,
        /// uv's last lines.
        said: String,
    },
    /// A Python interpreter does not work.
    #[error("recipe `{recipe}`: the interpreter {program} does not say what it is: {said}")]
    Interpreter {
        /// Which recipe.
        recipe: String,
        /// The interpreter.
        program: Utf8PathBuf,
        /// Its own words.
        said: String,
    },
    /// The pinned file cannot be unpacked.
    #[error("recipe `{recipe}`: {artifact} cannot be installed from {filename}: {problem}")]
    Package {
        /// Which recipe.
        recipe: String,
        /// Name and version.
        artifact: String,
        /// The file's name.
        filename: String,
        /// Why not.
        problem: String,
    },
    /// Two artifacts bring different files to one place.
    #[error("recipe `{recipe}`: {first} and {second} both bring {path}, and differ in it; a recipe has one of them")]
    Conflict {
        /// Which recipe.
        recipe: String,
        /// The one artifact.
        first: String,
        /// The other.
        second: String,
        /// Path below the installed files.
        path: Utf8PathBuf,
    },
    /// What the recipe points at is not among the installed files.
    #[error("recipe `{recipe}`: field `{field}` names `{path}`, which its artifacts do not have{hint}")]
    NotInstalled {
        /// Which recipe.
        recipe: String,
        /// Which field.
        field: &'static str,
        /// The path below the installed files.
        path: Utf8PathBuf,
        /// The nearest installed path, in words.
        hint: String,
    },
}

impl RealiseError {
    /// Is it the environment (exit code 3), rather than the request (exit code 2), that is at fault?
    pub fn is_environment(&self) -> bool {
        match self {
            Self::Recipe(e) => e.is_environment(),
            Self::NotInstalled { .. } | Self::WrongFile { .. } | Self::Package { .. } | Self::Conflict { .. } => false,
            Self::Installer { cause, .. } => *cause != Cause::Hash,
            Self::Fetch { .. }
            | Self::Unreachable { .. }
            | Self::Container { .. }
            | Self::Interpreter { .. }
            | Self::NoPython { .. }
            | Self::Host(_)
            | Self::NoPlace(_)
            | Self::Disk { .. }
            | Self::Entry { .. }
            | Self::Altered(_)
            | Self::Offline { .. }
            | Self::NoInstaller { .. } => true,
        }
    }
}

/// An I/O error with what to do about it, where the kind is one that a user can mend.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => DISK_FULL.to_owned(),
        io::ErrorKind::QuotaExceeded => QUOTA.to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => READ_ONLY.to_owned(),
        io::ErrorKind::PermissionDenied => DENIED.to_owned(),
        io::ErrorKind::FileTooLarge => TOO_LARGE.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_errors_are_said_in_words_and_are_the_environments_fault() {
        for (errno, words) in [(28, DISK_FULL), (122, QUOTA), (30, READ_ONLY), (13, DENIED), (27, TOO_LARGE)] {
            let why = io::Error::from_raw_os_error(errno);
            let e = RealiseError::Disk { action: "create", path: "/store".into(), why };
            assert_eq!(e.to_string(), format!("cannot create /store: {words}"));
            assert!(e.is_environment());
        }
    }
}
