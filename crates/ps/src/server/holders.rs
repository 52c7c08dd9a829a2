//! The certificates of the sessions that hold a job's ranks.

use std::collections::HashMap;

use parking_lot::Mutex;
use tonic::Status;
use tributary_transport::Names;

use crate::policy::Worker;

/// The certificates of open sessions.
///
/// After a worker has lost its session, only the same worker can open the next session for its rank. A
/// worker with the token but another certificate cannot.
#[derive(Debug, Default)]
pub(super) struct Holders(Mutex<HashMap<Worker, Holder>>);

#[derive(Debug)]
struct Holder {
    session: u64,
    names: Names,
}

impl Holders {
    /// Gives a worker's rank to a session, which replaces an earlier session with the same certificate.
    ///
    /// # Errors
    /// A session with another certificate is open.
    pub(super) fn take(&self, worker: Worker, session: u64, names: &Names) -> Result<(), Status> {
        let mut holders = self.0.lock();
        match holders.get(&worker) {
            Some(holder) if holder.names != *names => {
                let said = format!(
                    "worker {worker} has a session already, with a certificate for {}, and this one is for {names}: give \
                     each worker its own number, or wait until that session has ended",
                    holder.names
                );
                Err(Status::permission_denied(said))
            }
            _ => {
                holders.insert(worker, Holder { session, names: names.clone() });
                Ok(())
            }
        }
    }

    /// Frees a worker's rank if this session, which has ended, holds it.
    pub(super) fn give_back(&self, worker: Worker, session: u64) {
        let mut holders = self.0.lock();
        if holders.get(&worker).is_some_and(|holder| holder.session == session) {
            holders.remove(&worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_certificate_takes_a_place_that_is_held() {
        let (holders, [own, other]) = (Holders::default(), ["w0", "w1"].map(|name| Names::from_iter([name])));
        holders.take(0, 1, &own).unwrap();
        let refused = holders.take(0, 2, &other).unwrap_err();
        assert!(refused.message().contains("\"w0\"") && refused.message().contains("\"w1\""), "{refused}");
        holders.take(1, 2, &other).unwrap();
        // The worker opens its next session before the server knows that the last one has ended.
        holders.take(0, 3, &own).unwrap();
        holders.give_back(0, 1);
        assert!(holders.take(0, 4, &other).is_err());
        holders.give_back(0, 3);
        holders.take(0, 5, &other).unwrap();
    }
}
