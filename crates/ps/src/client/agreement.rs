//! Checks that all servers of a worker have the same job settings. The servers do not communicate with
//! each other.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::error::ClientError;

/// The checksum of the job's settings that each server reported last.
#[derive(Debug, Default)]
pub(super) struct Agreement(Mutex<BTreeMap<String, u32>>);

impl Agreement {
    /// Records a server's checksum of its job's settings; 0 means that the server reports none.
    ///
    /// # Errors
    /// [`ClientError::OtherJob`]: another server's job has other settings.
    pub(super) fn note(&self, server: &str, settings: u32) -> Result<(), ClientError> {
        let mut servers = self.0.lock();
        servers.insert(server.to_owned(), settings);
        match servers.iter().find(|(_, other)| **other != settings && **other != 0 && settings != 0) {
            Some((other, _)) => {
                Err(ClientError::OtherJob { server: server.to_owned(), other: other.clone() })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_other_settings_are_named_until_they_have_the_same() {
        let agreement = Agreement::default();
        agreement.note("a:1", 7).unwrap();
        agreement.note("old:1", 0).unwrap();
        let said = agreement.note("b:1", 8).unwrap_err().to_string();
        assert!(said.contains("a:1") && said.contains("b:1") && said.contains("job file"), "{said}");
        agreement.note("b:1", 7).unwrap();
        agreement.note("a:1", 7).unwrap();
    }
}
