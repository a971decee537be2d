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
}
