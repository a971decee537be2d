//! What a recipe may say: parents, variables, accelerators, cases it is unfit for, a vendor's own index.

use super::project::{Project, group};
use super::server::{Server, wheel};
use ort_qualify::digest;
use std::fs;

/// A recipe that says only what it has otherwise than `cpu`.
fn child(project: &Project, name: &str, rest: &str) {
    let text = format!("extends = \"cpu\"\ndescription = \"a test\"\n{rest}");
    fs::write(project.root.join(format!("env-recipes/{name}.toml")), text).unwrap();
}

#[test]
fn a_child_has_its_parents_pins_and_its_own_settings() {
    let project = Project::plain("");
    child(&project, "child", "[session]\n\"session.disable_prepacking\" = \"1\"\n");
    let shown = project.say(&["recipe", "show", "child", "--json"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for wanted in ["onnxruntime-1.32.0", "session.disable_prepacking", "\"description\": \"a test\""] {
        assert!(shown.stdout.contains(wanted), "{wanted:?} is not in {}", shown.stdout);
    }
    let run = project.run(&["--recipe", "child"]);
    assert_eq!(run.code, 0, "{}", run.json);
}

#[test]
fn wrong_parents_are_2_and_name_the_file_and_the_way() {
    for (child_of, wanted) in [
        ("child", "`child` extends `child`: a circle"),
        ("cpuu", "there is no recipe `cpuu` (did you mean `cpu`?)"),
        ("second", "`child` extends `second` extends `child`: a circle"),
    ] {
        let project = Project::plain("");
        child(&project, "child", "");
        child(&project, "second", "");
        project.edit("env-recipes/child.toml", "\"cpu\"", &format!("{child_of:?}"));
        project.edit("env-recipes/second.toml", "\"cpu\"", "\"child\"");
        let said = project.say(&["recipe", "show", "child"]);
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains(wanted) && said.stderr.contains(".toml"), "{wanted:?} is not in {}", said.stderr);
    }
    let project = Project::plain("");
    child(&project, "child", "provder = 1\n");
    let said = project.say(&["recipe", "show", "child"]);
    assert!(said.stderr.contains("did you mean `provider`?"), "{}", said.stderr);
}

#[test]
fn a_shell_has_a_workers_variables_added_to_and_taken_from() {
    let project = Project::plain("");
    let rest = "unset = [\"ORT_TEST_*\"]\n[append.PASSES]\nvalue = \"mine\"\nseparator = \",\"\n[env]\nHOME_OF = \"${PREFIX}/x\"\n";
    child(&project, "child", rest);
    let mut command = project.command(&["recipe", "shell", "child", "--", "env"]);
    let strays = [("ORT_TEST_STRAY", "1"), ("ORT_MIGRAPHX_MODEL_CACHE_PATH", "/compiled/by/another")];
    let output = command.env("PASSES", "theirs").envs(strays).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let has = |line: &str| said.lines().any(|l| l == line);
    assert!(has("PASSES=theirs,mine") && has("ORT_QUALIFY_RECIPE=child"), "{said}");
    assert!(said.contains("/tree/x\n") && !said.contains("ORT_TEST_STRAY"), "{said}");
    assert!(!said.contains("/compiled/by/another"), "a compiled model of another recipe could be reused: {said}");
    assert_eq!(project.say(&["recipe", "shell", "child", "--", "/absent"]).code, 2);
}

#[test]
fn cases_are_skipped_where_the_accelerator_is_missing_or_the_recipe_declared_unfit() {
    let project = Project::new(&group("sdpa_fp32", "plain", "tags = [\"hashing\"]"));
    child(&project, "child", "[[unfit]]\ntag = \"hashing\"\nreason = \"its users say so\"\n");
    let run = project.run(&["--recipe", "child"]);
    assert_eq!((run.code, run.verdict("sdpa_fp32/plain").0.as_str()), (2, "skipped"), "nothing was run");
    assert!(run.verdict("sdpa_fp32/plain").1.contains("unfit for `hashing`: its users say so"), "{}", run.json);
    let listed = project.say(&["list", "--recipe", "child"]);
    assert!(listed.stdout.contains("skipped here: recipe `child` is declared unfit for"), "{}", listed.stdout);
    if !std::path::Path::new("/dev/kfd").exists() {
        child(&project, "other", "[host]\ndevice = \"amd\"\n");
        let run = project.run(&["--recipe", "other"]);
        assert_eq!(run.code, 3, "the environment could not be had");
        assert!(run.verdict("sdpa_fp32/plain").1.contains("there is no /dev/kfd"), "{}", run.json);
    }
}

#[test]
fn a_provider_that_cannot_be_loaded_quotes_the_loader_and_is_no_cpu_run() {
    let project = Project::plain("");
    project.edit("env-recipes/cuda-host.toml", "device = \"nvidia\"\n", "");
    if std::path::Path::new("/proc/driver/nvidia/version").exists() {
        eprintln!("not available: this machine has what the provider needs");
        return;
    }
    let (verdict, reasons) = project.run(&["--recipe", "cuda-host"]).verdict("sdpa_fp32/plain");
    assert_eq!(verdict, "fail@session");
    assert!(
        reasons.contains("Failed to load library") && reasons.contains("cannot open shared object file"),
        "{reasons}"
    );
}

#[test]
fn a_vendors_index_is_an_address_and_its_files_are_held_to_their_hash() {
    let file = wheel("thing", "1.0+v1", &[("thing/data.txt", "from the vendor")]);
    let server = Server::new([("/a/thing-1.0+v1-py3-none-any.whl", file.clone())]);
    // What stands behind the host belongs to the index, not to the path of the file.
    let index = format!("{}/simple", server.address);
    let project = Project::plain("");
    let recipe = format!(
        "kind = \"data\"\ndescription = \"a test\"\nplatform = \"x86_64-linux\"\n[[artifact]]\nname = \"thing\"\nversion = \"1.0+v1\"\n\
         index = \"{index}\"\npython = \"3.12\"\nplatform = \"x86_64-manylinux_2_28\"\n[data]\npath = \"thing\"\n"
    );
    fs::write(project.root.join("env-recipes/vendor.toml"), recipe).unwrap();
    let entry = |sha256: &str| {
        format!(
            "\"artifacts\": [\n{{\"name\": \"thing\", \"version\": \"1.0+v1\", \"index\": \"{index}\", \"filename\": \"thing-1.0+v1-py3-none-any.whl\", \
             \"path\": \"a/thing-1.0+v1-py3-none-any.whl\", \"size\": null, \"sha256\": \"{sha256}\", \"hash_source\": \"third party, 2 origins\", \"reason\": null}},"
        )
    };
    let pristine = fs::read_to_string(project.root.join("env-recipes/lock.json")).unwrap();
    let lock = |sha256: &str| {
        let text = pristine.replacen("\"artifacts\": [", &entry(sha256), 1);
        fs::write(project.root.join("env-recipes/lock.json"), text).unwrap();
    };
    let store = project.root.join("store");
    let realise = || project.say(&["recipe", "realise", "vendor", "--store", store.as_str()]);
    lock(&"0".repeat(64));
    let said = realise();
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.to_lowercase().contains("hash"), "{}", said.stderr);
    lock(&digest::of_bytes(&file));
    let said = realise();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let read = fs::read_to_string(format!("{}/tree/thing/data.txt", said.stdout.trim())).unwrap();
    assert_eq!(read, "from the vendor");
    fs::write(project.root.join("env-recipes/lock.json"), &pristine).unwrap();
    let said = project.say(&["recipe", "lock"]);
    let wanted = format!("cannot lock thing 1.0+v1 of `{index}`");
    assert!(said.code == 2 && said.stderr.contains(&wanted), "the index has no such page: {}", said.stderr);
}
