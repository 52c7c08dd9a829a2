//! Digests and idle timeouts: what the switch tells its controller without being asked.

use std::time::{Duration, Instant};

use super::{DigestConfig, Notice};
use crate::error::ControlError;
use crate::switch::Switch;

/// How often entries are looked at that can time out, at least and at most.
const SCANS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl Switch {
    /// How the controller wants a digest; `None`: not at all.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn digest(&self, digest_id: u32) -> Result<Option<DigestConfig>, ControlError> {
        Ok(self.digests.config(self.digest_index(digest_id)?))
    }

    /// Begins to tell a digest.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `AlreadyExists`.
    pub fn insert_digest(&mut self, digest_id: u32, config: DigestConfig) -> Result<(), ControlError> {
        let at = self.digest_index(digest_id)?;
        if self.digests.config(at).is_some() {
            return Err(ControlError::AlreadyExists(name(digest_id)));
        }
        self.digests.configure(at, Some(config));
        Ok(())
    }

    /// Changes how a digest is told (`Some`), or ends it (`None`).
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `NotFound`.
    pub fn change_digest(
        &mut self,
        digest_id: u32,
        config: Option<DigestConfig>,
    ) -> Result<(), ControlError> {
        let at = self.digest_index(digest_id)?;
        if self.digests.config(at).is_none() {
            return Err(ControlError::NotFound(name(digest_id)));
        }
        self.digests.configure(at, config);
        Ok(())
    }

    /// The controller has a list: what it tells may be told again. A list that is not known, or was told too long ago, is
    /// no error.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn acknowledge_digest(&mut self, digest_id: u32, list_id: u64) -> Result<(), ControlError> {
        let at = self.digest_index(digest_id)?;
        self.digests.acknowledge(at, list_id);
        Ok(())
    }

    /// What there is to tell by `now`.
    pub fn notices(&mut self, now: Instant) -> Vec<Notice> {
        self.digests.close_late(&self.pipeline.program.digests, now);
        let mut notices = Vec::new();
        for (at, list) in self.digests.take_ready() {
            let id = self.pipeline.directory.digests.iter().find(|(_, index)| **index == at);
            notices.extend(id.map(|(id, _)| Notice::Digests { digest_id: *id, list }));
        }
        if self.next_scan.is_some_and(|scan| scan <= now) {
            let expired = self.expired(now);
            if !expired.is_empty() {
                notices.push(Notice::Idle(expired));
            }
            self.schedule_scan(now);
        }
        notices
    }

    /// When there may be something to tell, as things are.
    pub fn next_notice(&self) -> Option<Instant> {
        if self.digests.is_ready() {
            return Some(Instant::now());
        }
        let (digest, scan) = (self.digests.next_late(), self.next_scan);
        digest.into_iter().chain(scan).min()
    }

    /// Looks at the entries soon enough for one with this timeout.
    pub(super) fn scan_within(&mut self, timeout: Duration) {
        let scan = Instant::now() + pause(timeout);
        self.next_scan = Some(self.next_scan.map_or(scan, |planned| planned.min(scan)));
    }

    /// Plans the next look at the entries that can time out.
    fn schedule_scan(&mut self, now: Instant) {
        let tables = self.pipeline.program.tables.iter().zip(&self.state.tables);
        let entries = tables.filter(|(table, _)| table.times_out).flat_map(|(_, table)| table.entries());
        let shortest = entries.map(|entry| entry.idle.timeout()).filter(|timeout| !timeout.is_zero()).min();
        self.next_scan = shortest.map(|timeout| now + pause(timeout));
    }

    fn digest_index(&self, id: u32) -> Result<usize, ControlError> {
        let known = self.pipeline.directory.digests.get(&id);
        known.copied().ok_or(ControlError::UnknownId { what: "digest", id })
    }
}

/// The time between two looks at entries with this timeout.
fn pause(timeout: Duration) -> Duration {
    (timeout / 4).clamp(SCANS.0, SCANS.1)
}

fn name(id: u32) -> String {
    format!("the configuration of digest {id:#010x}")
}
