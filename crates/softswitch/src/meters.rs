//! Meters with the semantics of P4Runtime.
//!
//! Each rate has a bucket of tokens; a token is a packet or a byte. With two rates (RFC 2698, as on
//! BMv2) the meter checks the peak bucket first. A packet is red if that bucket has too few tokens,
//! and takes no token. A packet is yellow if only the committed bucket has too few, and takes
//! tokens of the peak bucket. With a single rate (RFC 2697) the meter checks the committed bucket
//! first, then the excess bucket. Tokens that overflow the committed bucket go to the excess
//! bucket.

use std::time::Instant;

use crate::control::{CounterValue, MeterConfig};
use crate::program::{MeterKind, MeterUnit};

/// The numbers of the colours in programs.
const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

/// One meter; without rates it marks every packet green.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    buckets: Option<Box<Buckets>>,
    /// The packets that the meter has marked, by colour.
    marked: [CounterValue; 3],
}

#[derive(Debug, Clone)]
struct Buckets {
    config: MeterConfig,
    kind: MeterKind,
    since: Instant,
    committed: Bucket,
    /// The bucket of the peak rate, or of the excess burst.
    other: Bucket,
}

#[derive(Debug, Clone)]
struct Bucket {
    /// Tokens per second.
    rate: u64,
    /// The maximum number of tokens in the bucket.
    burst: u64,
    tokens: u64,
    /// Number of tokens that have arrived since the meter was configured.
    /// It counts from there, so that rounding loses no tokens.
    come: u64,
}

impl Meter {
    /// Sets the rates and fills the buckets. Without rates (`None`), the meter marks every packet
    /// green.
    pub(crate) fn configure(&mut self, kind: MeterKind, config: Option<MeterConfig>) {
        self.buckets = config.map(|config| {
            let other = match kind {
                // This bucket receives only the tokens that overflow the committed bucket.
                MeterKind::SingleRate => Bucket::full(0, config.excess_burst),
                MeterKind::TwoRates | MeterKind::TwoColours => {
                    Bucket::full(config.peak_rate, config.peak_burst)
                }
            };
            Box::new(Buckets {
                config,
                kind,
                since: Instant::now(),
                committed: Bucket::full(config.committed_rate, config.committed_burst),
                other,
            })
        });
    }

    /// Returns the meter's rates.
    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.buckets.as_ref().map(|buckets| buckets.config)
    }

    /// Returns the packets that the meter has marked green, yellow and red.
    pub(crate) fn marked(&self) -> [CounterValue; 3] {
        self.marked
    }

    /// Clears the counts of marked packets.
    pub(crate) fn forget_marked(&mut self) {
        self.marked = Default::default();
    }

    /// Marks a packet of `bytes` bytes, and returns its colour.
    pub(crate) fn mark(&mut self, unit: MeterUnit, bytes: usize) -> u64 {
        let colour = match &mut self.buckets {
            None => GREEN,
            Some(buckets) => buckets.mark(if unit == MeterUnit::Packets { 1 } else { bytes as u64 }),
        };
        let marked = &mut self.marked[colour as usize];
        marked.packets = marked.packets.wrapping_add(1);
        marked.bytes = marked.bytes.wrapping_add(bytes as u64);
        colour
    }
}

