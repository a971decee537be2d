//! Requests and files that are wrong: one paragraph that names the file and the field, exit code 2 (3 for what the
//! environment does not give), or a verdict that failed; never a panic.

use super::project::{Project, group, identity};
use std::fs;

/// Exit code and the one line on standard error.
fn refused(project: &Project, words: &[&str]) -> (i32, String) {
    let said = project.say(words);
    assert!(said.stderr.starts_with("error: ") && !said.stderr.contains("panicked"), "{}", said.stderr);
    (said.code, said.stderr)
}

#[test]
fn wrong_requests_are_2_and_name_the_nearest() {
    let project = Project::plain("");
    for (words, wanted) in [
        (&["run", "sdpa_fp32/plian"][..], "did you mean `sdpa_fp32/plain`?"),
        (&["run", "no such case at all"], "no case matches `no such case at all`"),
        (&["run", "--tag", "nothing"], "with tags [\"nothing\"]"),
        (&["run", "[a"], "the filter is no glob: error parsing glob '[a': unclosed character class; missing ']'\n"),
        (&["run", "--recipe", "cpu-1.32.2"], "did you mean `cpu-1.23.2`?"),
        (&["run", "--recipe", "onnx-node-tests"], "onnx-node-tests"),
        (&["run", "--jobs", "0"], "--jobs 0"),
        (&["run", "--bundles", "/absent"], "/absent"),
        (&["list", "zzz"], "no case matches"),
        (&["run", "--root", "/tmp"], "has no env-recipes/ and golden/cases/"),
        (&["run", "--fault", "nap@run"], "nap"),
    ] {
        let (code, error) = refused(&project, words);
        assert_eq!(code, 2, "{words:?}: {error}");
        assert!(error.contains(wanted), "{words:?}: {wanted:?} is not in {error}");
    }
}

#[test]
fn wrong_case_files_are_2_and_name_file_and_field() {
    let known =
        |rest: &str| format!("[[group.known_failure]]\nstage = \"run\"\npattern = \"x\"\nreason = \"r\"\n{rest}");
    for (rest, wanted) in [
        ("limts = \"fp32\"", "did you mean `limits`?"),
        ("limits = \"fp23\"", "did you mean `fp32`?"),
        ("limits = { nonfinite = \"match\" }", "do not bound the error"),
        ("isolation = \"own\"", "unknown variant `own`"),
        (
            "[[group]]\nname = \"sdpa_fp32/plain\"\nbundles = [\"x\"]\nbatches = [\"y\"]",
            "`sdpa_fp32/plain` stands twice",
        ),
        ("[[group]]\nname = \"a b\"\nbundles = [\"x\"]\nbatches = [\"y\"]", "`a b` is no case name"),
        (&known("").replace("\"x\"", "\"(\""), "pattern"),
        (&known("").replace("\"r\"", "\" \""), "reason is empty"),
        (&known("bundles = [\"other\"]"), "name no case of the group"),
        (&known("").replace("\"x\"", "\"x*\""), "pattern matches every text"),
        (&known("recipes = [\"cpuu\"]"), "`cpuu` matches no recipe (did you mean `cpu`?)"),
        ("timeout_s = 0", "timeout_s of group `{bundle}/{batch}`: must be from 1 to 86400 seconds"),
        ("timeout_s = 9223372036854775807", "must be from 1 to 86400 seconds"),
        ("recipes = [\"gpu\"]", "`gpu` matches no recipe"),
        ("[[group]]\nname = \"x\"\nbundles = []\nbatches = [\"y\"]", "bundles of group `x`: is empty"),
        ("[[group]]\nname = \"a__b\"\nbundles = [\"x\"]\nbatches = [\"y\"]", "no `__`"),
        ("[[group]]\nname = \"--help\"\nbundles = [\"x\"]\nbatches = [\"y\"]", "a letter or digit first"),
        (&format!("[[group]]\nname = \"{}\"\nbundles = [\"x\"]\nbatches = [\"y\"]", "n".repeat(121)), "120 characters"),
        (
            "[pins.sdpa_fp23]\n\"model.onnx\" = \"00\"",
            "pins.sdpa_fp23: no group names such a bundle (did you mean `sdpa_fp32`?)",
        ),
        ("[pins.sdpa_fp32]\n\"../x\" = \"00\"", "must be a path below the bundle"),
        ("[pins.sdpa_fp32]\n\"x\" = \"00ff\"", "a pin is 64 lower-case hex digits"),
    ] {
        let (code, error) = refused(&Project::plain(rest), &["run"]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("golden/cases/cases.toml") && error.contains(wanted), "{wanted:?} is not in {error}");
    }
    let project = Project::plain("");
    fs::remove_file(project.root.join("golden/cases/cases.toml")).unwrap();
    assert!(refused(&project, &["run"]).1.contains("no case files"));
}

/// Spoils a project's bundle.
type Spoil<'a> = &'a dyn Fn(&Project);

