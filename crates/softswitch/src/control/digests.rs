//! Digests and idle timeouts: the notifications that the switch sends to its controller.

use std::time::{Duration, Instant};

use super::{DigestConfig, Notification};
use crate::error::ControlError;
use crate::switch::Switch;

/// The shortest and the longest interval between two scans for entries that have timed out.
const SCANS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl Switch {
    /// Returns the controller's configuration of a digest; `None` if the digest is off.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn digest(&self, digest_id: u32) -> Result<Option<DigestConfig>, ControlError> {
        Ok(self.digests.config(self.digest_index(digest_id)?))
    }

    /// Turns on a digest.
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

    /// Changes the configuration of a digest (`Some`), or turns the digest off (`None`).
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

    /// Acknowledges a digest list, so that the switch may send its messages again. A list
    /// that is unknown or has expired is not an error.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn acknowledge_digest(&mut self, digest_id: u32, list_id: u64) -> Result<(), ControlError> {
        let at = self.digest_index(digest_id)?;
        self.digests.acknowledge(at, list_id);
        Ok(())
    }

    /// Returns the notifications that are due at `now`.
    pub fn notifications(&mut self, now: Instant) -> Vec<Notification> {
        self.digests.close_late(&self.pipeline.program.digests, now);
        let mut notifications = Vec::new();
        for (at, list) in self.digests.take_ready() {
            let id = self.pipeline.directory.digests.iter().find(|(_, index)| **index == at);
            notifications.extend(id.map(|(id, _)| Notification::Digests { digest_id: *id, list }));
        }
        if self.next_scan.is_some_and(|scan| scan <= now) {
            let expired = self.expired(now);
            if !expired.is_empty() {
                notifications.push(Notification::Idle(expired));
            }
            self.schedule_scan(now);
        }
        notifications
    }

    /// Returns the time at which the next notification may be due.
    pub fn next_notification(&self) -> Option<Instant> {
        if self.digests.is_ready() {
            return Some(Instant::now());
        }
        let (digest, scan) = (self.digests.next_late(), self.next_scan);
        digest.into_iter().chain(scan).min()
    }

    /// Schedules the next scan early enough for an entry with this timeout.
    pub(super) fn scan_within(&mut self, timeout: Duration) {
        let scan = Instant::now() + pause(timeout);
        self.next_scan = Some(self.next_scan.map_or(scan, |planned| planned.min(scan)));
    }

    /// Schedules the next scan of the entries that can time out.
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

/// Returns the interval between two scans of entries with this timeout.
fn pause(timeout: Duration) -> Duration {
    (timeout / 4).clamp(SCANS.0, SCANS.1)
}

fn name(id: u32) -> String {
    format!("the configuration of digest {id:#010x}")
}
