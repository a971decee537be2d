//! What this machine shows of accelerators: devices, drivers and the toolkits beside them. Read, never changed.

use super::Device;
use camino::{Utf8Path, Utf8PathBuf};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use std::fs;

/// Where AMD's kernel driver lists its nodes, processors among them.
const KFD_NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

/// Where NVIDIA's kernel driver lists its devices.
const NVIDIA_DEVICES: &str = "/proc/driver/nvidia/gpus";

/// Devices by the names that their kernel drivers give them, such as `NVIDIA H200` and `gfx1100`, sorted. Loads nothing.
pub fn devices() -> Vec<String> {
    let mut found = gfx_targets(KFD_NODES.into());
    let information = |folder: Utf8PathBuf| fs::read_to_string(folder.join("information")).ok();
    found.extend(
        below(NVIDIA_DEVICES.into()).into_iter().filter_map(information).filter_map(|text| nvidia_model(&text)),
    );
    found.sort();
    found
}

/// What the machine shows of an accelerator of this kind, as a sentence.
pub(super) fn describe(device: Device) -> String {
    if !Utf8Path::new(device.sign()).exists() {
        return format!("missing: there is no {}", device.sign());
    }
    match device {
        Device::Nvidia => nvml().unwrap_or_else(|e| {
            let text = fs::read_to_string(device.sign()).unwrap_or_default();
            let driver = text.lines().next().unwrap_or("NVIDIA's kernel driver is there").to_owned();
            format!("{driver}; NVML, which comes with the driver, says: {e}")
        }),
        Device::Amd => {
            let targets = gfx_targets(KFD_NODES.into()).join(", ");
            let named = std::env::var("ROCM_PATH").ok().filter(|text| !text.is_empty()).map(Utf8PathBuf::from);
            let rocm: Vec<String> = named.into_iter().chain(installed_rocm()).map(|dir| rocm(&dir)).collect();
            format!("AMD: {}; ROCm of the system: {}", or_none(&targets), or_none(&rocm.join(", ")))
        }
    }
}

/// Driver and devices as NVIDIA's management library gives them.
fn nvml() -> Result<String, NvmlError> {
    let nvml = Nvml::init()?;
    let (driver, cuda) = (nvml.sys_driver_version()?, nvml.sys_cuda_driver_version()?);
    let device = |index| -> Result<String, NvmlError> {
        let device = nvml.device_by_index(index)?;
        let capability = device.cuda_compute_capability()?;
        let (name, mib) = (device.name()?, device.memory_info()?.total >> 20);
        Ok(format!("{name} ({mib} MiB, compute capability {}.{})", capability.major, capability.minor))
    };
    let devices = (0..nvml.device_count()?).map(device).collect::<Result<Vec<_>, _>>()?;
    // The driver's CUDA version is 1000 * major + 10 * minor.
    let (major, minor) = (cuda / 1000, cuda % 1000 / 10);
    Ok(format!("NVIDIA driver {driver} for CUDA {major}.{minor}: {}", or_none(&devices.join(", "))))
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// The `Model:` of a device's `information`.
fn nvidia_model(information: &str) -> Option<String> {
    let line = information.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(line.trim().to_owned()).filter(|name| !name.is_empty())
}

/// `gfx1100` for `gfx_target_version 110000`; processors have 0 and are left out.
fn gfx_targets(nodes: &Utf8Path) -> Vec<String> {
    let texts = below(nodes).into_iter().filter_map(|node| fs::read_to_string(node.join("properties")).ok());
    let mut targets: Vec<String> = texts.filter_map(|text| gfx_target(&text)).collect();
    targets.sort();
    targets
}

/// The number is major * 10000 + minor * 100 + stepping; the name has the latter two in hexadecimal.
fn gfx_target(properties: &str) -> Option<String> {
    let line = properties.lines().find_map(|l| l.strip_prefix("gfx_target_version "))?;
    let version: u32 = line.trim().parse().ok().filter(|v| *v > 0)?;
    Some(format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100))
}

/// `/opt/rocm*`.
fn installed_rocm() -> Vec<Utf8PathBuf> {
    below("/opt".into())
        .into_iter()
        .filter(|dir| dir.file_name().is_some_and(|name| name.starts_with("rocm")))
        .collect()
}

/// A folder of AMD's `ROCm` with its version, which `.info/version` holds.
fn rocm(dir: &Utf8Path) -> String {
    let version = fs::read_to_string(dir.join(".info/version")).unwrap_or_default();
    let version = version.trim();
    if version.is_empty() { dir.to_string() } else { format!("{dir} ({version})") }
}

/// What is in a folder, sorted; nothing if it is not there.
fn below(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    let mut paths: Vec<Utf8PathBuf> = entries.map(camino::Utf8DirEntry::into_path).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gfx_targets_are_named_as_the_compiler_names_them() {
        // `gfx_target_version` as the kernel's driver documents it; 110000 is the W7900's.
        assert_eq!(gfx_target("cpu_cores_count 0\ngfx_target_version 110000\n").as_deref(), Some("gfx1100"));
        assert_eq!(gfx_target("gfx_target_version 90010\n").as_deref(), Some("gfx90a"));
        assert_eq!(gfx_target("gfx_target_version 0\n"), None);
        assert_eq!(gfx_target(""), None);
    }

    #[test]
    fn the_system_s_rocm_is_told_with_its_version_where_it_states_one() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap();
        assert_eq!(rocm(dir), dir.as_str());
        fs::create_dir(dir.join(".info")).unwrap();
        fs::write(dir.join(".info/version"), "7.2.1-43\n").unwrap();
        assert_eq!(rocm(dir), format!("{dir} (7.2.1-43)"));
    }

    #[test]
    fn nodes_of_the_kernels_topology_are_read_and_processors_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap();
        for (node, version) in [("0", "0"), ("1", "110000")] {
            fs::create_dir(dir.join(node)).unwrap();
            fs::write(dir.join(node).join("properties"), format!("gfx_target_version {version}\n")).unwrap();
        }
        assert_eq!(gfx_targets(dir), ["gfx1100"]);
        assert!(gfx_targets(&dir.join("absent")).is_empty());
    }
}
