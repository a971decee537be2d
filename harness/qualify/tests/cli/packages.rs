//! Packages that are no wheels, two that get in each other's way, and an index that cannot be reached.

use super::project::Project;
use super::server::{Server, wheel, zipped};
use camino::Utf8Path;
use ort_qualify::digest;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs;

/// A file that a recipe of the test wants: name, index, path behind the host, content.
struct Pin<'a> {
    name: &'a str,
    index: &'a str,
    path: &'a str,
    bytes: &'a [u8],
}

/// Writes the recipe `test` of these artifacts, of kind `data`, and their pins.
fn pin(project: &Project, pins: &[Pin]) {
    let wanted: Vec<String> = pins.iter().map(Pin::wanted).collect();
    let recipe = format!(
        "kind = \"data\"\ndescription = \"a test\"\nplatform = \"x86_64-linux\"\ndata.path = \"share\"\n{}",
        wanted.concat()
    );
    fs::write(project.root.join("env-recipes/test.toml"), recipe).unwrap();
    let entries: Vec<String> = pins.iter().map(Pin::entry).collect();
    project.edit("env-recipes/lock.json", "\"artifacts\": [", &format!("\"artifacts\": [{}", entries.concat()));
}

impl Pin<'_> {
    fn wanted(&self) -> String {
        let Self { name, index, path, .. } = self;
        let is_wheel = Utf8Path::new(path).extension() == Some("whl");
        let tags = if is_wheel { "python = \"3.12\"\nplatform = \"x86_64-manylinux_2_28\"\n" } else { "" };
        format!("[[artifact]]\nname = {name:?}\nversion = \"1.0\"\nindex = {index:?}\n{tags}")
    }

    fn entry(&self) -> String {
        let Self { name, index, path, bytes } = self;
        let (size, sha256, filename) = (bytes.len(), digest::of_bytes(bytes), Utf8Path::new(path).file_name().unwrap());
        format!(
            "{{\"name\": {name:?}, \"version\": \"1.0\", \"index\": {index:?}, \"filename\": {filename:?}, \"path\": {path:?}, \
             \"size\": {size}, \"sha256\": {sha256:?}, \"hash_source\": \"computed here\", \"reason\": null}},"
        )
    }
}

fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        if let Some(target) = text.strip_prefix("-> ") {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, name, target).unwrap();
        } else {
            header.set_size(text.len() as u64);
            tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
    }
    compress_to_vec(&*tar.into_inner().unwrap(), CompressionLevel::Fastest)
}

fn conda(files: &[(&str, &str)]) -> Vec<u8> {
    zipped([("metadata.json", &b"{}"[..]), ("pkg-thing-1.0.tar.zst", &tar(files))])
}

fn deb(files: &[(&str, &str)]) -> Vec<u8> {
    let mut deb = ar::Builder::new(Vec::new());
    for (name, bytes) in
        [("debian-binary", b"2.0\n".to_vec()), ("control.tar.zst", tar(&[])), ("data.tar.zst", tar(files))]
    {
        deb.append(&ar::Header::new(name.into(), bytes.len() as u64), &*bytes).unwrap();
    }
    deb.into_inner().unwrap()
}

#[test]
fn packages_of_conda_and_debian_lie_beside_wheels_with_their_links_and_their_names() {
    let conda = conda(&[("lib/libx.so.1.2", "x"), ("lib/libx.so.1", "-> libx.so.1.2"), ("share/c.txt", "conda")]);
    let deb = deb(&[("./share/d.txt", "debian"), ("./lib/libx.so.1.2", "x")]);
    let wheel = wheel("third", "1.0", &[("share/w.txt", "wheel")]);
    let server = Server::new([
        ("/channel/linux-64/x-1.0.conda", conda.clone()),
        ("/w/third-1.0-py3-none-any.whl", wheel.clone()),
    ]);
    let index = format!("{}/channel", server.address);
    let project = Project::plain("");
    let pins = [
        Pin { name: "x", index: &index, path: "channel/linux-64/x-1.0.conda", bytes: &conda },
        Pin { name: "thing", index: "debian", path: "pool/t/thing_1.0+a_amd64.deb", bytes: &deb },
        Pin { name: "third", index: &index, path: "w/third-1.0-py3-none-any.whl", bytes: &wheel },
    ];
    pin(&project, &pins);
    let mirror = project.root.join("mirror/pool/t");
    fs::create_dir_all(&mirror).unwrap();
    fs::write(mirror.join("thing_1.0+a_amd64.deb"), &deb).unwrap();
    let store = project.root.join("store");
    let mut command = project.command(&["recipe", "realise", "test", "--store", store.as_str()]);
    let output = command.env("ORT_QUALIFY_DEBIAN_MIRROR", project.root.join("mirror")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let dir = String::from_utf8(output.stdout).unwrap();
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(format!("{}/prefix.json", dir.trim())).unwrap()).unwrap();
    let of = |path: &str| {
        let files = record["files"].as_array().unwrap();
        files.iter().find(|f| f["path"] == path).unwrap_or_else(|| panic!("no {path} in {record}"))
    };
    assert_eq!((&of("share/w.txt")["artifact"], &of("share/d.txt")["artifact"]), (&"third".into(), &"thing".into()));
    assert_eq!(
        (&of("lib/libx.so.1.2")["artifact"], &of("lib/libx.so.1")["link"]),
        (&"x".into(), &"libx.so.1.2".into())
    );
    assert_eq!(record["artifacts"][1]["path"], "pool/t/thing_1.0+a_amd64.deb");
    assert!(!store.join(".fetched").exists(), "what is in place need not be kept twice");
    let verify = || project.say(&["recipe", "verify", "test", "--store", store.as_str()]);
    assert_eq!(verify().code, 0);
    let link = format!("{}/tree/lib/libx.so.1", dir.trim());
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/lib/libx.so.1", &link).unwrap();
    let said = verify();
    assert!(said.code == 3 && said.stderr.contains("lib/libx.so.1 (a link to /lib/libx.so.1)"), "{}", said.stderr);
}

