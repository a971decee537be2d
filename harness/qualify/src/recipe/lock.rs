//! The lock: which file each wanted artifact is, and where its hash comes from.

use super::{FOLDER, RealiseError, Recipe, RecipeError, Wanted, check::stays_inside};
use crate::{atomic, digest};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The lock format that this version reads.
const FORMAT: u32 = 1;

/// `env-recipes/lock.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Where it was read from, for messages.
    pub path: Utf8PathBuf,
    /// One entry per artifact; no two with the same index, name and version.
    pub artifacts: Vec<Artifact>,
}

/// One file on an index, named by size and hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The distribution's name on its index.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The index by word (`pypi`).
    pub index: String,
    /// The file's name; `null` where nobody recorded it.
    pub filename: Option<String>,
    /// The file's path below the index's file store or, for an index that is named by its address, behind the host; with
    /// plain characters, not `%2B`. `null` likewise.
    pub path: Option<Utf8PathBuf>,
    /// Size in bytes; `null` where not recorded.
    pub size: Option<u64>,
    /// SHA-256, lower-case hex; `null` where not recorded, and then `reason` says why.
    pub sha256: Option<String>,
    /// Who computed the hash.
    pub hash_source: HashSource,
    /// Why there is no hash.
    pub reason: Option<String>,
}

/// Who computed a hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HashSource {
    /// This project, from the file.
    ComputedHere,
    /// Others, in public records of this many independent origins.
    ThirdParty(u32),
    /// Whoever realised it first, from the file that was served then: nothing vouches for that one.
    FirstUse {
        /// The day, `YYYY-MM-DD`.
        date: String,
        /// Who.
        by: String,
    },
    /// Nobody that is known.
    Unrecorded,
}

/// How the text of [`HashSource::FirstUse`] begins.
const FIRST_USE: &str = "recorded on first use, ";

impl fmt::Display for HashSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ComputedHere => f.write_str("computed here"),
            Self::ThirdParty(1) => f.write_str("third party, 1 origin"),
            Self::ThirdParty(n) => write!(f, "third party, {n} origins"),
            Self::FirstUse { date, by } => write!(f, "{FIRST_USE}{date}, by {by}"),
            Self::Unrecorded => f.write_str("unrecorded"),
        }
    }
}

impl From<HashSource> for String {
    fn from(source: HashSource) -> Self {
        source.to_string()
    }
}

impl TryFrom<String> for HashSource {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let origins = text
            .strip_prefix("third party, ")
            .and_then(|rest| rest.strip_suffix(" origins").or_else(|| rest.strip_suffix(" origin")))
            .and_then(|n| n.parse().ok());
        if let Some((date, by)) = text.strip_prefix(FIRST_USE).and_then(|rest| rest.split_once(", by ")) {
            let (date, by) = (date.to_owned(), by.to_owned());
            return Ok(Self::FirstUse { date, by });
        }
        match (text.as_str(), origins) {
            ("computed here", _) => Ok(Self::ComputedHere),
            ("unrecorded", _) => Ok(Self::Unrecorded),
            (_, Some(n)) if n > 0 => Ok(Self::ThirdParty(n)),
            _ => Err(format!(
                "hash_source `{text}` is none of `computed here`, `third party, N origins`, `{FIRST_USE}DATE, by NAME`, \
                     `unrecorded`"
            )),
        }
    }
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mirror {
    format: u32,
    artifacts: Vec<Artifact>,
}

impl Lock {
    /// Reads and checks the lock of the project at `root`.
    pub fn load(root: &Utf8Path) -> Result<Self, RecipeError> {
        let path = root.join(FOLDER).join("lock.json");
        let text = std::fs::read_to_string(&path)
            .map_err(|e| RecipeError::Lock { path: path.clone(), problem: format!("cannot be read: {e}") })?;
        Self::parse(path, &text)
    }

