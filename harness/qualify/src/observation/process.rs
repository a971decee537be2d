//! What is in this process and under it: shared libraries, variables, the machine.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Beginnings of variables that change what a library computes, or which library it is.
const TELLING: [&str; 20] = [
    "CUBLAS",
    "CUDA_",
    "CUDNN_",
    "GOMP_",
    "HIPBLASLT_",
    "HIP_",
    "HSA_",
    "KMP_",
    "LD_",
    "MIGRAPHX_",
    "MIOPEN_",
    "MKL_",
    "NVIDIA_",
    "OMP_",
    "OPENVINO_",
    "ORT_",
    "ROCBLAS_",
    "ROCM_",
    "ROCR_",
    "VK_",
];

/// Of these what only says where things are or what a container may see: it changes no number.
const TELLING_NOTHING: [&str; 7] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VERSION",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_PRODUCT_NAME",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_VISIBLE_DEVICES",
];

/// It stays the same while a process lives, and takes milliseconds to find out.
static MACHINE: OnceLock<Machine> = OnceLock::new();

/// A process and what it runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Files of shared libraries that are mapped, sorted.
    pub libraries: Vec<Utf8PathBuf>,
    /// Variables that change what a library computes, or which library it is, as they were when the process started.
    pub variables: BTreeMap<String, String>,
    /// The machine.
    pub machine: Machine,
}

/// A machine, as far as numbers and speed depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `Linux 6.1.0`.
    pub kernel: String,
    /// The C library in use.
    pub glibc: Option<String>,
    /// The processor's name.
    pub cpu: String,
    /// Of its vector extensions those that kernels are chosen by.
    pub cpu_flags: Vec<String>,
    /// NVIDIA's kernel driver, where there is one.
    pub nvidia_driver: Option<String>,
    /// Devices of accelerators by their kernel names (`nvidia0`, `renderD128`).
    pub devices: Vec<String>,
    /// What those are, as their drivers say (`NVIDIA H200`, `gfx1100`).
    #[serde(default)]
    pub accelerators: Vec<String>,
}

impl Process {
    /// This process, now, with the variables that it started with: libraries set some of their own.
    pub fn observe(variables: &BTreeMap<String, String>) -> Self {
        Self {
            libraries: libraries(&read("/proc/self/maps")),
            variables: variables.clone(),
            machine: MACHINE.get_or_init(Machine::observe).clone(),
        }
    }

    /// Of this process's variables those that change what a library computes, or which library it is.
    pub fn variables() -> BTreeMap<String, String> {
        let telling = |name: &str| TELLING.iter().any(|beginning| name.starts_with(beginning));
        let variables = std::env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
        let kept = |name: &str| telling(name) && !TELLING_NOTHING.contains(&name) && !name.starts_with("ORT_QUALIFY_");
        let own = variables.filter(|(name, _)| kept(name)).map(|(name, value)| {
            let value = if name == "LD_LIBRARY_PATH" { without_cargos(&value) } else { value };
            (name, value)
        });
        own.filter(|(_, value)| !value.is_empty()).collect()
    }
}

impl Machine {
    fn observe() -> Self {
        let cpu = read("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpu.lines().find(|line| line.split(':').next().is_some_and(|n| n.trim() == name));
            line.and_then(|l| Some(l.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
        };
        let wanted = |flag: &&str| ["avx", "fma", "f16c", "sse4", "amx", "vnni"].iter().any(|w| flag.starts_with(w));
        let flags: BTreeSet<String> = field("flags").split_whitespace().filter(wanted).map(str::to_owned).collect();
        Self {
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            glibc: crate::recipe::glibc().map(|(major, minor)| format!("{major}.{minor}")),
            cpu: field("model name"),
            cpu_flags: flags.into_iter().collect(),
            nvidia_driver: driver(&read("/proc/driver/nvidia/version")),
            devices: devices(),
            accelerators: crate::recipe::devices(),
        }
    }
}

/// `cargo run` adds its build folders and the toolchain's libraries, which hold nothing that a provider loads.
fn without_cargos(path: &str) -> String {
    let cargos = |folder: &str| {
        let folder = folder.trim_end_matches('/');
        let folder = folder.strip_suffix("/deps").unwrap_or(folder);
        // What build scripts made: `release/build/NAME-HASH/out`.
        let made =
            folder.strip_suffix("/out").and_then(|f| f.rsplit_once('/')).and_then(|(f, _)| f.strip_suffix("/build"));
        let folder = made.unwrap_or(folder);
        folder.ends_with("/target/release")
            || folder.ends_with("/target/debug")
            || folder.contains("/.rustup/toolchains/")
    };
    path.split(':').filter(|folder| !cargos(folder)).collect::<Vec<_>>().join(":")
}

/// An unreadable file is an empty one: not every machine has each.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Files of shared libraries in the text of a `maps` file.
fn libraries(maps: &str) -> Vec<Utf8PathBuf> {
    let mapped = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let shared = mapped.filter(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.split('.').skip(1).any(|part| part == "so")
    });
    shared.map(Utf8PathBuf::from).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  ...`.
fn driver(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    line.split_whitespace()
        .find(|word| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        .map(str::to_owned)
}

fn devices() -> Vec<String> {
    let names = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names("/dev").chain(names("/dev/dri")).filter_map(|entry| entry.file_name().into_string().ok());
    let numbered = |name: &str, stem: &str| {
        name.strip_prefix(stem).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut devices: Vec<String> =
        names.filter(|n| n == "kfd" || numbered(n, "nvidia") || numbered(n, "renderD")).collect();
    devices.sort();
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_files_once_each_and_nothing_else_is() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libc.so.6\n7f01-7f02 r--p 00000000 08:01 1 /usr/lib/libc.so.6\n\
                    7f02-7f03 rw-p 00000000 00:00 0 [heap]\n7f03-7f04 r--p 0 08:01 2 /opt/a b/libx.so\n\
                    7f04-7f05 r--p 0 08:01 3 /data/model.onnx\n";
        assert_eq!(libraries(maps), ["/opt/a b/libx.so", "/usr/lib/libc.so.6"]);
    }

    #[test]
    fn the_drivers_version_is_the_one_of_the_kernel_module() {
        // As read on a machine with an NVIDIA H200.
        let text =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC version: 12.2\n";
        assert_eq!(driver(text).as_deref(), Some("580.159.04"));
        assert_eq!(driver(""), None);
    }

    #[test]
    fn what_cargo_adds_to_the_search_path_is_left_out_and_the_callers_own_is_not() {
        let path = "/p/target/release:/p/target/debug/deps:/h/.rustup/toolchains/x/lib:/opt/rocm/lib";
        assert_eq!(without_cargos(path), "/opt/rocm/lib");
        assert_eq!(without_cargos("/p/target/release/deps:/p/target/release/build/alloca-d237e7a829970afd/out"), "");
        assert_eq!(without_cargos("/p/build/x/out"), "/p/build/x/out", "somebody else's build");
    }

    #[test]
    fn this_process_has_a_c_library_and_a_processor() {
        let seen = Process::observe(&Process::variables());
        assert!(seen.libraries.iter().any(|l| l.as_str().contains("libc.so")), "{seen:?}");
        assert!(!seen.machine.cpu.is_empty() && seen.machine.kernel.starts_with("Linux "), "{seen:?}");
    }
}
