//! Options that several `ps` commands share.

use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tributary_codec::Kind;
use tributary_ps::server::PolicyKind;

/// A policy of synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Policy {
    /// Bulk-synchronous: all workers wait for each other
    Bsp,
    /// Asynchronous: no worker waits
    Asp,
    /// Stale-synchronous: no worker is more than 3 iterations ahead
    Ssp,
    /// Dynamic stale-synchronous: no worker is more than 3 to 15 iterations ahead, depending on the
    /// workers' speeds
    Dssp,
    /// Bulk-synchronous for 5 epochs, asynchronous from then on
    SyncSwitch,
    /// Adaptive: the fastest workers wait a little for each other
    A2s,
    /// Adaptive, but only the last epoch decides which workers are fastest
    A2sRecent,
}

impl Policy {
    /// Returns the name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bsp => "bsp",
            Self::Asp => "asp",
            Self::Ssp => "ssp",
            Self::Dssp => "dssp",
            Self::SyncSwitch => "sync-switch",
            Self::A2s => "a2s",
            Self::A2sRecent => "a2s-recent",
        }
    }
}

impl From<Policy> for PolicyKind {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Bsp => Self::Bsp,
            Policy::Asp => Self::Asp,
            Policy::Ssp => Self::Ssp,
            Policy::Dssp => Self::Dssp,
            Policy::SyncSwitch => Self::SyncSwitch,
            Policy::A2s => Self::A2s,
            Policy::A2sRecent => Self::A2sRecent,
        }
    }
}

/// The range of relative step times. A slower worker would never finish an epoch.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.01..=1000.0;
const LONGEST_SECONDS: f64 = 86400.0;

/// Parses a worker's step time as a multiple of the unit.
pub(super) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if SPEEDS.contains(&speed) => Ok(speed),
        _ => Err("a relative step time from 0.01 to 1000 is needed, such as 1.5".to_owned()),
    }
}

/// Parses a time in seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= LONGEST_SECONDS => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds above 0 is needed, such as 12.5".to_owned()),
    }
}

/// Parses a learning rate.
pub(super) fn learning_rate(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("a number above 0 is needed, such as 0.1".to_owned()),
    }
}

/// Returns the help text that lists the codecs.
pub(super) fn codecs() -> String {
    format!("Codec of the gradients: {}", Kind::NAMES)
}

/// Parses a codec with which each worker encodes its gradient independently.
pub(super) fn codec(text: &str) -> Result<Kind, String> {
    let kind: Kind = text.parse().map_err(|error| format!("{error}"))?;
    if kind.needs_agreement() {
        return Err(format!("{kind} needs a codebook of all workers, which only a fabric can agree on"));
    }
    Ok(kind)
}

/// Returns a bar that shows the elapsed part of `length`.
pub(super) fn progress(length: Duration) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
    match ProgressStyle::with_template("{msg:24} {wide_bar} {percent}% {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
