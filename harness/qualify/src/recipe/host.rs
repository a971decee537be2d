//! Can this machine hold the recipe at all? Asked before anything is fetched.

use super::Recipe;
use std::fs;

/// Why a recipe cannot exist on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostMismatch {
    /// Another processor or system.
    #[error("recipe `{recipe}` is for {wanted}, and this machine is {found}")]
    Platform {
        /// Which recipe.
        recipe: String,
        /// What it is for.
        wanted: String,
        /// What this is.
        found: String,
    },
    /// No accelerator of the kind that is needed.
    #[error("recipe `{recipe}` needs an accelerator, and this machine shows none: there is no {sign}")]
    Device {
        /// Which recipe.
        recipe: String,
        /// The file that its kernel driver would show.
        sign: &'static str,
    },
    /// A C library older than the recipe's libraries need.
    #[error("recipe `{recipe}` needs glibc {wanted} or newer (symbols of GLIBC_{wanted}), and this machine has {}.{}", found.0, found.1)]
    Glibc {
        /// Which recipe.
        recipe: String,
        /// Oldest version that does.
        wanted: String,
        /// Version in use here.
        found: (u32, u32),
    },
}

impl Recipe {
    /// Refuses a recipe that cannot run here: another platform, a newer glibc, an accelerator that is not there.
    pub fn check_host(&self) -> Result<(), HostMismatch> {
        self.check_platform()?;
        match self.host.as_ref().and_then(|h| h.device).map(super::Device::sign) {
            Some(sign) if !std::path::Path::new(sign).exists() => {
                Err(HostMismatch::Device { recipe: self.name.clone(), sign })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a recipe whose libraries could not be loaded here: another platform, or a newer glibc. Where this process
    /// has no glibc that could be asked (a static binary), its version is left to the loader to judge.
    pub fn check_platform(&self) -> Result<(), HostMismatch> {
        self.check_against(&format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS), glibc())
    }

    fn check_against(&self, platform: &str, glibc: Option<(u32, u32)>) -> Result<(), HostMismatch> {
        let recipe = self.name.clone();
        if self.platform != platform {
            let (wanted, found) = (self.platform.clone(), platform.to_owned());
            return Err(HostMismatch::Platform { recipe, wanted, found });
        }
        let wanted = self.host.as_ref().and_then(|h| h.glibc.as_ref());
        match (wanted, wanted.and_then(|w| version(w)), glibc) {
            (Some(wanted), Some(least), Some(found)) if found < least => {
                Err(HostMismatch::Glibc { recipe, wanted: wanted.clone(), found })
            }
            _ => Ok(()),
        }
    }
}

/// The version of the glibc that this process (and so its workers) runs on, read from the very library that is mapped:
/// no program to ask, and no chance to ask another one than the one in use.
pub fn glibc() -> Option<(u32, u32)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let library =
        maps.lines().filter_map(|line| line.split_once('/')).find(|(_, path)| path.ends_with("/libc.so.6"))?.1;
    banner_version(&fs::read(format!("/{library}")).ok()?)
}

/// glibc carries "GNU C Library (...) stable release version 2.36." (or "development release").
fn banner_version(library: &[u8]) -> Option<(u32, u32)> {
    const BEFORE: &[u8] = b" release version ";
    let at = library.windows(BEFORE.len()).position(|w| w == BEFORE)? + BEFORE.len();
    let text: String =
        library[at..].iter().map_while(|b| b"0123456789.".contains(b).then_some(char::from(*b))).collect();
    version(text.trim_end_matches('.'))
}

/// `MAJOR.MINOR`, anything behind a further dot ignored.
pub(super) fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8Path;

    #[test]
    fn the_glibc_in_use_is_found_in_its_banner() {
        assert_eq!(banner_version(b"\0GNU C Library (X GLIBC 2.36-9) stable release version 2.36.\n"), Some((2, 36)));
        assert_eq!(banner_version(b"\0musl libc"), None);
        // The tests of this crate are linked against the host's glibc where there is one.
        if cfg!(target_env = "gnu") {
            assert!(glibc().is_some_and(|v| v >= (2, 17)), "{:?}", glibc());
        }
    }

    #[test]
    fn an_older_glibc_and_another_platform_are_refused_with_both_sides_named() {
        let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let recipe = Recipe::load(&root, "cpu").unwrap();
        assert_eq!(recipe.check_against("x86_64-linux", Some((2, 28))), Ok(()));
        assert_eq!(recipe.check_against("x86_64-linux", None), Ok(()));
        let told = recipe.check_against("x86_64-linux", Some((2, 17))).unwrap_err().to_string();
        assert_eq!(told, "recipe `cpu` needs glibc 2.28 or newer (symbols of GLIBC_2.28), and this machine has 2.17");
        let told = recipe.check_against("aarch64-linux", Some((2, 36))).unwrap_err().to_string();
        assert_eq!(told, "recipe `cpu` is for x86_64-linux, and this machine is aarch64-linux");
    }
}
