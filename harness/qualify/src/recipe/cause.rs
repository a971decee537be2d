//! Why uv or pip failed, told from their own words, and what to do about it.

use std::fmt;

pub(super) const DISK_FULL: &str = "the disk is full; make room, or name another store with --store";
pub(super) const QUOTA: &str = "the disk quota is used up; make room, or name another store with --store";
pub(super) const READ_ONLY: &str = "the file system is read-only; name a writable store with --store";
pub(super) const DENIED: &str = "permission denied; name a store that is yours with --store";
pub(super) const TOO_LARGE: &str = "a limit on file sizes (`ulimit -f`) was hit; raise it";

/// What an installer's failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file served is not the file that is pinned.
    Hash,
    /// No connection to the index.
    Network,
    /// The index has no such file, as far as can be told.
    NotServed,
    /// Nothing may be fetched, and the installer's cache does not have it.
    Offline,
    /// uv has no interpreter to install for.
    NoPython,
    /// The disk, or a limit on it: the reason in words.
    Disk(&'static str),
    /// Ended by this signal.
    Signal(i32),
    /// Anything else: its own words must do.
    Other,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash => f.write_str(
                "the file that the index serves does not have the SHA-256 of lock.json, so it was refused. Either the \
                 lock is wrong or the file was replaced: find out which before you change the pin",
            ),
            Self::Network => f.write_str(
                "the package index could not be reached. Check the network and the index that uv and pip are \
                 configured with; what is in the store already works without",
            ),
            Self::NotServed => {
                f.write_str("the package index does not offer this file (or, with retries off, could not be reached)")
            }
            Self::Offline => f.write_str("its cache does not have the file, and --offline forbids fetching it"),
            Self::NoPython => f.write_str(
                "it found no Python interpreter and could not fetch one. Any Python 3 will do (it is not run by the \
                 recipe): install python3, or `uv python install` where there is a network",
            ),
            Self::Disk(reason) => f.write_str(reason),
            Self::Signal(number) => write!(f, "it was ended by signal {number}"),
            Self::Other => f.write_str("see its own words"),
        }
    }
}

impl Cause {
    /// What a signal that ended an installer means.
    pub(super) fn of_signal(signal: i32) -> Self {
        if signal == rustix::process::Signal::XFSZ.as_raw() { Cause::Disk(TOO_LARGE) } else { Cause::Signal(signal) }
    }

    /// What the messages of uv or pip mean. The order matters: a full disk is also a failed request.
    pub(super) fn of_message(said: &str) -> Self {
        const MARKS: [(Cause, &[&str]); 10] = [
            (Cause::Hash, &["Hash mismatch for", "DO NOT MATCH THE HASHES"]),
            (Cause::Disk(DISK_FULL), &["os error 28", "Errno 28", "No space left on device"]),
            (Cause::Disk(QUOTA), &["os error 122", "Errno 122"]),
            (Cause::Disk(READ_ONLY), &["os error 30)", "Errno 30]"]),
            (Cause::Disk(DENIED), &["os error 13)", "Errno 13]"]),
            (Cause::Disk(TOO_LARGE), &["os error 27)", "Errno 27]"]),
            (Cause::NoPython, &["No interpreter found", "python-build-standalone", "No system Python"]),
            (Cause::Offline, &["network was disabled", "network connectivity is disabled"]),
            (
                Cause::Network,
                &[
                    "error sending request",
                    "client error (Connect)",
                    "dns error",
                    "onnection refused",
                    "timed out",
                    "Failed to establish a new connection",
                    "name resolution",
                    "Network is unreachable",
                    "ProxyError",
                    "SSLError",
                ],
            ),
            (
                Cause::NotServed,
                &["No matching distribution", "there is no version of", "not found in the package registry"],
            ),
        ];
        let marked = MARKS.into_iter().find(|(_, marks)| marks.iter().any(|mark| said.contains(mark)));
        marked.map_or(Cause::Other, |(cause, _)| cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_uv_and_pip_are_understood() {
        for (said, expected) in [
            ("  ╰─▶ Hash mismatch for `onnxruntime==1.32.0`", Cause::Hash),
            ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", Cause::Hash),
            ("failed to copy file from /c to /t: No space left on device (os error 28)", Cause::Disk(DISK_FULL)),
            ("error: failed to create directory `/c`: Read-only file system (os error 30)", Cause::Disk(READ_ONLY)),
            ("ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied", Cause::Disk(DENIED)),
            ("  Caused by: client error (Connect)\n  Caused by: dns error", Cause::Network),
            (
                "WARNING: Retrying ... Failed to establish a new connection\nERROR: No matching distribution",
                Cause::Network,
            ),
            ("ERROR: No matching distribution found for uv==0.11.8", Cause::NotServed),
            ("hint: Packages were unavailable because the network was disabled.", Cause::Offline),
            ("Failed to download https://x/python-build-standalone/y\n Caused by: dns error", Cause::NoPython),
            ("error: unexpected argument '--only-binary' found", Cause::Other),
        ] {
            assert_eq!(Cause::of_message(said), expected, "{said}");
        }
        assert_eq!(Cause::of_signal(25), Cause::Disk(TOO_LARGE));
        assert_eq!(Cause::of_signal(9), Cause::Signal(9));
    }
}