#[test]
fn two_artifacts_that_bring_different_files_to_one_place_are_refused_by_name() {
    let one = wheel("one", "1.0", &[("share/lib.so", "of one")]);
    let two = wheel("two", "1.0", &[("share/lib.so", "of two")]);
    let conda = conda(&[("share/lib.so", "of conda")]);
    let server = Server::new([
        ("/one-1.0-py3-none-any.whl", one.clone()),
        ("/two-1.0-py3-none-any.whl", two.clone()),
        ("/c.conda", conda.clone()),
    ]);
    let index = &server.address;
    let first = Pin { name: "one", index, path: "one-1.0-py3-none-any.whl", bytes: &one };
    for second in [
        Pin { name: "two", index, path: "two-1.0-py3-none-any.whl", bytes: &two },
        Pin { name: "c", index, path: "c.conda", bytes: &conda },
    ] {
        let project = Project::plain("");
        let wanted = format!("recipe `test`: one and {} both bring share/lib.so, and differ in it", second.name);
        pin(&project, &[Pin { ..first }, second]);
        let said = project.say(&["recipe", "realise", "test", "--store", "store"]);
        assert!(said.code == 2 && said.stderr.contains(&wanted), "{wanted:?} is not in {}", said.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_had_is_named_with_its_address_and_what_was_fetched_is_kept() {
    let good = conda(&[("share/x", "x")]);
    let server = Server::new([("/good.conda", good.clone()), ("/other.conda", b"another file".to_vec())]);
    let closed = Server::new([("/", Vec::new())]).address;
    // A port that was free a moment ago.
    let gone = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let gone = format!("http://{gone}");
    let first = |bytes| Pin { name: "good", index: &server.address, path: "good.conda", bytes };
    for (index, path, code, told) in [
        (&gone, "bad.conda", 3, format!("cannot fetch bad 1.0 from {gone}/bad.conda: it could not be reached")),
        (&closed, "bad.conda", 3, format!("from {closed}/bad.conda: it does not have the file")),
        (&server.address, "other.conda", 2, "has the SHA-256 ".to_owned()),
    ] {
        let project = Project::plain("");
        pin(&project, &[first(&good), Pin { name: "bad", index, path, bytes: b"what is pinned" }]);
        let before = server.asked("/good.conda");
        for _ in 0..2 {
            let said = project.say(&["recipe", "realise", "test", "--store", "store"]);
            assert!(
                said.code == code && said.stderr.contains(&told),
                "{told:?} is not in {}: {}",
                said.code,
                said.stderr
            );
        }
        assert_eq!(server.asked("/good.conda") - before, 1, "fetched again though it was kept");
    }
    let project = Project::plain("");
    pin(&project, &[first(&good)]);
    let said = project.say(&["recipe", "realise", "test", "--store", "store", "--offline"]);
    assert!(said.code == 3 && said.stderr.contains("--offline forbids it"), "{}", said.stderr);
    fs::remove_file(project.root.join("env-recipes/test.toml")).unwrap();
    pin(&project, &[Pin { name: "thing", index: "debian", path: "p/thing.deb", bytes: &good }]);
    let mut command = project.command(&["recipe", "realise", "test", "--store", "store"]);
    let output = command.env("PATH", "/nonexistent").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no apt-get; ORT_QUALIFY_DEBIAN_MIRROR may name a mirror"), "{said}");
}

#[test]
fn a_machine_on_which_no_overlay_loads_is_told_every_version() {
    let project = Project::plain("");
    project.edit("env-recipes/migraphx.toml", "glibc = \"2.36\"", "glibc = \"9.8\"");
    project.edit("env-recipes/migraphx.toml", "glibc = \"2.17\"", "glibc = \"9.9\"");
    let said = project.say(&["recipe", "realise", "migraphx"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    for wanted in [
        "libstdc++6 12.2.0-14+deb12u1 needs glibc 9.8",
        "libstdcxx 15.3.0-h934c35e_7 needs glibc 9.9",
        "this machine has 2.",
    ] {
        assert!(said.stderr.contains(wanted), "{wanted:?} is not in {}", said.stderr);
    }
    let shown = project.say(&["recipe", "show", "migraphx"]);
    assert!(shown.stdout.contains("overlay  libstdc++6 12.2.0-14+deb12u1 on glibc 9.8 or newer"), "{}", shown.stdout);
}

#[test]
fn a_package_that_writes_through_another_ones_links_out_of_the_prefix_is_refused() {
    // By their names alone all links stay inside: what `d` leads to is above what it seems to be.
    let first = conda(&[("share/x", "x"), ("top/x", "x"), ("e/f/d", "-> ../../top"), ("out", "-> e/f/d/../..")]);
    let second = conda(&[("out/new/planted", "outside")]);
    let server = Server::new([("/a.conda", first.clone()), ("/b.conda", second.clone())]);
    let project = Project::plain("");
    let index = &server.address;
    let pins = [
        Pin { name: "a", index, path: "a.conda", bytes: &first },
        Pin { name: "b", index, path: "b.conda", bytes: &second },
    ];
    pin(&project, &pins);
    let said = project.say(&["recipe", "realise", "test", "--store", "store"]);
    let wanted = "`out/new/planted` would lie outside the prefix, behind a link of another artifact";
    assert!(said.code == 2 && said.stderr.contains(wanted), "{}", said.stderr);
}
