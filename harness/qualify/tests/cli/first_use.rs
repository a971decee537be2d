//! Hashes that nobody recorded: refused, or recorded on first use with who did so and when.

use super::project::{Project, Said};
use super::server::{Server, wheel};
use ort_qualify::digest;
use serde_json::Value;
use std::fs;

/// A project whose recipe `test` wants `thing 1.0` of a vendor's index, whose page says that the file has this hash.
fn project(stated: &str) -> (Project, Server, String) {
    let file = wheel("thing", "1.0", &[("share/data.txt", "from the vendor")]);
    let sha256 = digest::of_bytes(&file);
    let page = format!("<a href=\"/whl/thing-1.0-py3-none-any.whl#sha256={stated}\">thing-1.0-py3-none-any.whl</a>");
    let page = page.replace("THE FILE'S", &sha256);
    let server = Server::new([("/simple/thing/", page.into_bytes()), ("/whl/thing-1.0-py3-none-any.whl", file)]);
    let project = Project::plain("");
    wants(&project, &format!("{}/simple", server.address));
    (project, server, sha256)
}

fn wants(project: &Project, index: &str) {
    let recipe = format!(
        "kind = \"data\"\ndescription = \"a test\"\nplatform = \"x86_64-linux\"\ndata.path = \"share\"\n[[artifact]]\nname = \"thing\"\n\
         version = \"1.0\"\nindex = \"{index}\"\npython = \"3.12\"\nplatform = \"x86_64-manylinux_2_28\"\n"
    );
    fs::write(project.root.join("env-recipes/test.toml"), recipe).unwrap();
}

/// The lock's entry for `thing`.
fn entry(project: &Project) -> Value {
    let lock: Value =
        serde_json::from_str(&fs::read_to_string(project.root.join("env-recipes/lock.json")).unwrap()).unwrap();
    lock["artifacts"].as_array().unwrap().iter().find(|a| a["name"] == "thing").cloned().unwrap_or_default()
}

/// `recipe lock` while the index is away.
fn lock_without_index(project: &Project) {
    let recipe = fs::read_to_string(project.root.join("env-recipes/test.toml")).unwrap();
    let gone = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    wants(project, &format!("http://{gone}/simple"));
    let said = project.command(&["recipe", "lock"]).env("UV_HTTP_RETRIES", "0").output().map(Said::from).unwrap();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let index = recipe.lines().find_map(|l| l.strip_prefix("index = \"")?.strip_suffix('"')).unwrap();
    project.edit("env-recipes/lock.json", &format!("http://{gone}/simple"), index);
    fs::write(project.root.join("env-recipes/test.toml"), recipe).unwrap();
}

fn first_use(project: &Project) -> Said {
    let mut command = project.command(&["recipe", "realise", "test", "--record-on-first-use", "--store", "store"]);
    let variables = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "user.name"), ("GIT_CONFIG_VALUE_0", "A Tester")];
    command.envs(variables).output().unwrap().into()
}

#[test]
fn a_hash_is_recorded_on_first_use_only_when_asked_and_holds_from_then_on() {
    let (project, server, sha256) = project("THE FILE'S");
    lock_without_index(&project);
    let unrecorded = entry(&project);
    assert_eq!(unrecorded["reason"], "not recorded: index unreachable when locked", "{unrecorded}");
    assert_eq!((&unrecorded["sha256"], &unrecorded["hash_source"]), (&Value::Null, &"unrecorded".into()));
    let said = project.say(&["recipe", "realise", "test", "--store", "store"]);
    assert!(said.code == 2 && said.stderr.contains("recipe realise test --record-on-first-use"), "{}", said.stderr);
    assert_eq!(server.asked("/whl/thing-1.0-py3-none-any.whl"), 0, "what cannot be checked is not even fetched");

    let said = first_use(&project);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains(&sha256) && said.stderr.contains("by A Tester"), "{}", said.stderr);
    let recorded = entry(&project);
    assert_eq!((&recorded["sha256"], &recorded["path"]), (&sha256.into(), &"whl/thing-1.0-py3-none-any.whl".into()));
    let source = recorded["hash_source"].as_str().unwrap();
    let date = source.strip_prefix("recorded on first use, ").unwrap().strip_suffix(", by A Tester").unwrap();
    assert!(date.len() == 10 && date.starts_with("20"), "{source}");
    let audited = project.say(&["audit", "--json"]);
    assert!(audited.code == 0 && audited.stdout.contains(source), "{}", audited.stdout);
    // The second time there is nothing to record.
    assert_eq!(first_use(&project).code, 0);
    assert_eq!(entry(&project), recorded);
}

#[test]
fn an_index_that_contradicts_its_file_is_believed_in_neither() {
    let (project, _server, sha256) = project(&"0".repeat(64));
    lock_without_index(&project);
    let said = first_use(&project);
    assert_eq!(said.code, 2, "{}", said.stderr);
    let wanted = format!("has the SHA-256 {sha256}, and the index says {}", "0".repeat(64));
    assert!(said.stderr.contains(&wanted) && entry(&project)["sha256"].is_null(), "{}", said.stderr);
}

#[test]
fn a_vendors_index_that_answers_is_locked_with_the_hash_of_its_file() {
    let (project, _server, sha256) = project("THE FILE'S");
    assert_eq!(project.say(&["recipe", "lock", "--check"]).code, 1);
    let said = project.say(&["recipe", "lock"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let locked = entry(&project);
    assert_eq!((&locked["sha256"], &locked["hash_source"]), (&sha256.into(), &"computed here".into()));
    let realised = project.say(&["recipe", "realise", "test", "--store", "store"]);
    assert_eq!(realised.code, 0, "{}", realised.stderr);
}
