//! Options that limit the agent's resources for training processes.

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_host_agent::{Limits, MAX_SESSIONS};

use crate::daemons::service::WrongUse;
use tributary_cli::options::{byte_size, size};

/// Limits that replace the defaults, which follow from the machine.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LimitArgs {
    /// Memory that the agent takes for all training processes [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[serde(with = "byte_size")]
    max_memory: Option<ByteSize>,

    /// Share of this memory that one job or training of a process may take [default: three quarters]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[serde(with = "byte_size")]
    max_session_memory: Option<ByteSize>,

    /// Size of one shared-memory segment that a process hands over [default: that of /dev/shm]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[serde(with = "byte_size")]
    max_segment: Option<ByteSize>,

    /// Shared-memory segments for one job or training of a process [default: 256]
    #[arg(long, value_name = "COUNT")]
    max_segments: Option<u32>,

    /// Jobs and trainings of all processes at the same time, up to 256 [default: 64]
    #[arg(long, value_name = "COUNT")]
    max_sessions: Option<u32>,

    /// Calls of one job or training of a process that may wait at a time, and the same number of
    /// all-reduces [default: 256]
    #[arg(long, value_name = "COUNT")]
    max_calls: Option<u32>,
}

impl LimitArgs {
    /// Returns the limits of this agent: the given options, and defaults for the others.
    ///
    /// # Errors
    /// [`WrongUse`]: a number is out of range.
    pub(super) fn limits(&self) -> Result<Limits> {
        let count = |name: &str, given: Option<u32>, usual: u32, most: u32| match given {
            Some(count) if (1..=most).contains(&count) => Ok(count),
            Some(count) => Err(WrongUse(format!("{name}: {count} is not a number from 1 to {most}"))),
            None => Ok(usual),
        };
        let bytes = |given: Option<ByteSize>, usual: u64| given.map_or(usual, |size| size.as_u64());
        let usual = Limits::of_this_machine();
        let usual = match self.max_memory {
            Some(memory) => usual.with_memory(memory.as_u64()),
            None => usual,
        };
        Ok(Limits {
            session_memory: bytes(self.max_session_memory, usual.session_memory),
            segment_bytes: bytes(self.max_segment, usual.segment_bytes),
            segments: count("max-segments", self.max_segments, usual.segments, u32::MAX)?,
            sessions: count("max-sessions", self.max_sessions, usual.sessions, MAX_SESSIONS)?,
            calls: count("max-calls", self.max_calls, usual.calls, u32::MAX)?,
            ..usual
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemons::service::{DaemonSettings as _, SettingsFile};

    fn merged(text: &str, options: &LimitArgs) -> Result<Limits> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("agent.toml");
        std::fs::write(&path, text)?;
        options.merge(SettingsFile::load(&path)?)?.limits()
    }

    #[test]
    fn sizes_and_numbers_come_from_options_and_from_the_file() {
        let options = LimitArgs { max_memory: Some(ByteSize(1_234_567_891)), ..LimitArgs::default() };
        let limits = merged("max-memory = \"8GiB\"\nmax-segment = 4096\nmax-sessions = 7", &options).unwrap();
        assert_eq!((limits.memory, limits.segment_bytes, limits.sessions), (1_234_567_891, 4096, 7));
        assert_eq!(limits.session_memory, 925_925_919, "three quarters of what there is");
        let limits = merged("max-memory = \"8GiB\"", &LimitArgs::default()).unwrap();
        assert_eq!(limits.memory, 8 << 30);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (text, word) in [
            ("max-sessions = 257", "max-sessions: 257"),
            ("max-calls = 0", "max-calls: 0"),
            ("max-memory = \"much\"", "max-memory"),
            ("max-memory = 0", "max-memory"),
        ] {
            let error = merged(text, &LimitArgs::default()).unwrap_err();
            assert!(error.is::<WrongUse>() && error.to_string().contains(word), "{error}");
        }
    }
}
