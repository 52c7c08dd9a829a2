//! A test CA whose certificates are in files.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tributary_certs::{Authority, Subject, Validity};
use tributary_transport::{ClientTls, ServerTls, TlsFiles};

const DAY: Duration = Duration::from_hours(24);

/// A CA with a folder for its certificates.
pub(crate) struct Ca {
    authority: Authority,
    folder: tempfile::TempDir,
}

pub(crate) fn days(days: u32) -> Validity {
    Validity::days(days).unwrap()
}

/// Returns a validity of one day, a month ago.
pub(crate) fn long_ago() -> Validity {
    let now = days(1);
    Validity { from: now.from - 30 * DAY, until: now.until - 30 * DAY }
}

/// Returns a validity that begins the day after tomorrow.
pub(crate) fn later() -> Validity {
    let now = days(1);
    Validity { from: now.from + 2 * DAY, until: now.until + 2 * DAY }
}

pub(crate) fn controller_at(name: &str) -> Subject {
    Subject::Controller(vec![name.parse().unwrap()])
}

pub(crate) fn host(name: &str) -> Subject {
    Subject::Client(name.parse().unwrap())
}

impl Ca {
    pub(crate) fn new() -> Self {
        let authority = Authority::generate(days(10)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.crt"), authority.certificate()).unwrap();
        Self { authority, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the files for a certificate of this CA. Its owner trusts this CA.
    pub(crate) fn files(&self, file: &str, subject: &Subject, validity: Validity) -> TlsFiles {
        let issued = self.authority.issue(subject, validity).unwrap();
        let (certificate, key) = (self.path(&format!("{file}.crt")), self.path(&format!("{file}.key")));
        fs::write(&certificate, issued.certificate).unwrap();
        fs::write(&key, issued.key).unwrap();
        TlsFiles { certificate, key, ca: self.path("ca.crt") }
    }

    pub(crate) fn controller(&self) -> ServerTls {
        ServerTls::load(self.files("controller", &controller_at("127.0.0.1"), days(5))).unwrap()
    }

    pub(crate) fn host(&self, name: &str) -> ClientTls {
        ClientTls::load(self.files(name, &host(name), days(5))).unwrap()
    }
}
