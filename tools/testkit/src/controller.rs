//! A controller without other daemons, which needs neither root nor a network.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

use crate::PLAIN;
use crate::binary;

/// A controller of the topology [`PLAIN`], with a page. It ends when this value is dropped.
pub struct PlainController {
    /// The folder with all files that the controller needs.
    folder: TempDir,
    child: Child,
    /// The API's address, `127.0.0.1:PORT`.
    pub api: String,
    /// The page's address, `127.0.0.1:PORT`.
    pub page: String,
}

impl PlainController {
    /// Starts a controller without TLS.
    pub fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &[], "http")
    }

    /// Starts a controller with these options and files. `scheme` is the scheme of the page's address.
    pub fn start_in(folder: TempDir, options: &[&str], scheme: &str) -> Self {
        let topology = folder.path().join("plain.toml");
        fs::write(&topology, PLAIN).unwrap();
        let mut command = Command::new(binary::path());
        command.args(["controller", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"]).args(options);
        let mut child = command.arg("--topology").arg(topology).stderr(Stdio::piped()).spawn().unwrap();
        let (mut api, mut page) = (None, None);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for line in lines.by_ref().map(Result::unwrap) {
            let after = |mark: &str| Some(line.split_once(mark)?.1.trim_end_matches('/').to_owned());
            api = api.or_else(|| after("api_addr="));
            page = page.or_else(|| after(&format!("the page is at {scheme}://")));
            if line.contains("ready") {
                break;
            }
        }
        // Reads the rest of the log, because the controller would block if the pipe were full.
        thread::spawn(move || lines.for_each(drop));
        Self { folder, child, api: api.unwrap(), page: page.unwrap() }
    }

    /// Creates a job; returns its token, in hex.
    pub fn create(&self, job: &str) -> String {
        let file = self.folder.path().join(format!("{job}.token"));
        let token = file.to_str().unwrap();
        binary::json(&["jobs", "create", job, "--json", "--token-out", token, "--controller", &self.api]);
        fs::read_to_string(file).unwrap().trim().to_owned()
    }
}

impl Drop for PlainController {
    fn drop(&mut self) {
        // An error is harmless: the controller may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
