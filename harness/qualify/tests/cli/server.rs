//! A package index on this machine, for what no real index may be asked: it serves a few files and remembers what it was asked.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A server that lives until the test's process ends.
pub struct Server {
    /// `http://127.0.0.1:PORT`.
    pub address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves these files by their path behind the host, such as `/a/b.whl`; anything else is not found.
    pub fn new(files: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>) -> Self {
        let files: HashMap<String, Vec<u8>> = files.into_iter().map(|(path, bytes)| (path.into(), bytes)).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
                let head = lines.next().and_then(Result::ok).unwrap_or_default();
                while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
                let path = head.split(' ').nth(1).unwrap_or_default().replace("%2B", "+");
                log.lock().unwrap().push(path.clone());
                let found = files.get(&path);
                let (status, body) = found.map_or(("404 Not Found", &[][..]), |body| ("200 OK", body));
                let kind = if path.ends_with('/') { "text/html" } else { "application/octet-stream" };
                let length = body.len();
                let _ = write!(
                    connection,
                    "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                if !head.starts_with("HEAD") {
                    let _ = connection.write_all(body);
                }
            }
        });
        Self { address, asked }
    }

    /// How often this path was asked for.
    pub fn asked(&self, path: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == path).count()
    }
}

/// A wheel `NAME-VERSION-py3-none-any.whl` with these files, and its own lists.
pub fn wheel(name: &str, version: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let info = format!("{name}-{version}.dist-info");
    let mut all: Vec<(String, String)> = files.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect();
    all.push((format!("{info}/METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")));
    all.push((
        format!("{info}/WHEEL"),
        "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
    ));
    // Installers do not look at the encoding of the hash; that it differs with the content is what matters.
    let hashed =
        all.iter().map(|(n, t)| format!("{n},sha256={},{}\n", ort_qualify::digest::of_bytes(t.as_bytes()), t.len()));
    let record = hashed.collect::<String>() + &format!("{info}/RECORD,,\n");
    all.push((format!("{info}/RECORD"), record));
    zipped(all.iter().map(|(name, text)| (name.as_str(), text.as_bytes())))
}

/// A zip of stored files.
pub fn zipped<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in files {
        zip.start_file(name, stored).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
