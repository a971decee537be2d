//! The store: one directory per resolved recipe, made whole or not at all.

use super::make::Plan;
use super::{Prefix, Progress, RealiseError, Resolved, fetch};
use camino::{Utf8Path, Utf8PathBuf};
use etcetera::BaseStrategy as _;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

/// Names in the store besides the entries. An entry under way is `.build-ENTRY.RANDOM`; `.lock-ENTRY` is held meanwhile.
const BUILD: &str = ".build-";
const LOCK: &str = ".lock-";

/// The folder of the store that keeps fetched packages until their entry is in place.
const FETCHED: &str = ".fetched";

/// Stores that are searched first and never written, as a `:`-separated list: what a Nix shell brings along.
const PREFIXES: &str = "ORT_QUALIFY_PREFIXES";

/// A directory of prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    dir: Utf8PathBuf,
    /// Stores that are searched first and never written.
    ready_made: Vec<Utf8PathBuf>,
}

/// How to realise.
#[derive(Clone, Debug)]
pub struct Options {
    /// The project's root: uv's own pins are read there, where the machine has no uv.
    pub root: Utf8PathBuf,
    /// Fetch nothing; what uv has in its cache may still be installed.
    pub offline: bool,
    /// Make the entry anew even if it is there.
    pub repair: bool,
    /// The uv to use, instead of the first on the search path.
    pub uv: Option<Utf8PathBuf>,
    /// Where uv and python3 are looked for, instead of `PATH`.
    pub search_path: Option<OsString>,
    /// The mirror of Debian, an address or a folder, instead of this machine's apt.
    pub debian_mirror: Option<String>,
    /// Variables for uv and pip, on top of this process's environment.
    pub tool_env: BTreeMap<String, String>,
}

impl Options {
    /// For the project at `root`: the uv that `ORT_QUALIFY_UV` names, or what the search path has; and the mirror of Debian
    /// that `ORT_QUALIFY_DEBIAN_MIRROR` names, or apt.
    pub fn new(root: &Utf8Path) -> Self {
        let named = |variable: &str| std::env::var(variable).ok().filter(|text| !text.is_empty());
        Self {
            root: root.to_owned(),
            offline: false,
            repair: false,
            uv: named("ORT_QUALIFY_UV").map(Utf8PathBuf::from),
            search_path: None,
            debian_mirror: named(fetch::MIRROR),
            tool_env: BTreeMap::new(),
        }
    }
}

impl Store {
    /// The store at `option`, else at `ORT_QUALIFY_STORE`, else below the user's cache directory. It need not exist.
    pub fn locate(option: Option<&Utf8Path>) -> Result<Self, RealiseError> {
        let named = option
            .map(Utf8Path::to_owned)
            .or_else(|| std::env::var("ORT_QUALIFY_STORE").ok().filter(|text| !text.is_empty()).map(Utf8PathBuf::from));
        let dir = if let Some(dir) = named {
            dir
        } else {
            let base = etcetera::choose_base_strategy().map_err(|e| RealiseError::NoPlace(e.to_string()))?;
            Utf8PathBuf::from_path_buf(base.cache_dir().join("ort-qualify/store"))
                .map_err(|path| RealiseError::NoPlace(format!("{} is not UTF-8", path.display())))?
        };
        // Absolute: workers are started elsewhere.
        let dir = camino::absolute_utf8(&dir).map_err(|e| RealiseError::NoPlace(e.to_string()))?;
        let ready_made = std::env::var(PREFIXES).unwrap_or_default();
        let ready_made = ready_made.split(':').filter(|part| !part.is_empty()).map(Utf8PathBuf::from).collect();
        Ok(Self { dir, ready_made })
    }

    /// The store's directory.
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// Where the recipe's entry is or would be.
    pub fn entry(&self, resolved: &Resolved) -> Utf8PathBuf {
        self.dir.join(resolved.entry_name())
    }

    /// The recipe's prefix, if it is in the store. Its files are not looked at: see [`Prefix::verify`].
    pub fn find(&self, resolved: &Resolved) -> Result<Option<Prefix>, RealiseError> {
        for store in &self.ready_made {
            if let Some(prefix) = Prefix::read(store.join(resolved.entry_name()), resolved)? {
                return Ok(Some(prefix));
            }
        }
        Prefix::read(self.entry(resolved), resolved)
    }

