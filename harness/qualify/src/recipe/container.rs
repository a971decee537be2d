//! Containers: a stack whose processes run inside an image of Singularity or Apptainer, which is a file with a hash.

use super::installer::search;
use super::{Options, RealiseError};
use crate::digest;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where both programs put the driver's libraries inside (`--nv`).
const DRIVER_LIBRARIES: &str = "/.singularity.d/libs";

/// `[container]`: the image that workers run in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// The image, a file by its absolute path. Where it lies is the machine's affair: it is no part of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Utf8PathBuf>,
    /// The image's SHA-256, lower-case hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Does the image get the machine's NVIDIA driver?
    #[serde(default)]
    pub nv: bool,
    /// Folders of the machine that the image sees beside those that workers need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bind: Vec<Utf8PathBuf>,
    /// Directories of shared libraries inside the image, searched after the prefix's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library_dirs: Vec<Utf8PathBuf>,
    /// The program.
    #[serde(default)]
    pub program: Program,
}

/// A program that runs commands inside an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// `singularity`, which Apptainer installs too.
    #[default]
    Singularity,
    /// `apptainer`.
    Apptainer,
}

impl Program {
    /// Its name on the search path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Singularity => "singularity",
            Self::Apptainer => "apptainer",
        }
    }
}

impl Container {
    /// Refuses what makes no sense. Gives field and problem.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let absolute = [("image", self.image.as_slice()), ("bind", &self.bind), ("library_dirs", &self.library_dirs)];
        for (field, paths) in absolute {
            for path in paths {
                if !path.is_absolute() || path.as_str().contains([',', ':']) {
                    let problem = format!("`{path}` must be an absolute path without `,` and `:`");
                    return Err((format!("container.{field}"), problem));
                }
            }
        }
        match &self.sha256 {
            Some(text) if !digest::is_sha256(text) => {
                Err(("container.sha256".to_owned(), "must be 64 lower-case hex digits".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The words before a command that is to run inside, the image seeing these folders too.
    pub fn words(&self, folders: &[&Utf8Path]) -> Vec<String> {
        let mut words = vec![self.program.name().to_owned(), "exec".to_owned()];
        if self.nv {
            words.push("--nv".to_owned());
        }
        let mut seen: Vec<&Utf8Path> = Vec::new();
        for folder in self.bind.iter().map(Utf8PathBuf::as_path).chain(folders.iter().copied()) {
            if !seen.contains(&folder) && folder.is_dir() {
                seen.push(folder);
                words.extend(["--bind".to_owned(), folder.to_string()]);
            }
        }
        words.extend(self.image.iter().map(ToString::to_string));
        words
    }

    /// The variables by which these are set inside. They are not set for the program itself: it is one of the machine's.
    pub fn env(&self, inside: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut outside = BTreeMap::new();
        for (name, mut value) in inside {
            if name == "LD_LIBRARY_PATH" && self.nv {
                // What the image sets itself is replaced by this, and the driver is part of that.
                value = [&value, DRIVER_LIBRARIES].join(":");
            }
            for prefix in ["SINGULARITYENV", "APPTAINERENV"] {
                outside.insert(format!("{prefix}_{name}"), value.clone());
            }
        }
        outside
    }

    /// Is the program there, and the image the one that is pinned?
    pub(super) fn verify(&self, recipe: &str, options: &Options) -> Result<(), RealiseError> {
        let fail = |problem: String| RealiseError::Container { recipe: recipe.to_owned(), problem };
        let program = self.program.name();
        if !search(options, program) {
            return Err(fail(format!(
                "there is no `{program}` on the PATH; install SingularityCE or Apptainer, or name the other one in `container.program`"
            )));
        }
        // A resolved recipe has both.
        let (Some(image), Some(pinned)) = (&self.image, &self.sha256) else { return Ok(()) };
        if !image.is_file() {
            return Err(fail(format!("there is no image file {image}")));
        }
        let (_, found) = digest::of_file(image).map_err(|e| fail(format!("the image {image} cannot be read: {e}")))?;
        if found != *pinned {
            return Err(RealiseError::WrongFile {
                recipe: recipe.to_owned(),
                artifact: "the image".to_owned(),
                from: image.to_string(),
                hashes: format!("the SHA-256 {found}, and the recipe says {pinned}"),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_inside_with_the_folders_it_needs_and_the_driver_only_where_it_is_asked_for() {
        let mut container = Container {
            image: Some("/images/x.sif".into()),
            sha256: None,
            nv: true,
            bind: vec!["/usr".into(), "/absent-folder".into()],
            library_dirs: Vec::new(),
            program: Program::Singularity,
        };
        let words = container.words(&["/tmp".into(), "/usr".into()]);
        assert_eq!(words, ["singularity", "exec", "--nv", "--bind", "/usr", "--bind", "/tmp", "/images/x.sif"]);
        let inside: BTreeMap<String, String> = [("LD_LIBRARY_PATH".to_owned(), "/a".to_owned())].into();
        let outside = container.env(inside.clone());
        assert_eq!(outside["SINGULARITYENV_LD_LIBRARY_PATH"], "/a:/.singularity.d/libs");
        assert_eq!((outside["APPTAINERENV_LD_LIBRARY_PATH"].as_str(), outside.len()), ("/a:/.singularity.d/libs", 2));
        (container.nv, container.program) = (false, Program::Apptainer);
        assert_eq!(container.words(&[]), ["apptainer", "exec", "--bind", "/usr", "/images/x.sif"]);
        assert_eq!(container.env(inside)["APPTAINERENV_LD_LIBRARY_PATH"], "/a");
    }

    #[test]
    fn paths_are_absolute_and_hashes_are_hashes() {
        let told = |text: &str| {
            let container: Container = toml::from_str(text).unwrap();
            container.check().map_or_else(|(field, _)| field, |()| "accepted".to_owned())
        };
        assert_eq!(told("image = \"x.sif\""), "container.image");
        assert_eq!(told("bind = [\"/a:/b\"]"), "container.bind");
        assert_eq!(told("sha256 = \"00\""), "container.sha256");
        assert_eq!(told("image = \"/x.sif\"\nnv = true"), "accepted");
    }
}
