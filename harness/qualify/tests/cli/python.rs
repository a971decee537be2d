//! Python environments and stacks in an image, made by the real uv for the Python at hand. No machine here has Singularity: a
//! script of that name stands in, which writes down what it was asked and runs it on the machine itself.

use super::project::{Project, Said};
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// `MAJOR.MINOR` of the machine's Python.
fn python_here() -> String {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-c", code]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Writes a recipe of an environment with these packages of the real index, and locks it.
fn environment(project: &Project, packages: &[(&str, &str)]) {
    let python = python_here();
    let wanted: Vec<String> = packages
        .iter()
        .map(|(name, version)| {
            format!(
                "[[artifact]]\nname = {name:?}\nversion = {version:?}\nindex = \"pypi\"\npython = {python:?}\n\
                 platform = \"x86_64-manylinux_2_28\"\n"
            )
        })
        .collect();
    let recipe = format!(
        "kind = \"python\"\ndescription = \"a test\"\nplatform = \"x86_64-linux\"\npython.version = {python:?}\n{}",
        wanted.concat()
    );
    fs::write(project.root.join("env-recipes/test.toml"), recipe).unwrap();
    let locked = project.say(&["recipe", "lock"]);
    assert_eq!(locked.code, 0, "{}", locked.stderr);
}

fn record(dir: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(Utf8Path::new(dir.trim()).join("prefix.json")).unwrap()).unwrap()
}

