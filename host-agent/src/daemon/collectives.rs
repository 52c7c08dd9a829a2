//! Counts of the collectives that processes report, by transport and reason.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tonic::Status;
use tributary_api::agent::v1;

/// The highest number of kinds that are counted separately for a job. It is also the highest number
/// of kinds in one report of a process.
const KINDS: usize = 64;
/// The longest name or reason, in bytes.
const MAX_NAME: usize = 64;
/// The name under which all kinds beyond [`KINDS`] are counted.
const OTHER: &str = "other";

/// A kind of collective: its transport, its name, and the reason for the transport.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectiveKind {
    /// The transport: "fabric" or "gloo".
    pub way: &'static str,
    /// The collective's name in the process's library.
    pub collective: String,
    /// The reason why the collective did not use the fabric; empty if it did.
    pub reason: String,
}

/// The number and the size of the collectives of one kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveAmount {
    /// Number of collectives.
    pub calls: u64,
    /// Bytes of the process's tensors in these collectives.
    pub bytes: u64,
}

/// The counts that the processes of one job on this host have reported. The number of kinds is
/// limited, because each kind takes memory.
#[derive(Debug, Default)]
pub(crate) struct Collectives(Mutex<BTreeMap<CollectiveKind, CollectiveAmount>>);

impl Collectives {
    /// Adds the counts that a process reports.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if there are more than [`KINDS`] kinds or if a count is invalid. Then nothing is added.
    pub(crate) fn add(&self, counts: Vec<v1::CollectiveCount>) -> Result<(), Status> {
        if counts.len() > KINDS {
            let problem = format!("{} kinds of collectives: {KINDS} are the most", counts.len());
            return Err(Status::invalid_argument(problem));
        }
        let counts = counts.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut amounts = self.0.lock();
        for (mut kind, added) in counts {
            if amounts.len() >= KINDS && !amounts.contains_key(&kind) {
                let CollectiveKind { collective, reason, .. } = &mut kind;
                OTHER.clone_into(collective);
                OTHER.clone_into(reason);
            }
            let amount = amounts.entry(kind).or_default();
            amount.calls = amount.calls.saturating_add(added.calls);
            amount.bytes = amount.bytes.saturating_add(added.bytes);
        }
        Ok(())
    }

    /// Returns the amounts of all kinds.
    pub(crate) fn amounts(&self) -> Vec<(CollectiveKind, CollectiveAmount)> {
        let amounts = self.0.lock();
        amounts.iter().map(|(kind, amount)| (kind.clone(), *amount)).collect()
    }
}

fn read(count: v1::CollectiveCount) -> Result<(CollectiveKind, CollectiveAmount), Status> {
    let way = match count.way() {
        v1::CollectiveWay::Fabric => "fabric",
        v1::CollectiveWay::Gloo => "gloo",
        v1::CollectiveWay::Unspecified => {
            return Err(Status::invalid_argument("collectives that went no way"));
        }
    };
    let v1::CollectiveCount { collective, reason, calls, bytes, .. } = count;
    for name in [&collective, &reason] {
        // The name goes into the metrics unchanged.
        if name.len() > MAX_NAME || !name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            let problem = format!(
                "the name of a collective or its reason, {name:?}: printable ASCII of up to {MAX_NAME} bytes"
            );
            return Err(Status::invalid_argument(problem));
        }
    }
    Ok((CollectiveKind { way, collective, reason }, CollectiveAmount { calls, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(collective: &str, bytes: u64) -> v1::CollectiveCount {
        let way = v1::CollectiveWay::Gloo.into();
        v1::CollectiveCount {
            way,
            collective: collective.to_owned(),
            reason: "why".to_owned(),
            calls: 1,
            bytes,
        }
    }

    #[test]
    fn what_processes_name_takes_no_more_than_some_kinds() {
        let collectives = Collectives::default();
        for number in 0..10 * KINDS as u64 {
            collectives
                .add(vec![count(&format!("collective {number}"), number), count("collective 0", 1)])
                .unwrap();
        }
        let amounts = collectives.amounts();
        assert_eq!(amounts.len(), KINDS + 1, "{amounts:?}");
        let bytes: u64 = amounts.iter().map(|(_, amount)| amount.bytes).sum();
        assert_eq!(bytes, (0..640).sum::<u64>() + 640, "nothing is lost");
        let (_, first) = amounts.iter().find(|(kind, _)| kind.collective == "collective 0").unwrap();
        assert_eq!(*first, CollectiveAmount { calls: 641, bytes: 640 });
        assert!(amounts.iter().any(|(kind, _)| kind.collective == OTHER && kind.reason == OTHER));
        let most = collectives.add(vec![count("overflow", u64::MAX); 2]);
        assert!(most.is_ok(), "{most:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_nothing_of_it_counted() {
        let collectives = Collectives::default();
        let nowhere = v1::CollectiveCount { way: 0, ..count("broadcast", 1) };
        let longer = count(&"x".repeat(MAX_NAME + 1), 1);
        for bad in [nowhere, longer, count("new\nline", 1), count("lämp", 1)] {
            assert!(collectives.add(vec![count("right", 1), bad.clone()]).is_err(), "{bad:?}");
        }
        assert!(collectives.add(vec![count("many", 1); KINDS + 1]).is_err());
        assert_eq!(collectives.amounts(), []);
    }
}