impl Buckets {
    fn mark(&mut self, wanted: u64) -> u64 {
        let micros = self.since.elapsed().as_micros();
        if self.kind == MeterKind::SingleRate {
            let spilt = self.committed.fill(micros);
            self.other.add(spilt);
            return if self.committed.take(wanted) {
                GREEN
            } else if self.other.take(wanted) {
                YELLOW
            } else {
                RED
            };
        }
        self.committed.fill(micros);
        self.other.fill(micros);
        if !self.other.take(wanted) {
            RED
        } else if !self.committed.take(wanted) {
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

    /// Adds the tokens that have arrived since the last call. Returns the number of tokens
    /// that did not fit.
    fn fill(&mut self, micros: u128) -> u64 {
        let come = u64::try_from(micros.saturating_mul(self.rate.into()) / 1_000_000).unwrap_or(u64::MAX);
        let new = come.saturating_sub(self.come);
        self.come = come;
        self.add(new)
    }

    fn add(&mut self, new: u64) -> u64 {
        let room = self.burst - self.tokens;
        self.tokens += new.min(room);
        new.saturating_sub(room)
    }

    fn take(&mut self, wanted: u64) -> bool {
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

    impl Bucket {
        fn take_at(&mut self, wanted: u64, micros: u128) -> bool {
            self.fill(micros);
            self.take(wanted)
        }
    }

    #[test]
    fn a_bucket_fills_at_its_rate_up_to_its_burst() {
        let mut bucket = Bucket::full(2_000_000, 10);
        assert!(bucket.take_at(10, 0) && !bucket.take_at(1, 0));
        assert!(bucket.take_at(6, 3) && !bucket.take_at(1, 3));
        assert!(!bucket.take_at(11, 1_000_000) && bucket.take_at(10, 1_000_000));
    }

    #[test]
    fn slow_rates_lose_nothing_by_rounding() {
        let mut bucket = Bucket::full(3, 1);
        assert!(bucket.take_at(1, 0));
        let taken = (0..=10_000_000).step_by(1000).filter(|micros| bucket.take_at(1, *micros)).count();
        assert_eq!(taken, 30);
    }

    #[test]
    fn what_a_full_bucket_has_no_room_for_is_told() {
        let mut bucket = Bucket::full(1_000_000, 10);
        assert_eq!(bucket.fill(7), 7);
        assert!(bucket.take(4));
        assert_eq!((bucket.fill(10), bucket.fill(12)), (0, 1));
        assert!(bucket.take(10) && !bucket.take(1));
    }

    /// Marks packets of these sizes.
    fn marks<const N: usize>(meter: &mut Meter, unit: MeterUnit, sizes: [usize; N]) -> [u64; N] {
        sizes.map(|bytes| meter.mark(unit, bytes))
    }

    #[test]
    fn packets_go_from_green_to_yellow_to_red() {
        let mut meter = Meter::default();
        assert_eq!(meter.mark(MeterUnit::Bytes, 1500), GREEN);
        let config = MeterConfig { committed_burst: 2, peak_burst: 5, ..MeterConfig::default() };
        meter.configure(MeterKind::TwoRates, Some(config));
        let colours = marks(&mut meter, MeterUnit::Packets, [1500; 7]);
        assert_eq!(colours, [GREEN, GREEN, YELLOW, YELLOW, YELLOW, RED, RED]);
        let count = |packets| CounterValue { packets, bytes: packets * 1500 };
        assert_eq!(meter.marked(), [3, 3, 2].map(count));
        meter.configure(MeterKind::TwoRates, Some(config));
        assert_eq!(marks(&mut meter, MeterUnit::Bytes, [2, 2, 9, 1]), [GREEN, YELLOW, RED, YELLOW]);
    }

    #[test]
    fn with_a_single_rate_the_excess_burst_is_yellow() {
        let mut meter = Meter::default();
        let config =
            MeterConfig { committed_burst: 2, peak_burst: 2, excess_burst: 3, ..MeterConfig::default() };
        meter.configure(MeterKind::SingleRate, Some(config));
        assert_eq!(marks(&mut meter, MeterUnit::Bytes, [1, 2, 1, 2, 1]), [GREEN, YELLOW, GREEN, RED, YELLOW]);
    }

    #[test]
    fn a_meter_of_two_colours_has_no_yellow() {
        let mut meter = Meter::default();
        let config = MeterConfig { committed_burst: 2, peak_burst: 2, ..MeterConfig::default() };
        meter.configure(MeterKind::TwoColours, Some(config));
        assert_eq!(marks(&mut meter, MeterUnit::Packets, [9; 4]), [GREEN, GREEN, RED, RED]);
    }
}