#[test]
fn an_environment_is_whole_recorded_and_left_alone_by_what_runs_in_it() {
    let project = Project::plain("");
    environment(&project, &[("coloredlogs", "15.0.1"), ("humanfriendly", "10.0")]);
    let said = project.say(&["recipe", "realise", "test", "--store", "store"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let python = &record(&said.stdout)["python"];
    assert!(python["version"].as_str().unwrap().starts_with(&python_here()), "{python}");
    assert!(Utf8Path::new(python["interpreter"].as_str().unwrap()).is_file(), "{python}");
    assert_eq!(python["packages"], serde_json::json!({ "coloredlogs": "15.0.1", "humanfriendly": "10.0" }));
    let requirements = fs::read_to_string(format!("{}/requirements.txt", said.stdout.trim())).unwrap();
    assert!(requirements.starts_with("coloredlogs==15.0.1 --hash=sha256:"), "{requirements}");

    let code = "import coloredlogs, sys, os; print(sys.prefix, os.environ['VIRTUAL_ENV'])";
    let ran = project.say(&["recipe", "shell", "test", "--store", "store", "--", "python", "-c", code]);
    let tree = format!("{}/tree", said.stdout.trim());
    assert_eq!(ran.stdout.trim(), format!("{tree} {tree}"), "{}", ran.stderr);
    let ran = project.say(&["recipe", "shell", "test", "--store", "store", "--", "humanfriendly", "--help"]);
    assert_eq!(
        (ran.code, ran.stdout.contains("Usage")),
        (0, true),
        "a script must find its own Python: {}",
        ran.stderr
    );
    let verified = project.say(&["recipe", "verify", "test", "--store", "store"]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
    assert!(project.say(&["run", "--recipe", "test"]).stderr.contains("is of kind `python`, and a `stack` is needed"));
}

#[test]
fn an_environment_that_lacks_a_package_or_is_for_another_python_is_refused() {
    let project = Project::plain("");
    environment(&project, &[("coloredlogs", "15.0.1")]);
    let said = project.say(&["recipe", "realise", "test", "--store", "store"]);
    assert_eq!(said.code, 3);
    assert!(said.stderr.contains("requires `humanfriendly"), "{}", said.stderr);
    project.edit("env-recipes/test.toml", "python.version = ", "python.version = \"2.0\" # ");
    let said = project.say(&["recipe", "realise", "test", "--store", "store"]);
    assert!(said.stderr.contains("`coloredlogs` must be a wheel for Python 2.0"), "{}", said.stderr);
}

#[test]
fn an_environment_for_a_python_that_is_not_there_says_which() {
    let project = Project::plain("");
    environment(&project, &[("coloredlogs", "15.0.1"), ("humanfriendly", "10.0")]);
    let text = fs::read_to_string(project.root.join("env-recipes/test.toml")).unwrap();
    let text = text.replace(&format!("{:?}", python_here()), "\"3.99\"");
    fs::write(project.root.join("env-recipes/test.toml"), text).unwrap();
    let mut command = project.command(&["recipe", "realise", "test", "--store", "store"]);
    let said: Said = command.env("UV_PYTHON_DOWNLOADS", "never").output().unwrap().into();
    assert!(said.code == 3 && said.stderr.contains("recipe `test` needs a Python 3.99, and uv"), "{}", said.stderr);
}

/// The first users' recipe with what can be had here: pypi's ONNX Runtime of that version, and the Python at hand. Gives the
/// folder of the stand-in.
fn image(project: &Project) -> Utf8PathBuf {
    let text = fs::read_to_string(project.root.join("env-recipes/cuda-container-cpu.toml")).unwrap();
    let python = python_here();
    let text = text
        .replace("\"onnxruntime-gpu\"", "\"onnxruntime\"")
        .replace("3.12", &python)
        .lines()
        .map(|line| if line.starts_with("index = \"https:") { "index = \"pypi\"" } else { line })
        .collect::<Vec<_>>()
        .join("\n");
    fs::write(project.root.join("env-recipes/cuda-container-cpu.toml"), text).unwrap();
    fs::remove_file(project.root.join("env-recipes/cuda-container.toml")).unwrap();
    let image = project.root.join("image.sif");
    fs::write(&image, "an image").unwrap();
    let sha256 = ort_qualify::digest::of_bytes(b"an image");
    let ours = format!(
        "extends = \"cuda-container-cpu\"\ndescription = \"ours\"\n[container]\nimage = \"{image}\"\nsha256 = \"{sha256}\"\n\
         bind = [\"/usr\"]\n"
    );
    fs::write(project.root.join("env-recipes/ours.toml"), ours).unwrap();
    let locked = project.say(&["recipe", "lock"]);
    assert_eq!(locked.code, 0, "{}", locked.stderr);

    let bin = project.root.join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\n\
         # A stand-in for singularity: no image is opened, the command runs on this machine.\n\
         echo \"$*\" >>{}\n\
         [ \"$1\" = exec ] || exit 64\n\
         shift\n\
         while :; do case $1 in --nv) shift ;; --bind) shift 2 ;; *) break ;; esac; done\n\
         shift\n\
         for name in $(env | sed -n 's/^SINGULARITYENV_\\([A-Z0-9_]*\\)=.*/\\1/p'); do\n\
             eval \"export $name=\\\"\\$SINGULARITYENV_$name\\\"\"\n\
         done\n\
         exec \"$@\"\n",
        project.root.join("asked")
    );
    fs::write(bin.join("singularity"), script).unwrap();
    fs::set_permissions(bin.join("singularity"), fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

/// The binary with the stand-in on its search path.
fn say(project: &Project, bin: &Utf8Path, words: &[&str]) -> Said {
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    project.command(words).env("PATH", path).output().unwrap().into()
}

#[test]
fn a_stack_in_an_image_sees_the_images_packages_and_its_workers_run_inside() {
    let project = Project::plain("");
    let bin = image(&project);
    let shown = project.say(&["recipe", "show", "ours"]);
    assert!(shown.stdout.contains("inside   singularity exec --bind /usr "), "{}", shown.stdout);
    let said = say(&project, &bin, &["recipe", "realise", "ours", "--store", "store"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let made = record(&said.stdout);
    let image_packages = made["python"]["image_packages"].as_object().unwrap();
    assert!(image_packages.contains_key("pip") || !image_packages.is_empty(), "{image_packages:?}");
    assert!(made["python"]["packages"].get("coloredlogs").is_some(), "{made}");
    let base = format!("{}/tree/lib/python{}/site-packages", said.stdout.trim(), python_here());
    let folders = fs::read_to_string(format!("{base}/image.pth")).unwrap();
    assert!(folders.lines().all(|line| line.starts_with('/')) && !folders.is_empty(), "{folders}");

    let ran = say(&project, &bin, &["run", "--recipe", "ours", "--store", "store"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let asked = fs::read_to_string(project.root.join("asked")).unwrap();
    let worker = asked.lines().rfind(|line| line.contains(" worker")).unwrap_or_else(|| panic!("{asked}"));
    assert!(worker.starts_with("exec --bind /usr --bind "), "{worker}");
    assert!(
        worker.contains(&format!("{}/image.sif {} worker", project.root, env!("CARGO_BIN_EXE_ort-qualify"))),
        "{worker}"
    );
    for folder in ["store", "target/evidence"] {
        assert!(worker.contains(&format!("--bind {}/{folder}", project.root)), "{folder}: {worker}");
    }
    let seen = fs::read_to_string(project.root.join("target/evidence/ours/sdpa_fp32__plain/observation.json")).unwrap();
    assert!(seen.contains(&format!("{base}/onnxruntime/capi/libonnxruntime.so.1.29.0")), "{seen}");
    let audited = say(&project, &bin, &["audit", "--evidence", "target/evidence", "--store", "store"]);
    assert_eq!(audited.code, 0, "{}", audited.stdout);
    let doctor = say(&project, &bin, &["recipe", "doctor", "ours", "--store", "store"]);
    assert!(
        doctor.code == 2 && doctor.stderr.contains("not available: recipe `ours` runs in an image"),
        "{}",
        doctor.stderr
    );

    // The image is part of what is pinned, before it is used the first time and every time after.
    fs::write(project.root.join("image.sif"), "another").unwrap();
    for words in [
        &["run", "--recipe", "ours", "--store", "store", "--rerun"][..],
        &["recipe", "realise", "ours", "--store", "other"],
    ] {
        let said = say(&project, &bin, words);
        let (found, pinned) = (ort_qualify::digest::of_bytes(b"another"), ort_qualify::digest::of_bytes(b"an image"));
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(&found) && said.stderr.contains(&pinned), "{}", said.stderr);
    }
    fs::remove_file(project.root.join("image.sif")).unwrap();
    let said = say(&project, &bin, &["recipe", "realise", "ours", "--store", "other"]);
    assert!(said.code == 3 && said.stderr.contains("there is no image file "), "{}", said.stderr);
}

#[test]
fn without_an_image_or_the_program_the_error_says_what_to_do() {
    let project = Project::plain("");
    let said = project.say(&["recipe", "realise", "cuda-container"]);
    assert!(said.code == 2 && said.stderr.contains("field `container.image` is not given"), "{}", said.stderr);
    let shown = project.say(&["recipe", "show", "cuda-container"]);
    assert!(shown.code == 0 && shown.stdout.contains("inside   singularity exec --nv"), "{}", shown.stdout);
    image(&project);
    let mut command = project.command(&["recipe", "realise", "ours", "--store", "store"]);
    let said: Said = command.env("PATH", "/nonexistent").output().unwrap().into();
    assert!(said.code == 3 && said.stderr.contains("there is no `singularity` on the PATH"), "{}", said.stderr);
}
