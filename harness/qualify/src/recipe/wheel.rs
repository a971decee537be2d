//! Wheel file names: which of a release's wheels an installer for a given Python and platform takes.
//!
//! Names are `NAME-VERSION(-BUILD)-PYTHON-ABI-PLATFORM.whl`, each of the last three a set joined by dots
//! (`PyPA`, "Binary distribution format"; platform tags: PEP 600).

use super::Wanted;
use super::host::version;

/// How good a wheel is for what is wanted, larger is better; `None` if it does not fit.
pub(super) fn rank(filename: &str, wanted: &Wanted) -> Option<(u32, u32)> {
    let mut parts = filename.strip_suffix(".whl")?.rsplit('-');
    let (platforms, abis, pythons) = (parts.next()?, parts.next()?, parts.next()?);
    let (python, platform) = (version(wanted.python.as_ref()?)?, wanted.platform.as_ref()?);
    let by_python = pythons.split('.').flat_map(|p| abis.split('.').map(move |a| (p, a)));
    let by_python = by_python.filter_map(|(p, a)| python_rank(p, a, python)).max()?;
    let by_platform = platforms.split('.').filter_map(|p| platform_rank(p, platform)).max()?;
    Some((by_python, by_platform))
}

/// Exactly this `CPython`, then the stable ABI of this or an older one, then any Python 3.
fn python_rank(python: &str, abi: &str, (major, minor): (u32, u32)) -> Option<u32> {
    let exact = format!("cp{major}{minor}");
    if python == exact && abi == exact {
        return Some(1000);
    }
    let older = |tag: &str| tag.strip_prefix(&format!("cp{major}"))?.parse().ok().filter(|m: &u32| *m <= minor);
    match abi {
        "abi3" => older(python),
        "none" if python == "py3" || python == format!("py{major}{minor}") || python == exact => Some(0),
        _ => None,
    }
}

/// The newest glibc that is not newer than wanted; `any` fits last. `wanted` is in uv's words, `x86_64-manylinux_2_28`.
fn platform_rank(tag: &str, wanted: &str) -> Option<u32> {
    if tag == "any" {
        return Some(0);
    }
    let (arch, wanted) = wanted.split_once('-')?;
    // Says nothing of glibc: what vendors build for their own users.
    if tag.strip_prefix("linux_") == Some(arch) {
        return Some(0);
    }
    let (minor, wanted) = (glibc_minor(tag.strip_suffix(arch)?.strip_suffix('_')?)?, glibc_minor(wanted)?);
    (minor <= wanted).then_some(minor)
}

/// The `28` of `manylinux_2_28`; the older names stand for fixed versions.
fn glibc_minor(tag: &str) -> Option<u32> {
    match tag {
        "manylinux1" => Some(5),
        "manylinux2010" => Some(12),
        "manylinux2014" => Some(17),
        _ => tag.strip_prefix("manylinux_2_")?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(platform: &str) -> Wanted {
        let text = |t: &str| t.to_owned();
        Wanted {
            name: text("x"),
            version: text("1"),
            index: text("pypi"),
            python: Some(text("3.12")),
            platform: Some(text(platform)),
        }
    }

    #[test]
    fn the_wheel_that_an_installer_would_take_ranks_first() {
        let wheels = [
            "x-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            "x-1-cp312-cp312-manylinux_2_28_x86_64.whl",
            "x-1-cp312-cp312-manylinux_2_34_x86_64.whl",
            "x-1-cp312-cp312-manylinux_2_28_aarch64.whl",
            "x-1-cp313-cp313-manylinux_2_28_x86_64.whl",
            "x-1-cp313-cp313t-manylinux_2_28_x86_64.whl",
            "x-1-cp312-abi3-manylinux_2_28_x86_64.whl",
            "x-1-cp38-abi3-manylinux_2_28_x86_64.whl",
            "x-1-py3-none-any.whl",
            "x-1-cp312-cp312-win_amd64.whl",
        ];
        let best = |platform: &str| wheels.iter().max_by_key(|w| rank(w, &wanted(platform))).copied();
        assert_eq!(best("x86_64-manylinux_2_28"), Some(wheels[1]));
        assert_eq!(best("x86_64-manylinux_2_35"), Some(wheels[2]));
        assert_eq!(best("x86_64-manylinux_2_17"), Some(wheels[0]));
        assert_eq!(best("aarch64-manylinux_2_28"), Some(wheels[3]));
        assert!(
            rank("x-1-cp312-cp312-linux_x86_64.whl", &wanted("x86_64-manylinux_2_28"))
                < rank(wheels[1], &wanted("x86_64-manylinux_2_28"))
        );
        assert!(rank("x-1-cp312-cp312-linux_aarch64.whl", &wanted("x86_64-manylinux_2_28")).is_none());
        let fits = |w: &str| rank(w, &wanted("x86_64-manylinux_2_28")).is_some();
        assert_eq!(wheels.map(fits), [true, true, false, false, false, false, true, true, true, false]);
        assert!(rank("x.tar.gz", &wanted("x86_64-manylinux_2_28")).is_none());
    }
}