    /// Writes the lock where it was read from, sorted.
    pub(super) fn write(&mut self) -> Result<(), RealiseError> {
        self.artifacts.sort_by(|a, b| (&a.index, &a.name, &a.version).cmp(&(&b.index, &b.name, &b.version)));
        let mirror = Mirror { format: FORMAT, artifacts: self.artifacts.clone() };
        atomic::write_json(&self.path, &mirror).map_err(|why| RealiseError::Disk {
            action: "write",
            path: self.path.clone(),
            why,
        })
    }

    /// Parses and checks the text of a lock that came from `path`.
    pub fn parse(path: Utf8PathBuf, text: &str) -> Result<Self, RecipeError> {
        let artifacts = match serde_json::from_str::<Mirror>(text) {
            Err(e) => Err(e.to_string()),
            Ok(m) if m.format != FORMAT => {
                Err(format!("field `format` is {}, and this version reads format {FORMAT}", m.format))
            }
            Ok(m) => {
                m.artifacts.iter().try_for_each(Artifact::check).and(no_doubles(&m.artifacts)).map(|()| m.artifacts)
            }
        };
        match artifacts {
            Ok(artifacts) => Ok(Self { path, artifacts }),
            Err(problem) => Err(RecipeError::Lock { path, problem }),
        }
    }

    /// The file that is wanted, if the lock has it.
    pub fn find(&self, wanted: &Wanted) -> Option<&Artifact> {
        self.artifacts.iter().find(|a| a.is(wanted))
    }

    /// Entries that none of the recipes wants: pins that nothing uses.
    pub fn unused<'a>(&'a self, recipes: &'a [Recipe]) -> impl Iterator<Item = &'a Artifact> {
        let wanted = |a: &&Artifact| recipes.iter().flat_map(Recipe::wants).any(|w| a.is(w));
        self.artifacts.iter().filter(move |a| !wanted(a))
    }
}

impl Artifact {
    pub(super) fn is(&self, wanted: &Wanted) -> bool {
        (&self.index, &self.name, &self.version) == (&wanted.index, &wanted.name, &wanted.version)
    }

    /// Where the file is, for an index that is named by its address: on the same host.
    pub(super) fn url(&self) -> Option<String> {
        let (scheme, rest) = self.index.split_once("://")?;
        let host = rest.split('/').next()?;
        Some(format!("{scheme}://{host}/{}", encoded(self.path.as_ref()?)))
    }

    /// `NAME VERSION`, for messages.
    pub fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn check(&self) -> Result<(), String> {
        let fail = |field: &str, problem: &str| Err(format!("artifact `{}`: field `{field}` {problem}", self.label()));
        if self.filename.as_deref() != self.path.as_ref().and_then(|p| p.file_name()) {
            return fail("filename", "must be the last part of `path`");
        }
        if self.path.as_ref().is_some_and(|path| !stays_inside(path)) {
            return fail("path", "must be a relative path below the index's file store, without `..`");
        }
        if self.path.is_none() && self.sha256.is_some() {
            return fail("path", "must be there where a sha256 is");
        }
        if self.size == Some(0) {
            return fail("size", "is 0; where it is not known, write null");
        }
        match (&self.sha256, &self.hash_source, &self.reason) {
            (Some(hash), _, _) if !digest::is_sha256(hash) => fail("sha256", "must be 64 lower-case hex digits"),
            (Some(_), HashSource::Unrecorded, _) => fail("hash_source", "is `unrecorded`, but there is a sha256"),
            (Some(_), _, Some(_)) => fail("reason", "is for artifacts without a hash; write null"),
            (None, HashSource::Unrecorded, None) => fail("reason", "must say why sha256 is null"),
            (Some(_), _, None) | (None, HashSource::Unrecorded, Some(_)) => Ok(()),
            (None, _, _) => fail("hash_source", "must be `unrecorded` where sha256 is null"),
        }
    }
}

/// A path as it stands in an address: some servers take a plain `+` for a blank.
pub(super) fn encoded(path: &Utf8Path) -> String {
    path.as_str().replace('+', "%2B")
}