    /// The recipe's prefix, fetched and installed if it is not in the store yet. Nothing is written if it is, so a store
    /// that is read-only will do. Of several processes that want the same one, the first makes it and the others wait.
    pub fn realise(&self, resolved: &Resolved, options: &Options, progress: &Progress) -> Result<Prefix, RealiseError> {
        // An accelerator need not be there to fetch what runs on it.
        resolved.recipe.check_platform()?;
        if !options.repair
            && let Some(prefix) = self.find(resolved)?
        {
            return Ok(prefix);
        }
        fs::create_dir_all(&self.dir).map_err(|why| RealiseError::Disk {
            action: "create",
            path: self.dir.clone(),
            why,
        })?;
        let _held = self.hold(resolved, progress)?;
        if !options.repair
            && let Some(prefix) = self.find(resolved)?
        {
            return Ok(prefix);
        }
        self.sweep(&resolved.entry_name());
        self.make(resolved, options, progress)?;
        self.find(resolved)?.ok_or_else(|| RealiseError::Disk {
            action: "find the entry just made",
            path: self.entry(resolved),
            why: io::ErrorKind::NotFound.into(),
        })
    }

    /// Installs into a directory beside the entry and renames it into place.
    fn make(&self, resolved: &Resolved, options: &Options, progress: &Progress) -> Result<(), RealiseError> {
        let plan = Plan::new(self, resolved, options, progress)?;
        let build = self.build_dir(resolved)?;
        let dir = Utf8Path::from_path(build.path()).ok_or_else(|| RealiseError::NoPlace("not UTF-8".to_owned()))?;
        let size = indicatif::BinaryBytes(resolved.total_bytes());
        let bar = progress.spinner(format!("fetching {} ({size}) with {}", resolved.labels(), plan.label()));
        let made = plan.carry_out(dir);
        bar.finish_and_clear();
        Prefix::write(dir, resolved, made?, progress)?;
        self.put_in_place(dir, &self.entry(resolved))?;
        fetch::forget(&self.fetched(), &resolved.artifacts);
        Ok(())
    }

    /// The folder that keeps fetched packages until their entry is in place.
    pub(super) fn fetched(&self) -> Utf8PathBuf {
        self.dir.join(FETCHED)
    }

    fn build_dir(&self, resolved: &Resolved) -> Result<tempfile::TempDir, RealiseError> {
        tempfile::Builder::new()
            .prefix(&format!("{BUILD}{}.", resolved.entry_name()))
            // As a plain `mkdir` would make it: a store may be shared.
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir_in(&self.dir)
            .map_err(|why| RealiseError::Disk { action: "create a directory in", path: self.dir.clone(), why })
    }

    /// The rename that makes an entry exist. An old one (on repair) is first set aside as a build, and so is swept sooner
    /// or later whatever happens here.
    fn put_in_place(&self, dir: &Utf8Path, entry: &Utf8Path) -> Result<(), RealiseError> {
        let fail = |why| RealiseError::Disk { action: "put in place", path: entry.to_owned(), why };
        let name = entry.file_name().unwrap_or_default();
        let aside = self.dir.join(format!("{BUILD}{name}.replaced"));
        match fs::rename(entry, &aside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        fs::rename(dir, entry).map_err(fail)?;
        // The rename itself should survive a power cut; that the files did, `verify` finds out.
        File::open(&self.dir).and_then(|store| store.sync_all()).map_err(fail)?;
        self.sweep(name);
        Ok(())
    }

    /// Takes the entry's lock, waiting for whoever is making it. It is given back when the file is closed, by a killed
    /// process too.
    fn hold(&self, resolved: &Resolved, progress: &Progress) -> Result<File, RealiseError> {
        let path = self.dir.join(format!("{LOCK}{}", resolved.entry_name()));
        let fail = |why| RealiseError::Disk { action: "lock", path: path.clone(), why };
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(e)) => return Err(fail(e)),
            Err(TryLockError::WouldBlock) => {
                let bar =
                    progress.spinner(format!("waiting for another process to realise `{}`", resolved.recipe.name));
                let locked = file.lock();
                bar.finish_and_clear();
                locked.map_err(fail)?;
            }
        }
        Ok(file)
    }

    /// Removes what killed builds left behind: those of `own`, whose lock is held here, and those whose lock nobody
    /// holds. What cannot be removed is left for the next time; it is in nobody's way.
    fn sweep(&self, own: &str) {
        let Ok(entries) = self.dir.read_dir_utf8() else { return };
        for left in entries.flatten() {
            let Some(name) = left.file_name().strip_prefix(BUILD).and_then(|n| n.rsplit_once('.')).map(|(n, _)| n)
            else {
                continue;
            };
            let lock = File::options().write(true).open(self.dir.join(format!("{LOCK}{name}")));
            if name == own || lock.is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_dir_all(left.path());
            }
        }
    }
}
