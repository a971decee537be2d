//! How an entry of the store comes to be: wheels by uv, packages unpacked here, Python environments by the pinned uv.

use super::installer::Installer;
use super::owner::{Conflict, Owners};
use super::package::{self, Format};
use super::prefix::Made;
use super::python::{self, Python, Uv};
use super::{Lock, Options, Pinned, Prefix, Progress, RealiseError, Recipe, Resolved, Store, fetch};
use camino::{Utf8Path, Utf8PathBuf};
use std::fs;
use std::io;

/// The recipe of uv itself.
const UV_RECIPE: &str = "tool-uv";

/// What is to be done for an entry, and by what: decided, and its programs fetched, before anything is installed.
pub(super) struct Plan<'a> {
    store: &'a Store,
    resolved: &'a Resolved,
    options: &'a Options,
    means: Means<'a>,
}

/// What installs.
enum Means<'a> {
    /// Nothing but this program: there are no wheels.
    Own,
    /// uv, or pip for uv itself.
    Wheels(Installer),
    /// The pinned uv, for an environment.
    Environment(&'a Python, Installer, Utf8PathBuf),
}

impl<'a> Plan<'a> {
    /// Finds what installs the recipe, fetching it where the machine has none; and the image of a container.
    pub fn new(
        store: &'a Store,
        resolved: &'a Resolved,
        options: &'a Options,
        progress: &Progress,
    ) -> Result<Self, RealiseError> {
        let recipe = &resolved.recipe.name;
        if let Some(container) = &resolved.recipe.container {
            container.verify(recipe, options)?;
        }
        let has_wheels = resolved.artifacts.iter().any(|a| Format::of(&a.filename) == Ok(Format::Wheel));
        let means = match &resolved.recipe.python {
            Some(python) => {
                // Asked for first, so that what is missing is told of the recipe that is wanted.
                installer(store, recipe, options, progress)?;
                let (uv, program) = pinned_uv(store, recipe, options, progress)?;
                Means::Environment(python, uv, program)
            }
            None if has_wheels => Means::Wheels(installer(store, recipe, options, progress)?),
            None => Means::Own,
        };
        Ok(Self { store, resolved, options, means })
    }

    /// Program and version.
    pub fn label(&self) -> String {
        match &self.means {
            Means::Own => concat!("ort-qualify ", env!("CARGO_PKG_VERSION")).to_owned(),
            Means::Wheels(installer) | Means::Environment(_, installer, _) => installer.label(),
        }
    }

    /// Installs everything below the entry `dir`.
    pub fn carry_out(&self, dir: &Utf8Path) -> Result<Made, RealiseError> {
        let (tree, recipe) = (Prefix::tree_of(dir), &self.resolved.recipe.name);
        // Before the wheels: what is missing is told before much is fetched, and what was fetched is kept.
        let packages = self.packages()?;
        let mut python = None;
        match &self.means {
            Means::Own => {}
            Means::Wheels(installer) => {
                installer.install(self.options, self.resolved, &tree, dir)?;
                remove(&dir.join("requirements.txt"))?;
            }
            Means::Environment(wanted, installer, program) => {
                let uv = Uv { installer, program };
                python = Some(python::make(&uv, self.options, self.resolved, wanted, dir, &tree)?);
            }
        }
        // uv's own.
        remove(&tree.join(".lock"))?;
        let base = self.resolved.recipe.python.as_ref().map(Python::packages_dir).unwrap_or_default();
        let owners = Owners::of_wheels(&tree, &base).map_err(|why| RealiseError::Disk {
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
        Ok(Made { installer: self.label(), owners, python })
    }

    /// Fetches what is no wheel.
    fn packages(&self) -> Result<Vec<(&Pinned, Utf8PathBuf)>, RealiseError> {
        let recipe = &self.resolved.recipe.name;
        let mut packages = Vec::new();
        for pinned in &self.resolved.artifacts {
            let refuse = |problem| RealiseError::Package {
                recipe: recipe.clone(),
                artifact: format!("{} {}", pinned.name, pinned.version),
                filename: pinned.filename.clone(),
                problem,
            };
            if Format::of(&pinned.filename).map_err(refuse)? != Format::Wheel {
                packages.push((pinned, fetch::fetch(self.options, recipe, pinned, &self.store.fetched())?));
            }
        }
        Ok(packages)
    }
}

/// What installs a recipe: uv of the machine, uv of the store, or pip to fetch the latter.
pub(super) fn installer(
    store: &Store,
    recipe: &str,
    options: &Options,
    progress: &Progress,
) -> Result<Installer, RealiseError> {
    let no_uv = match Installer::uv(options) {
        Ok(uv) => return Ok(uv),
        Err(why) => why,
    };
    let none = |pip: String| RealiseError::NoInstaller { recipe: recipe.to_owned(), uv: no_uv, pip };
    let offline = |reason: &str| RealiseError::Offline {
        recipe: recipe.to_owned(),
        store: store.dir().to_owned(),
        reason: reason.to_owned(),
    };
    if recipe == UV_RECIPE {
        if options.offline {
            return Err(offline("pip cannot be kept from the network"));
        }
        return Installer::pip(options).map_err(none);
    }
    if store.find(&uv_recipe(options)?)?.is_none() {
        if options.offline {
            return Err(offline("there is no usable uv on the machine or in the store"));
        }
        // Asked for here, so that the message is about the recipe that is wanted.
        if let Err(pip) = Installer::pip(options) {
            return Err(none(pip));
        }
    }
    pinned_uv(store, recipe, options, progress).map(|(uv, _)| uv)
}

fn uv_recipe(options: &Options) -> Result<Resolved, RealiseError> {
    Ok(Recipe::load(&options.root, UV_RECIPE)?.resolve(&Lock::load(&options.root)?)?)
}

/// The uv of the store, fetched if it is not there, and where it is.
fn pinned_uv(
    store: &Store,
    recipe: &str,
    options: &Options,
    progress: &Progress,
) -> Result<(Installer, Utf8PathBuf), RealiseError> {
    let prefix = store.realise(&uv_recipe(options)?, &Options { repair: false, ..options.clone() }, progress)?;
    // It is about to be run.
    prefix.verify(progress)?;
    let program = prefix.tool()?;
    let uv = Installer::fetched(options, &program).map_err(|uv| RealiseError::NoInstaller {
        recipe: recipe.to_owned(),
        uv,
        pip: "not asked".to_owned(),
    })?;
    Ok((uv, program))
}

/// Removes a file that need not be there.
fn remove(path: &Utf8Path) -> Result<(), RealiseError> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Err(RealiseError::Disk { action: "remove", path: path.to_owned(), why })
        }
        _ => Ok(()),
    }
}
