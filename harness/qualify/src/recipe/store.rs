//! The store: one directory per resolved recipe, made whole or not at all.

use super::installer::Installer;
use super::owner::{Conflict, Owners};
use super::package::{self, Format};
use super::{Lock, Prefix, Progress, RealiseError, Recipe, Resolved, fetch};
use camino::{Utf8Path, Utf8PathBuf};
use etcetera::BaseStrategy as _;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

/// The recipe of uv itself.
const UV_RECIPE: &str = "tool-uv";

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
        let wheels = resolved.artifacts.iter().any(|a| Format::of(&a.filename) == Ok(Format::Wheel));
        let installer = if wheels { Some(self.installer(resolved, options, progress)?) } else { None };
        let label = installer
            .as_ref()
            .map_or_else(|| concat!("ort-qualify ", env!("CARGO_PKG_VERSION")).to_owned(), Installer::label);
        let build = self.build_dir(resolved)?;
        let dir = Utf8Path::from_path(build.path()).ok_or_else(|| RealiseError::NoPlace("not UTF-8".to_owned()))?;
        let size = indicatif::BinaryBytes(resolved.total_bytes());
        let bar = progress.spinner(format!("fetching {} ({size}) with {label}", resolved.labels()));
        let outcome = self.install(installer.as_ref(), resolved, options, dir);
        bar.finish_and_clear();
        Prefix::write(dir, resolved, label, &outcome?, progress)?;
        self.put_in_place(dir, &self.entry(resolved))?;
        fetch::forget(&self.dir.join(FETCHED), &resolved.artifacts);
        Ok(())
    }

    /// Wheels first, then the packages; tells which brought what.
    fn install(
        &self,
        installer: Option<&Installer>,
        resolved: &Resolved,
        options: &Options,
        dir: &Utf8Path,
    ) -> Result<Owners, RealiseError> {
        let (recipe, tree) = (&resolved.recipe.name, Prefix::tree_of(dir));
        // Before the wheels: what is missing is told before much is fetched, and what was fetched is kept.
        let mut packages = Vec::new();
        for pinned in &resolved.artifacts {
            let refuse = |problem| RealiseError::Package {
                recipe: recipe.clone(),
                artifact: format!("{} {}", pinned.name, pinned.version),
                filename: pinned.filename.clone(),
                problem,
            };
            if Format::of(&pinned.filename).map_err(refuse)? != Format::Wheel {
                packages.push((pinned, fetch::fetch(options, recipe, pinned, &self.dir.join(FETCHED))?));
            }
        }
        if let Some(installer) = installer {
            installer.install(options, resolved, &tree, dir)?;
            tidy(dir, &tree)?;
        }
        let owners = Owners::of_wheels(&tree, Utf8Path::new("")).map_err(|why| RealiseError::Disk {
            action: "read the lists of files in",
            path: tree.clone(),
            why,
        })?;
        let mut owners = owners.map_err(|Conflict { path, first, second }| RealiseError::Conflict {
            recipe: recipe.clone(),
            first,
            second,
            path,
        })?;
        for (pinned, file) in packages {
            package::install(recipe, pinned, &file, &dir.join("package"), &tree, &mut owners)?;
        }
        Ok(owners)
    }

    /// uv of the machine, uv of the store, or pip to fetch the latter.
    fn installer(
        &self,
        resolved: &Resolved,
        options: &Options,
        progress: &Progress,
    ) -> Result<Installer, RealiseError> {
        let no_uv = match Installer::uv(options) {
            Ok(uv) => return Ok(uv),
            Err(why) => why,
        };
        let none = |pip: String| RealiseError::NoInstaller { recipe: resolved.recipe.name.clone(), uv: no_uv, pip };
        let offline = |reason: &str| RealiseError::Offline {
            recipe: resolved.recipe.name.clone(),
            store: self.dir.clone(),
            reason: reason.to_owned(),
        };
        if resolved.recipe.name == UV_RECIPE {
            if options.offline {
                return Err(offline("pip cannot be kept from the network"));
            }
            return Installer::pip(options).map_err(none);
        }
        let uv = Recipe::load(&options.root, UV_RECIPE)?.resolve(&Lock::load(&options.root)?)?;
        let prefix = match self.find(&uv)? {
            Some(prefix) => prefix,
            None if options.offline => return Err(offline("there is no usable uv on the machine or in the store")),
            None => {
                // Asked for here, so that the message is about the recipe that is wanted.
                if let Err(pip) = Installer::pip(options) {
                    return Err(none(pip));
                }
                self.realise(&uv, &Options { repair: false, ..options.clone() }, progress)?
            }
        };
        // It is about to be run.
        prefix.verify(progress)?;
        Installer::fetched(options, &prefix.tool()?).map_err(none)
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

/// Leaves only the installed files: not the list that the installer read, nor uv's lock file.
fn tidy(dir: &Utf8Path, tree: &Utf8Path) -> Result<(), RealiseError> {
    for path in [dir.join("requirements.txt"), tree.join(".lock")] {
        match fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                return Err(RealiseError::Disk { action: "remove", path, why });
            }
            _ => {}
        }
    }
    Ok(())
}
