//! What the types of a recipe cannot say: which tables a kind has, and which texts are sane.

use super::debian::DEBIAN;
use super::description::PREFIX_VARIABLE;
use super::{Kind, Recipe, Wanted, host};
use crate::nearest;
use camino::{Utf8Component, Utf8Path};

/// The word for the index that the user's uv or pip is configured with.
pub(super) const PYPI: &str = "pypi";

/// Providers that this program can ask for by name.
const KNOWN: [&str; 5] = ["cpu", "cuda", "migraphx", "openvino", "webgpu"];

/// The least address space in which a worker starts at all, in MiB.
const LEAST_MEMORY_MIB: u64 = 512;

impl Recipe {
    /// Refuses what makes no sense. Gives field and problem.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let fail = |field: &str, problem: String| Err((field.to_owned(), problem));
        let tables = [
            ("library", self.library.is_some(), Kind::Stack),
            ("provider", self.provider.is_some(), Kind::Stack),
            ("tool", self.tool.is_some(), Kind::Tool),
            ("data", self.data.is_some(), Kind::Data),
        ];
        for (table, present, kind) in tables {
            match (present, kind == self.kind) {
                (false, true) => return fail(table, format!("a recipe of kind `{}` needs this table", kind.word())),
                (true, false) => return fail(table, format!("only recipes of kind `{}` have it", kind.word())),
                _ => {}
            }
        }
        self.check_python()?;
        self.check_caches()?;
        if let Some(provider) =
            self.provider.as_ref().filter(|p| p.plugin.is_none() && !KNOWN.contains(&p.name.as_str()))
        {
            let hint = nearest::hint(&provider.name, KNOWN);
            return fail(
                "provider.name",
                format!(
                    "`{}` is not known{hint}; known are {}, or any name with a `plugin`",
                    provider.name,
                    KNOWN.join(", ")
                ),
            );
        }
        if let Some(mib) = self.worker.as_ref().and_then(|w| w.memory_limit_mib).filter(|mib| *mib < LEAST_MEMORY_MIB) {
            return fail(
                "worker.memory_limit_mib",
                format!("{mib} is not enough for any library: at least {LEAST_MEMORY_MIB}"),
            );
        }
        let sane = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if let Some(name) = self.env.keys().chain(self.append.keys()).find(|name| !sane(name)) {
            return fail("env", format!("`{name}` is no variable's name: letters, digits and `_`"));
        }
        if let Some((name, _)) = self.env.iter().find(|(_, value)| value.contains('\0')) {
            return fail(&format!("env.{name}"), "holds a NUL, which no variable can".to_owned());
        }
        if self.artifact.is_empty() {
            return fail("artifact", "a recipe installs at least one artifact".to_owned());
        }
        for (i, wanted) in self.artifact.iter().enumerate() {
            wanted.check().map_err(|(field, problem)| (format!("artifact[{i}].{field}"), problem))?;
            if self.artifact[..i].iter().any(|other| other.name == wanted.name) {
                return fail(&format!("artifact[{i}].name"), format!("`{}` is named twice", wanted.name));
            }
        }
        self.check_overlays()?;
        let paths = [
            ("library.path", self.library.as_ref().map(|t| &t.path)),
            ("tool.path", self.tool.as_ref().map(|t| &t.path)),
            ("data.path", self.data.as_ref().map(|t| &t.path)),
            ("provider.plugin", self.provider.as_ref().and_then(|p| p.plugin.as_ref())),
        ];
        let dirs = self.library_dirs.iter().map(|dir| ("library_dirs", Some(dir)));
        let overlays = self.overlay.iter().map(|o| ("overlay.library_dir", Some(&o.library_dir)));
        for (field, path) in paths.into_iter().chain(dirs).chain(overlays) {
            if let Some(path) = path.filter(|p| !stays_inside(p)) {
                return fail(
                    field,
                    format!("`{path}` must be a relative path below the installed files, without `..`"),
                );
            }
        }
        if self.env.contains_key("LD_LIBRARY_PATH") {
            return fail("env.LD_LIBRARY_PATH", "name the directories in `library_dirs` instead".to_owned());
        }
        let appended = self.append.iter().map(|(name, append)| (name, &append.value));
        if let Some((name, value)) =
            self.env.iter().chain(appended).find(|(_, v)| v.replace(PREFIX_VARIABLE, "").contains("${"))
        {
            return fail(&format!("env.{name}"), format!("`{value}`: only {PREFIX_VARIABLE} is known here"));
        }
        if let Some(text) = self.host.as_ref().and_then(|h| h.glibc.as_ref()).filter(|t| host::version(t).is_none()) {
            return fail("host.glibc", format!("`{text}` is not a version such as \"2.28\""));
        }
        Ok(())
    }

    /// The interpreter and the image.
    fn check_python(&self) -> Result<(), (String, String)> {
        let fail = |field: &str, problem: String| Err((field.to_owned(), problem));
        if self.container.is_some() && self.kind != Kind::Stack {
            return fail("container", format!("only recipes of kind `{}` have it", Kind::Stack.word()));
        }
        match (&self.python, self.kind == Kind::Python || self.container.is_some()) {
            (None, true) => return fail("python", "a Python environment needs this table".to_owned()),
            (Some(_), false) => {
                return fail("python", "only Python environments and stacks with a `container` have it".to_owned());
            }
            _ => {}
        }
        if let Some(python) = &self.python {
            if host::version(&python.version).is_none() {
                return fail("python.version", format!("`{}` is not a version such as \"3.12\"", python.version));
            }
            let other = |w: &&Wanted| w.python.as_ref() != Some(&python.version);
            if let Some(wanted) = self.wants().find(other) {
                return fail("artifact", format!("`{}` must be a wheel for Python {}", wanted.name, python.version));
            }
        }
        if let Some(container) = &self.container {
            container.check()?;
        }
        Ok(())
    }

    fn check_overlays(&self) -> Result<(), (String, String)> {
        let fail = |field: &str, problem: String| Err((field.to_owned(), problem));
        for (i, overlay) in self.overlay.iter().enumerate() {
            let at = |field: &str| format!("overlay[{i}].{field}");
            overlay.artifact.check().map_err(|(field, problem)| (at(&format!("artifact.{field}")), problem))?;
            if host::version(&overlay.glibc).is_none() {
                return fail(&at("glibc"), format!("`{}` is not a version such as \"2.36\"", overlay.glibc));
            }
            if self.artifact.iter().any(|other| other.name == overlay.artifact.name) {
                return fail(&at("artifact.name"), format!("`{}` is an artifact already", overlay.artifact.name));
            }
        }
        if self.kind != Kind::Stack && !self.overlay.is_empty() {
            return fail("overlay", format!("only recipes of kind `{}` have it", Kind::Stack.word()));
        }
        Ok(())
    }
}