#[test]
fn what_is_wrong_with_a_bundle_is_a_verdict_on_its_cases() {
    let bundle = "golden/bundles/sdpa_fp32";
    let spoil: [(&str, Spoil); 5] = [
        ("inputs.npz", &|p| {
            let path = p.root.join(bundle).join("inputs.npz");
            let mut bytes = fs::read(&path).unwrap();
            bytes[1000] ^= 1;
            fs::write(&path, bytes).unwrap();
        }),
        ("model.onnx", &|p| fs::remove_file(p.root.join(bundle).join("model.onnx")).unwrap()),
        ("bundle.toml", &|p| p.edit("golden/bundles/sdpa_fp32/bundle.toml", "format = 1", "format = 9")),
        ("sdpa_fp32", &|p| fs::remove_dir_all(p.root.join(bundle)).unwrap()),
        ("plian", &|p| p.edit("golden/cases/cases.toml", "\"plain\"", "\"plian\"")),
    ];
    for (named, spoil) in spoil {
        let project = Project::plain("");
        spoil(&project);
        let run = project.run(&[]);
        assert_eq!(run.code, 1, "{named}");
        let case = &run.json["cases"][0];
        assert_eq!((case["verdict"].as_str(), case["stage"].as_str()), (Some("fail"), Some("load")), "{case}");
        assert!(case["reasons"][0].as_str().unwrap().contains(named), "{case}");
    }
}

#[test]
fn pins_of_a_bundle_without_hashes_are_held() {
    let pin = "0".repeat(64);
    let pins = format!("[pins.sdpa_fp32]\n\"model.onnx\" = \"{pin}\"\n");
    let project = Project::new(&format!("{}{pins}", group("sdpa_fp32", "plain", "")));
    let (verdict, reasons) = project.run(&[]).verdict("sdpa_fp32/plain");
    assert_eq!(verdict, "fail@load");
    assert!(reasons.contains("model.onnx: sha256 is") && reasons.contains(&format!("pins {pin}")), "{reasons}");
}

#[test]
fn a_model_beyond_the_library_is_refused_at_the_session_in_its_words() {
    let project = Project::new(&group("beyond", "plain", "limits = \"fp32\""));
    identity(&project, "beyond", [1.0, 2.0], |g| {
        g.ir_version(99);
    });
    let (verdict, reasons) = project.run(&[]).verdict("beyond/plain");
    assert_eq!(verdict, "fail@session");
    assert!(reasons.contains("Unsupported model IR version: 99"), "{reasons}");

    let project = Project::new(&group("beyond", "plain", "limits = \"fp32\""));
    identity(&project, "beyond", [1.0, 2.0], |g| {
        g.opset("", 99);
    });
    let (verdict, reasons) = project.run(&[]).verdict("beyond/plain");
    assert_eq!(verdict, "fail@session");
    assert!(reasons.contains("Opset 99"), "{reasons}");
}

#[test]
fn a_case_without_limits_anywhere_fails_and_says_so() {
    let project = Project::new(&group("loose", "plain", ""));
    identity(&project, "loose", [1.0, 2.0], |_| {});
    let (verdict, reasons) = project.run(&[]).verdict("loose/plain");
    assert_eq!(verdict, "fail@load");
    assert!(reasons.contains("states limits for output `y`"), "{reasons}");
}

#[test]
fn a_changed_library_is_noticed_before_it_is_loaded() {
    let project = Project::plain("");
    let store = project.root.join("store");
    let said = project.say(&["recipe", "realise", "cpu", "--store", store.as_str(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let dir: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let library = format!("{}/tree/onnxruntime/capi/libonnxruntime.so.1.32.0", dir["dir"].as_str().unwrap());
    let half = fs::metadata(&library).unwrap().len() / 2;
    fs::OpenOptions::new().write(true).open(&library).unwrap().set_len(half).unwrap();
    let (code, error) = refused(&project, &["run", "--store", store.as_str()]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("libonnxruntime.so.1.32.0") && error.contains("bytes instead of"), "{error}");
    assert!(!project.root.join("target/evidence/cpu").exists(), "no worker was started");
}

#[test]
fn limits_for_outputs_that_are_not_there_are_refused_with_the_nearest() {
    let project = Project::plain("output_limits = { outptu = \"exact\" }");
    let (verdict, reasons) = project.run(&[]).verdict("sdpa_fp32/plain");
    assert_eq!(verdict, "fail@load");
    assert!(reasons.contains("output_limits names `outptu` (did you mean `output`?)"), "{reasons}");
}

#[test]
fn a_recipe_for_an_unknown_provider_is_2() {
    let project = Project::plain("");
    project.edit("env-recipes/cpu.toml", "name = \"cpu\"", "name = \"cudda\"");
    let (code, error) = refused(&project, &["run"]);
    assert_eq!(code, 2);
    assert!(error.contains("provider.name") && error.contains("did you mean `cuda`?"), "{error}");
}

/// The binary under a limit of file sizes, in blocks of 512 bytes: a full disk that needs no disk.
fn with_small_files(project: &Project, blocks: u32, words: &[&str]) -> (i32, String) {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let program = env!("CARGO_BIN_EXE_ort-qualify");
    let output = std::process::Command::new("sh")
        .args(["-c", &script, program])
        .args(words)
        .current_dir(&project.root)
        .output()
        .unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn evidence_that_cannot_be_written_is_3_and_leaves_nothing_half_done() {
    let project = Project::plain("");
    assert_eq!(project.run(&[]).code, 0);
    let before = project.evidence("sdpa_fp32/plain", "observation.json");
    let (code, error) = with_small_files(&project, 1, &["run", "--rerun"]);
    assert_eq!(code, 3, "{error}");
    assert!(error.starts_with("error: cannot write evidence below") && error.contains("--evidence"), "{error}");
    assert_eq!(project.evidence("sdpa_fp32/plain", "observation.json"), before);
    let left = project.root.join("target/evidence/cpu").read_dir_utf8().unwrap().count();
    assert_eq!(left, 1, "no half-written folder is left");
}
