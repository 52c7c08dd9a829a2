//! Meters: RFC 2698's marker with two rates and three colours, as BMv2 has it.
//!
//! Each rate has a bucket of tokens, one a packet or one a byte. The peak bucket is asked first: a packet that finds too
//! few tokens there is red, and takes none; one that finds too few in the committed bucket is yellow, and took those of
//! the peak bucket.

use std::time::Instant;

use crate::control::MeterConfig;

/// The colours as programs see them.
const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

/// What a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeterUnit {
    Packets,
    Bytes,
}

/// An array of meters, as the program declares it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeterProgram {
    pub(crate) size: usize,
    pub(crate) unit: MeterUnit,
}

/// One meter; without rates it marks every packet green.
#[derive(Debug, Default)]
pub(crate) struct Meter(Option<Box<Buckets>>);

#[derive(Debug)]
struct Buckets {
    config: MeterConfig,
    since: Instant,
    peak: Bucket,
    committed: Bucket,
}

#[derive(Debug)]
struct Bucket {
    /// Tokens a second.
    rate: u64,
    /// The most tokens that it holds.
    burst: u64,
    tokens: u64,
    /// Tokens that have come since the meter was configured. Counting from there, nothing is lost by rounding.
    come: u64,
}

impl Meter {
    /// Gives it rates and full buckets; `None`: every packet is green.
    pub(crate) fn configure(&mut self, config: Option<MeterConfig>) {
        self.0 = config.map(|config| {
            Box::new(Buckets {
                config,
                since: Instant::now(),
                peak: Bucket::full(config.peak_rate, config.peak_burst),
                committed: Bucket::full(config.committed_rate, config.committed_burst),
            })
        });
    }

    /// Its rates.
    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.0.as_ref().map(|buckets| buckets.config)
    }

    /// Marks a packet of so many bytes.
    pub(crate) fn mark(&mut self, unit: MeterUnit, bytes: usize) -> u64 {
        let Some(buckets) = &mut self.0 else { return GREEN };
        let micros = buckets.since.elapsed().as_micros();
        let wanted = if unit == MeterUnit::Packets { 1 } else { bytes as u64 };
        if !buckets.peak.take(wanted, micros) {
            RED
        } else if !buckets.committed.take(wanted, micros) {
            YELLOW
        } else {
            GREEN
        }
    }
}

impl Bucket {
    fn full(rate: u64, burst: u64) -> Self {
        Self { rate, burst, tokens: burst, come: 0 }
    }

    fn take(&mut self, wanted: u64, micros: u128) -> bool {
        let come = u64::try_from(micros.saturating_mul(self.rate.into()) / 1_000_000).unwrap_or(u64::MAX);
        self.tokens = self.tokens.saturating_add(come.saturating_sub(self.come)).min(self.burst);
        self.come = come;
        let enough = self.tokens >= wanted;
        if enough {
            self.tokens -= wanted;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_at_its_rate_up_to_its_burst() {
        let mut bucket = Bucket::full(2_000_000, 10);
        assert!(bucket.take(10, 0) && !bucket.take(1, 0));
        assert!(bucket.take(6, 3) && !bucket.take(1, 3));
        assert!(!bucket.take(11, 1_000_000) && bucket.take(10, 1_000_000));
    }

    #[test]
    fn slow_rates_lose_nothing_by_rounding() {
        let mut bucket = Bucket::full(3, 1);
        assert!(bucket.take(1, 0));
        let taken = (0..=10_000_000).step_by(1000).filter(|micros| bucket.take(1, *micros)).count();
        assert_eq!(taken, 30);
    }

    #[test]
    fn packets_go_from_green_to_yellow_to_red() {
        let mut meter = Meter::default();
        assert_eq!(meter.mark(MeterUnit::Bytes, 1500), GREEN);
        let config = MeterConfig { committed_rate: 0, committed_burst: 2, peak_rate: 0, peak_burst: 5 };
        meter.configure(Some(config));
        let marks: Vec<_> = (0..7).map(|_| meter.mark(MeterUnit::Packets, 1500)).collect();
        assert_eq!(marks, [GREEN, GREEN, YELLOW, YELLOW, YELLOW, RED, RED]);
        meter.configure(Some(config));
        let marks: Vec<_> = [2, 2, 9, 1].map(|bytes| meter.mark(MeterUnit::Bytes, bytes)).into();
        assert_eq!(marks, [GREEN, YELLOW, RED, YELLOW]);
    }
}