impl Wanted {
    /// Texts end on the command line of uv and in its requirements file: only plain words pass. Gives field and problem.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let platform = self.platform.iter().map(|text| ("platform", text));
        for (field, text) in [("name", &self.name), ("version", &self.version)].into_iter().chain(platform) {
            let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
            if !starts_well || !text.chars().all(|c| c.is_ascii_alphanumeric() || "._-+~".contains(c)) {
                return Err((field, format!("`{text}` must be letters, digits and `._-+~`, a letter or digit first")));
            }
        }
        if let Some(python) = self.python.as_ref().filter(|text| host::version(text).is_none()) {
            return Err(("python", format!("`{python}` is not a version such as \"3.12\"")));
        }
        match (self.index.as_str(), &self.python, &self.platform) {
            (PYPI, None, _) => return Err(("python", "must say which Python a wheel of `pypi` is for".to_owned())),
            (PYPI, _, None) => return Err(("platform", "must say which platform a wheel of `pypi` is for".to_owned())),
            (DEBIAN, Some(_), _) => return Err(("python", "is for wheels; a package of `debian` has none".to_owned())),
            (DEBIAN, _, Some(_)) => {
                return Err(("platform", "is for wheels; a package of `debian` has none".to_owned()));
            }
            (_, Some(_), None) => return Err(("platform", "a wheel needs it beside `python`".to_owned())),
            (_, None, Some(_)) => return Err(("python", "a wheel needs it beside `platform`".to_owned())),
            _ => {}
        }
        // Blanks and quotes would end the address in uv's requirements file.
        let address = self.index.starts_with("https://") || self.index.starts_with("http://127.0.0.1:");
        let plain = self.index.chars().all(|c| c.is_ascii_alphanumeric() || "._-+:/~".contains(c));
        if self.index != PYPI && self.index != DEBIAN && !(address && plain) {
            return Err((
                "index",
                format!(
                    "`{}` is not known; known are: pypi, debian, or a vendor's own by its https address",
                    self.index
                ),
            ));
        }
        Ok(())
    }
}

/// Is `path` relative, not empty and free of `..`?
pub(super) fn stays_inside(path: &Utf8Path) -> bool {
    !path.as_str().is_empty() && path.components().all(|c| matches!(c, Utf8Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_file;

    const CPU: &str = include_str!("../../../../env-recipes/cpu.toml");

    fn problem_after(find: &str, replace: &str) -> String {
        assert!(CPU.contains(find), "the recipe no longer holds `{find}`");
        let recipe: Recipe = toml_file::parse("cpu.toml".into(), &CPU.replace(find, replace)).unwrap();
        recipe.check().map_or_else(|(field, problem)| format!("{field}: {problem}"), |()| "accepted".to_owned())
    }

    #[test]
    fn what_the_types_cannot_refuse_is_refused_by_field() {
        for (find, replace, told) in [
            ("[provider]\nname = \"cpu\"", "", "provider: a recipe of kind `stack` needs this table"),
            ("kind = \"stack\"", "kind = \"tool\"", "library: only recipes of kind `stack` have it"),
            (
                "\"onnxruntime/capi/",
                "\"../capi/",
                "library.path: `../capi/libonnxruntime.so.1.32.0` must be a relative",
            ),
            ("\"onnxruntime/capi/", "\"/capi/", "library.path: `/capi/libonnxruntime.so.1.32.0` must be a relative"),
            ("[host]", "[env]\nX = \"${HOME}/x\"\n[host]", "env.X: `${HOME}/x`: only ${PREFIX} is known"),
            ("[host]", "[env]\nLD_LIBRARY_PATH = \"x\"\n[host]", "env.LD_LIBRARY_PATH: name the directories in"),
            ("index = \"pypi\"", "index = \"pipy\"", "artifact[0].index: `pipy` is not known; known are: pypi"),
            ("index = \"pypi\"", "index = \"debian\"", "artifact[0].python: is for wheels"),
            ("python = \"3.12\"\n", "", "artifact[0].python: must say which Python"),
            ("name = \"onnxruntime\"", "name = \"-r evil\"", "artifact[0].name: `-r evil` must be"),
            ("python = \"3.12\"", "python = \"three\"", "artifact[0].python: `three` is not a version"),
            ("glibc = \"2.28\"", "glibc = \"new\"", "host.glibc: `new` is not a version"),
        ] {
            let found = problem_after(find, replace);
            assert!(found.starts_with(told), "{found}");
        }
        assert_eq!(problem_after("cpu\"", "cpu\""), "accepted");
    }
}
