//! The doctor: could this machine load the libraries of a prefix? Reads files; loads nothing, proposes no change of a driver.

use super::elf::Library;
use super::{Prefix, accelerator};
use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where the loader looks by itself on the distributions that the wheels are built for.
const SYSTEM: [&str; 6] =
    ["/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib", "/usr/lib"];

/// What the libraries of a prefix need beyond themselves.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The recipe.
    pub recipe: String,
    /// Libraries that the machine gives, with the file.
    pub from_host: BTreeMap<String, Utf8PathBuf>,
    /// Symbol versions that libraries of the prefix need and the machine's own copy lacks, with the artifact that supplies
    /// them, one sentence each.
    pub supplied: Vec<String>,
    /// What is missing, one sentence each: empty where all could be loaded.
    pub missing: Vec<String>,
    /// The accelerator that is wanted, in words; none for recipes that need none.
    pub device: Option<String>,
}

impl Prefix {
    /// Holds what every shared library needs against what the prefix and this machine offer. `search` are further
    /// directories of the machine, as in `LD_LIBRARY_PATH`.
    pub fn diagnose(&self, search: &[Utf8PathBuf]) -> Diagnosis {
        let mut own: HashMap<String, Library> = HashMap::new();
        let mut brought_by: HashMap<&str, &str> = HashMap::new();
        for file in self.files.iter().filter(|f| !self.is_of_another_provider(&f.path)) {
            let path = self.tree().join(&file.path);
            if let (Some(name), Some(library)) = (file.path.file_name(), Library::read(&path)) {
                own.insert(name.to_owned(), library);
                brought_by.extend(file.artifact.as_deref().map(|artifact| (name, artifact)));
            }
        }
        let mut host = Host { search, found: HashMap::new() };
        let mut from_host = BTreeMap::new();
        let mut absent: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let mut too_old: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
        let mut supplied: BTreeMap<(String, String), String> = BTreeMap::new();
        for (user, library) in &own {
            for needed in library.needed.iter().filter(|n| !own.contains_key(*n)) {
                match host.find(needed) {
                    Some((path, _)) => _ = from_host.insert(needed.clone(), path.clone()),
                    None => _ = absent.entry(needed.clone()).or_default().insert(user),
                }
            }
            for (file, versions) in &library.versions_needed {
                if let (Some(ours), Some((path, theirs))) = (own.get(file), host.find(file)) {
                    let by = brought_by.get(file.as_str()).copied().unwrap_or("the prefix");
                    for version in versions.difference(&theirs.versions_offered) {
                        if ours.versions_offered.contains(version) {
                            let text = format!("{file} with {version}: {by} supplies it, and {path} does not");
                            supplied.insert((file.clone(), version.clone()), text);
                        }
                    }
                }
                let Some(offered) = own.get(file).or_else(|| host.find(file).map(|(_, l)| l)) else { continue };
                for version in versions.difference(&offered.versions_offered) {
                    too_old.entry((file.clone(), version.clone())).or_default().insert(user);
                }
            }
        }
        let users = |users: &BTreeSet<&str>| users.iter().copied().collect::<Vec<_>>().join(", ");
        let absent = absent.iter().map(|(name, by)| {
            let native = native(name).map_or_else(String::new, |what| format!("; it is {what}"));
            format!("{name}: needed by {}, and neither the prefix nor this machine has it{native}", users(by))
        });
        let too_old = too_old.iter().map(|((file, version), by)| {
            let whose = from_host.get(file).map_or_else(|| "the prefix's own".to_owned(), ToString::to_string);
            format!("{file} with {version}: needed by {}, and {whose} does not have that version", users(by))
        });
        let missing = absent.chain(too_old).collect();
        let device = self.resolved.recipe.host.as_ref().and_then(|h| h.device).map(accelerator::describe);
        let supplied = supplied.into_values().collect();
        Diagnosis { recipe: self.recipe().to_owned(), from_host, supplied, missing, device }
    }
}

impl Prefix {
    /// Is it ONNX Runtime's library of a provider that the recipe does not ask for? Such are never loaded, whatever they need.
    fn is_of_another_provider(&self, path: &Utf8Path) -> bool {
        let Some(provider) = &self.resolved.recipe.provider else { return false };
        let name = path.file_name().and_then(|n| n.strip_prefix("libonnxruntime_providers_")).unwrap_or_default();
        name.strip_suffix(".so").is_some_and(|name| name != "shared" && name != provider.name)
    }
}

/// What a provider expects of the machine, by the beginning of the library's name.
fn native(library: &str) -> Option<&'static str> {
    const CUDA: [&str; 8] =
        ["libcublas", "libcudart", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvrtc", "libnvJitLink"];
    let is = |beginning: &&str| library.starts_with(*beginning);
    match library {
        _ if is(&"libmigraphx") => Some(
            "AMD's MIGraphX, a native prerequisite of the provider that comes with ROCm or as AMD's migraphx-libs wheel",
        ),
        _ if is(&"libcudnn") => Some("NVIDIA's cuDNN, a native prerequisite of the provider"),
        _ if is(&"libcuda.so") => Some("part of NVIDIA's driver"),
        _ if CUDA.iter().any(is) => Some("part of NVIDIA's CUDA, a native prerequisite of the provider"),
        _ => None,
    }
}

/// Libraries of the machine, read once each.
struct Host<'a> {
    search: &'a [Utf8PathBuf],
    found: HashMap<String, Option<(Utf8PathBuf, Library)>>,
}

impl Host<'_> {
    fn find(&mut self, name: &str) -> Option<&(Utf8PathBuf, Library)> {
        let search = self.search;
        let look = || {
            let folders = search.iter().map(Utf8PathBuf::as_path).chain(SYSTEM.iter().map(|f| Utf8Path::new(*f)));
            folders.map(|f| f.join(name)).find_map(|path| Library::read(&path).map(|library| (path, library)))
        };
        self.found.entry(name.to_owned()).or_insert_with(look).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn the_c_library_of_this_machine_offers_versions_and_this_program_needs_some() {
        let mut host = Host { search: &[], found: HashMap::new() };
        let (_, libc) = host.find("libc.so.6").expect("a machine with glibc has it where the loader looks");
        assert!(libc.versions_offered.contains("GLIBC_2.2.5") && !libc.versions_offered.contains("GLIBC_9.9"));
        let program = std::env::current_exe().unwrap();
        let own = Library::read(Utf8Path::from_path(&program).unwrap()).unwrap();
        assert!(own.needed.iter().any(|n| n == "libc.so.6"), "{own:?}");
        assert!(own.versions_needed["libc.so.6"].iter().all(|v| libc.versions_offered.contains(v)));
    }
}