/// The path of an address, behind the host, with plain characters.
pub(super) fn path_of(url: &str) -> Option<Utf8PathBuf> {
    let (_, path) = url.split_once("://")?.1.split_once('/')?;
    let path = path.split(['#', '?']).next()?;
    let plain = [("%2B", "+"), ("%2b", "+"), ("%7E", "~"), ("%7e", "~")];
    Some(plain.into_iter().fold(path.to_owned(), |text, (from, to)| text.replace(from, to)).into())
}

fn no_doubles(artifacts: &[Artifact]) -> Result<(), String> {
    let same = |a: &Artifact, b: &Artifact| (&a.index, &a.name, &a.version) == (&b.index, &b.name, &b.version);
    match artifacts.iter().enumerate().find(|(i, a)| artifacts[..*i].iter().any(|b| same(a, b))) {
        Some((_, double)) => Err(format!("artifact `{}` of `{}` is there twice", double.label(), double.index)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = include_str!("../../../../env-recipes/lock.json");

    fn told(text: &str) -> String {
        Lock::parse("lock.json".into(), text).map_or_else(|e| e.to_string(), |_| "accepted".to_owned())
    }

    #[test]
    fn every_unsound_entry_is_refused_by_artifact_and_field() {
        let hash = "\"99e1074c4b2197accd5073052a465361be17b89c093b8ffb6e6bd8f986c52df8\"";
        for (find, replace, expected) in [
            ("\"format\": 1", "\"format\": 2", "field `format` is 2"),
            (hash, "\"99e1\"", "artifact `onnxruntime 1.32.0`: field `sha256` must be 64"),
            (
                hash,
                "null",
                "artifact `onnxruntime 1.32.0`: field `hash_source` must be `unrecorded` where sha256 is null",
            ),
            ("\"size\": 27780211", "\"size\": 0", "field `size` is 0"),
            ("\"size\": 27780211", "\"sizes\": 1", "unknown field `sizes`"),
            ("\"computed here\"", "\"somewhere\"", "hash_source `somewhere` is none of"),
            ("\"packages/a3/", "\"/packages/a3/", "field `path` must be a relative"),
            ("\"path\": \"packages/a3", "\"path\": \"../a3", "field `path` must be a relative"),
            ("\"version\": \"1.32.0\"", "\"version\": \"1.23.2\"", "`onnxruntime 1.23.2` of `pypi` is there twice"),
            ("\"artifacts\"", "\"artefacts\"", "unknown field `artefacts`"),
        ] {
            assert!(LOCK.contains(find), "the lock no longer holds {find}");
            let found = told(&LOCK.replace(find, replace));
            assert!(found.starts_with("lock.json: ") && found.contains(expected), "{found}");
        }
        assert_eq!(told(LOCK), "accepted");
    }

    #[test]
    fn an_address_gives_the_path_without_the_host_and_is_made_of_it_again() {
        let url = "https://files.example/packages/ab/cd/x-1%2Bcu13-py3-none-any.whl#sha256=00";
        let path = path_of(url).unwrap();
        assert_eq!(path, "packages/ab/cd/x-1+cu13-py3-none-any.whl");
        assert_eq!(path_of("http://a.example/pool/t/t_1%7edeb12_amd64.deb").unwrap(), "pool/t/t_1~deb12_amd64.deb");
        assert_eq!(path_of("x"), None);
        let mut artifact = Lock::parse("lock.json".into(), LOCK).unwrap().artifacts.remove(0);
        artifact.path = Some(path);
        artifact.index = "https://files.example/simple".into();
        assert_eq!(artifact.url().as_deref(), url.strip_suffix("#sha256=00"));
        artifact.index = "pypi".into();
        assert_eq!(artifact.url(), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(at in 0..LOCK.len(), byte in 32_u8..127) {
            let mut bytes = LOCK.as_bytes().to_vec();
            bytes[at] = byte;
            let text = String::from_utf8(bytes).unwrap();
            if let Err(e) = Lock::parse("lock.json".into(), &text) {
                proptest::prop_assert!(e.to_string().starts_with("lock.json: "));
            }
        }
    }
}
