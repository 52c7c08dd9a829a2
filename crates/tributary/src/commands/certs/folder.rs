//! A CA's folder: `ca.crt` and `ca.key`, and two files for each certificate.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tributary_certs::{Authority, Issued};
use tributary_files::Readers;

/// Base name of the files of the CA.
pub(super) const CA: &str = "ca";

pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns the paths of a certificate and its key.
    pub(super) fn paths(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.0.join(format!("{name}.crt")), self.0.join(format!("{name}.key")))
    }

    /// Writes a new CA.
    ///
    /// # Errors
    /// The folder has a CA already, or cannot be written.
    pub(super) fn create(&self, authority: &Authority) -> Result<(PathBuf, PathBuf)> {
        let path = &self.0;
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.with_context(|| format!("cannot make the folder {}", path.display()))?;
        if let Some(file) = self.present(CA) {
            bail!(
                "{} exists already: use that CA (`tributary certs issue`), or give another --dir; without their CA, \
                 its certificates would be useless",
                file.display()
            );
        }
        self.write(CA, authority.certificate(), &authority.key())
    }

    /// Reads the CA.
    ///
    /// # Errors
    /// The folder has no CA, or the CA cannot be used.
    pub(super) fn authority(&self) -> Result<Authority> {
        let (certificate, key) = self.paths(CA);
        let read = |path: &Path| match tributary_files::read_text(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!(
                    "there is no {}: make a CA with `tributary certs init`, or give its --dir",
                    path.display()
                )
            }
            read => read.with_context(|| format!("cannot read {}", path.display())),
        };
        let authority = Authority::from_pem(&read(&certificate)?, &read(&key)?);
        authority.with_context(|| format!("cannot use the CA in {}", self.0.display()))
    }

    /// Returns the path of the certificate or key with this name that exists, if any.
    fn present(&self, name: &str) -> Option<PathBuf> {
        let (certificate, key) = self.paths(name);
        [certificate, key].into_iter().find(|path| path.exists())
    }

    /// Checks that neither a certificate nor a key of this name exists.
    ///
    /// # Errors
    /// A certificate or a key of this name exists.
    pub(super) fn ensure_absent(&self, name: &str) -> Result<()> {
        let present = self.present(name);
        ensure!(
            present.is_none(),
            "{} exists already, so no certificate was made: replace it with --replace, or give another --dir",
            present.unwrap_or_default().display()
        );
        Ok(())
    }

    /// Writes an issued certificate and its key. The key is written first, so that each certificate in the
    /// folder has a key.
    pub(super) fn keep(&self, name: &str, issued: &Issued) -> Result<(PathBuf, PathBuf)> {
        self.write(name, &issued.certificate, &issued.key)
    }

    fn write(&self, name: &str, certificate: &str, key: &str) -> Result<(PathBuf, PathBuf)> {
        let paths = self.paths(name);
        for (path, readers, text) in
            [(&paths.1, Readers::Owner, key), (&paths.0, Readers::Everyone, certificate)]
        {
            tributary_files::write(path, readers, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(paths)
    }
}
