//! The doctor on real wheels: what their libraries need, and what this machine lacks.

use super::project::Project;
use std::fs;

#[test]
fn nothing_is_missing_for_the_cpu_recipe_and_the_machines_share_is_named() {
    let said = Project::plain("").say(&["recipe", "doctor", "cpu"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("libstdc++.so.6: this machine's /"), "{}", said.stdout);
    assert!(said.stdout.ends_with("cpu: nothing is missing\n"), "{}", said.stdout);
}

#[test]
fn libraries_of_providers_that_are_not_asked_for_are_not_missed() {
    if std::path::Path::new("/proc/driver/nvidia/version").exists() {
        eprintln!("not available: this machine has what the provider needs");
        return;
    }
    let said = Project::plain("").say(&["recipe", "doctor", "cuda-host"]);
    assert!(
        said.code == 1 && said.stdout.contains("missing: libcuda.so.1: needed by"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    assert!(said.stdout.contains("accelerator: missing: there is no /proc/driver/nvidia/version"), "{}", said.stdout);
    assert!(!said.stdout.contains("libnvinfer"), "TensorRT is another provider: {}", said.stdout);
}

/// The build of that name on the user's index is a third party's: only what its libraries need is of interest here.
#[test]
fn the_migraphx_provider_needs_what_a_machine_without_rocm_lacks() {
    if std::path::Path::new("/opt/rocm").exists() {
        eprintln!("not available: this machine has ROCm");
        return;
    }
    let project = Project::plain("");
    let recipe = fs::read_to_string(project.root.join("env-recipes/cpu-1.23.2.toml")).unwrap();
    let recipe = recipe
        .replacen("name = \"onnxruntime\"", "name = \"onnxruntime-migraphx\"", 1)
        .replace("manylinux_2_28", "manylinux_2_34")
        .replace("name = \"cpu\"", "name = \"migraphx\"");
    fs::write(project.root.join("env-recipes/third-party.toml"), recipe).unwrap();
    let locked = "\"artifacts\": [\n{\"name\": \"onnxruntime-migraphx\", \"version\": \"1.23.2\", \"index\": \"pypi\",
        \"filename\": \"onnxruntime_migraphx-1.23.2-cp312-cp312-manylinux_2_34_x86_64.whl\",
        \"path\": \"packages/97/f0/4a6d4a4a43ca26bd71b7775b3f083b4a348d3b00a0a77e9b74bfe375de42/onnxruntime_migraphx-1.23.2-cp312-cp312-manylinux_2_34_x86_64.whl\",
        \"size\": 19721753, \"sha256\": \"0e4bd7ab20bc95b46d3a307a4493687b6eb306d8b6e2cff803cacbeb16d6c100\",
        \"hash_source\": \"computed here\", \"reason\": null},";
    project.edit("env-recipes/lock.json", "\"artifacts\": [", locked);
    let said = project.say(&["recipe", "doctor", "third-party"]);
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    let wanted = "missing: libmigraphx_c.so.3: needed by libonnxruntime_providers_migraphx.so";
    assert!(said.stdout.contains(wanted), "{}", said.stdout);
    assert!(said.stdout.contains("it is AMD's MIGraphX, a native prerequisite"), "{}", said.stdout);
    let (verdict, reasons) = project.run(&["--recipe", "third-party"]).verdict("sdpa_fp32/plain");
    let wanted = "libmigraphx_c.so.3: cannot open shared object file";
    assert!(verdict == "fail@session" && reasons.contains(wanted), "{verdict}: {reasons}");
    overlaid(&project);
}

/// The same with Debian's C++ runtime before the machine's, for which an older one stands in.
fn overlaid(project: &Project) {
    let has_apt = std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|f| f.join("apt-get").exists());
    if !has_apt || ort_qualify::recipe::glibc() < Some((2, 36)) {
        eprintln!("not available: the overlay needs apt and glibc 2.36");
        return;
    }
    let overlay = "[[overlay]]\nglibc = \"2.36\"\nlibrary_dir = \"usr/lib/x86_64-linux-gnu\"\n[overlay.artifact]\n\
                   name = \"libstdc++6\"\nversion = \"12.2.0-14+deb12u1\"\nindex = \"debian\"\n[library]";
    project.edit("env-recipes/third-party.toml", "[library]", overlay);
    // Apart: apt itself could not run on the stand-in.
    let realised = project.say(&["recipe", "realise", "third-party"]);
    if realised.stderr.contains("`debian` through apt") {
        eprintln!("not available: this machine's apt does not have the overlay: {}", realised.stderr);
        return;
    }
    assert_eq!(realised.code, 0, "{}", realised.stderr);
    let old = stand_in(project);
    let output = project.command(&["recipe", "doctor", "third-party"]).env("LD_LIBRARY_PATH", &old).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let wanted = format!(
        "supplied: libstdc++.so.6 with GLIBCXX_3.4.30: libstdc++6 supplies it, and {old}/libstdc++.so.6 does not"
    );
    assert!(said.contains(&wanted), "{wanted:?} is not in {said}");
    assert!(!said.contains("missing: libstdc++") && !said.contains("with GLIBCXX_3.4.29: libstdc++6"), "{said}");
}

/// A library that offers what the C++ runtime of Alma Linux 9 does, as far as its symbol versions go: the folder that holds it.
fn stand_in(project: &Project) -> camino::Utf8PathBuf {
    let folder = project.root.join("old");
    fs::create_dir(&folder).unwrap();
    let (code, map, library) = (folder.join("a.c"), folder.join("a.map"), folder.join("libstdc++.so.6"));
    let versions: Vec<String> = (0..30).map(|n| format!("GLIBCXX_3.4.{n}")).chain(["GLIBCXX_3.4".to_owned()]).collect();
    let numbered = versions.iter().enumerate();
    let codes: Vec<String> = numbered.clone().map(|(i, _)| format!("int stands_in_{i} = 1;\n")).collect();
    let maps: Vec<String> = numbered.map(|(i, v)| format!("{v} {{ stands_in_{i}; }};\n")).collect();
    fs::write(&code, codes.concat()).unwrap();
    fs::write(&map, maps.concat()).unwrap();
    let script = format!("-Wl,--version-script={map}");
    let built =
        std::process::Command::new("cc").args(["-shared", "-o", library.as_str(), code.as_str(), &script]).status();
    assert!(built.unwrap().success(), "a compiler is there wherever Rust links");
    folder
}
