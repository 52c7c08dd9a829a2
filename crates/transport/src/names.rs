use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The DNS names (subject alternative names) of a certificate. They are displayed as a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names(Arc<[String]>);

/// The error that a certificate belongs to another host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the certificate that was shown is for {names}, not for host {host:?}: give the agent its own host's \
     certificate, or correct its --host"
)]
pub struct NotItsHost {
    names: Names,
    host: String,
}

impl Names {
    /// Returns true if `name` is among these names.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    /// Checks that the owner of the certificate may act for a host.
    ///
    /// # Errors
    /// [`NotItsHost`] if the certificate does not have the host's name.
    pub fn check_host(&self, host: &str) -> Result<(), NotItsHost> {
        if self.contains(host) {
            return Ok(());
        }
        Err(NotItsHost { names: self.clone(), host: host.to_owned() })
    }
}

impl<S: Into<String>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no DNS name");
        }
        let quoted: Vec<_> = self.0.iter().map(|name| format!("{name:?}")).collect();
        f.write_str(&quoted.join(", "))
    }
}
