//! A throw-away project: the repository's recipes and bundles beside cases of its own.

use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::builder::Builder;
use onnx_graph::{DataType, Dim, Tensor};
use ort_qualify::bundle::{BundleParts, CaseParts, OutputParts, Provenance, write};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

/// The repository.
pub fn repository() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize_utf8().unwrap()
}

/// A project in a temporary folder, gone at the end of the test.
pub struct Project {
    _folder: tempfile::TempDir,
    /// Its root.
    pub root: Utf8PathBuf,
}

/// What the binary said.
pub struct Said {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Project {
    /// A project with one case file.
    pub fn new(cases: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        fs::create_dir_all(root.join("golden/cases")).unwrap();
        fs::write(root.join("golden/cases/cases.toml"), cases).unwrap();
        copy(&repository().join("env-recipes"), &root.join("env-recipes"));
        copy(&repository().join("golden/bundles"), &root.join("golden/bundles"));
        Self { _folder: folder, root }
    }

    /// A project with the one case `plain` of the bundle `sdpa_fp32`, and `rest` in its group.
    pub fn plain(rest: &str) -> Self {
        Self::new(&group("sdpa_fp32", "plain", rest))
    }

    /// The binary with these words, in the project.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ort-qualify"));
        command.args(words).current_dir(&self.root);
        for name in ["ORT_QUALIFY_ROOT", "ORT_QUALIFY_RECIPE", "ORT_QUALIFY_BUNDLES", "ORT_QUALIFY_EVIDENCE"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the binary with these words.
    pub fn say(&self, words: &[&str]) -> Said {
        self.command(words).output().unwrap().into()
    }

    /// `run --json` with more words.
    pub fn run(&self, words: &[&str]) -> Run {
        let said = self.say(&[&["run", "--json"], words].concat());
        assert!(!said.stdout.is_empty(), "exit {}: {}", said.code, said.stderr);
        Run { code: said.code, json: serde_json::from_str(&said.stdout).unwrap() }
    }

    /// Replaces text in a file of the project.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let path = self.root.join(path);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{path} has no {from:?}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
    }

    /// The text of a file of the case's evidence on the recipe `cpu`.
    pub fn evidence(&self, case: &str, file: &str) -> String {
        fs::read_to_string(self.root.join("target/evidence/cpu").join(case.replace('/', "__")).join(file)).unwrap()
    }
}

/// A case file with one group on committed bundles, called `BUNDLE/BATCH`.
pub fn group(bundle: &str, batches: &str, rest: &str) -> String {
    let batches: Vec<String> = batches.split(' ').map(|b| format!("{b:?}")).collect();
    format!(
        "source.folder = \"golden/bundles\"\n[[group]]\nname = \"{{bundle}}/{{batch}}\"\nbundles = [{bundle:?}]\nbatches = [{}]\n{rest}\n",
        batches.join(", ")
    )
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// What `run --json` said.
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// The whole.
    pub json: Value,
}

impl Run {
    /// One case's row.
    pub fn case(&self, name: &str) -> &Value {
        let cases = self.json["cases"].as_array().unwrap();
        cases.iter().find(|c| c["case"] == name).unwrap_or_else(|| panic!("no case {name} in {}", self.json))
    }

    /// Verdict and stage of a case (`fail@run`, `pass`), with its reasons.
    pub fn verdict(&self, name: &str) -> (String, String) {
        let case = self.case(name);
        let stage = case["stage"].as_str().map_or_else(String::new, |s| format!("@{s}"));
        let reasons: Vec<&str> = case["reasons"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
        (format!("{}{stage}", case["verdict"].as_str().unwrap()), reasons.join("\n"))
    }
}

/// Copies a folder.
pub fn copy(from: &Utf8Path, to: &Utf8Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir_utf8().unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// A bundle of one Identity node, every input fed with 1 and 2; the builder is changed by `change` before anything else.
pub fn identity(project: &Project, name: &str, reference: [f32; 2], change: impl FnOnce(&mut Builder)) {
    let mut g = Builder::new("identity");
    g.opset("", 20).ir_version(10).producer("a test", "1");
    change(&mut g);
    let x = g.input("x", DataType::Float32, &[Dim::Fixed(2)]);
    let y = g.node("same", "Identity", &[&x]).makes("y");
    g.output(&y, DataType::Float32, &[Dim::Fixed(2)]);
    let model = g.build().unwrap();
    let values = |v: [f32; 2]| Tensor::from_values(&[2], &v).unwrap();
    let case = CaseParts {
        name: "plain".into(),
        description: String::new(),
        inputs: model.inputs().into_iter().map(|i| (i.name, values([1.0, 2.0]))).collect(),
        outputs: vec![OutputParts { name: "y".into(), reference: values(reference), baseline: None }],
        probes: Vec::new(),
    };
    let parts = BundleParts {
        name: name.into(),
        description: String::new(),
        model,
        mask: None,
        outputs: Vec::new(),
        cases: vec![case],
        provenance: Provenance::default(),
    };
    write(&project.root.join("golden/bundles").join(name), &parts).unwrap();
}
