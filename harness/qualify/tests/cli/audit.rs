//! The audit on real evidence: a library from elsewhere, a version and a hash that are not the pinned ones are found.

use super::project::{Project, Said};
use camino::Utf8PathBuf;
use std::fs;

/// A project whose one case ran on OpenVINO with a store of its own, and the tree of that recipe.
fn qualified(variables: &[(&str, &str)]) -> (Project, Utf8PathBuf) {
    let project = Project::plain("");
    let store = project.root.join("store");
    let realised = project.say(&["recipe", "realise", "openvino", "--store", store.as_str()]);
    assert_eq!(realised.code, 0, "{}", realised.stderr);
    let mut run = project.command(&["run", "--recipe", "openvino", "--store", store.as_str()]);
    let tree = Utf8PathBuf::from(realised.stdout.trim()).join("tree");
    for (name, file) in variables {
        let copy = project.root.join(file);
        fs::copy(tree.join("onnxruntime/capi").join(file), &copy).unwrap();
        run.env(name, copy);
    }
    let said: Said = run.output().unwrap().into();
    assert_eq!(said.code, 0, "{}", said.stdout);
    (project, tree)
}

fn audit(project: &Project, more: &[&str]) -> Said {
    let store = project.root.join("store");
    let evidence = project.root.join("target/evidence");
    let words = ["audit", "--evidence", evidence.as_str(), "--store", store.as_str()];
    project.say(&[&words, more].concat())
}

#[test]
fn what_ran_is_what_is_pinned_until_a_file_a_version_or_a_hash_is_changed() {
    let (project, tree) = qualified(&[]);
    let said = audit(&project, &[]);
    assert_eq!(said.code, 0, "{}", said.stdout);
    for wanted in [
        "openvino: 1 cases ran on ONNX Runtime 1.24.1",
        "libopenvino_intel_cpu_plugin.so (onnxruntime-openvino 1.24.1)",
        "0 errors",
    ] {
        assert!(said.stdout.contains(wanted), "{wanted:?} is not in {}", said.stdout);
    }

    let observation = "target/evidence/openvino/sdpa_fp32__plain/observation.json";
    project.edit(observation, "\"version\": \"1.24.1\"", "\"version\": \"1.24.0\"");
    let said = audit(&project, &["--github"]);
    let wanted = "ONNX Runtime's version: pinned or seen before is 1.24.1, and this case ran on 1.24.0";
    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("::error file=") && said.stdout.contains(wanted), "{}", said.stdout);
    project.edit(observation, "\"version\": \"1.24.0\"", "\"version\": \"1.24.1\"");

    let library = tree.join("onnxruntime/capi/libopenvino.so.2541");
    let mut bytes = fs::read(&library).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&library, bytes).unwrap();
    let said = audit(&project, &[]);
    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("libopenvino.so.2541 has the SHA-256"), "{}", said.stdout);

    project.edit("env-recipes/openvino.toml", "device_type = \"CPU\"", "device_type = \"GPU\"");
    let said = audit(&project, &["--json"]);
    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("this case ran on"), "{}", said.stdout);
}

#[test]
fn a_library_that_stood_in_for_the_pinned_one_is_found_with_both_paths() {
    let (project, tree) = qualified(&[("LD_PRELOAD", "libtbb.so.12")]);
    let said = audit(&project, &[]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    let (planted, own) = (project.root.join("libtbb.so.12"), tree.join("onnxruntime/capi/libtbb.so.12"));
    let wanted = format!("{planted} was loaded, and {own} of the prefix should have been");
    assert!(said.stdout.contains(&wanted), "{wanted:?} is not in {}", said.stdout);
}

#[test]
fn pins_that_disagree_are_errors_and_no_evidence_is_a_wrong_request() {
    let project = Project::plain("");
    let said = project.say(&["audit"]);
    assert_eq!(said.code, 0, "{}", said.stdout);
    project.edit("env-recipes/openvino.toml", "version = \"1.24.1\"", "version = \"1.24.2\"");
    let said = project.say(&["audit"]);
    assert_eq!(said.code, 1);
    for wanted in [
        "recipe `openvino` wants onnxruntime-openvino 1.24.2, which is not locked",
        "onnxruntime-openvino 1.24.1 is locked, and no recipe wants it",
    ] {
        assert!(said.stdout.contains(wanted), "{wanted:?} is not in {}", said.stdout);
    }
    fs::write(project.root.join("flake.nix"), "{}").unwrap();
    let lock = r#"{"root":"root","nodes":{"root":{},"nixpkgs":{"locked":{"rev":"0a"}}},"version":7}"#;
    fs::write(project.root.join("flake.lock"), lock).unwrap();
    let said = project.say(&["audit"]);
    assert!(said.stdout.contains("the input `nixpkgs` has no revision or no hash of its content"), "{}", said.stdout);
    assert_eq!(project.say(&["audit", "--evidence", "golden"]).code, 2);
    assert_eq!(project.say(&["audit", "--evidence", "/absent"]).code, 3);
}
