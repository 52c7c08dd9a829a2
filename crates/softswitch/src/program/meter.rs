//! Meters, as the program declares them.

use super::machine::Word;
use crate::control::MeterConfig;

/// The unit of a meter's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeterUnit {
    Packets,
    Bytes,
}

/// The method by which a meter marks packets.
///
/// BMv2's JSON supports only two rates. The P4Info names the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MeterKind {
    #[default]
    TwoRates,
    /// One rate with an excess burst.
    SingleRate,
    /// One rate and two colours, without yellow.
    TwoColours,
}

/// An array of meters, as the program declares it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeterProgram {
    pub(crate) size: usize,
    pub(crate) unit: MeterUnit,
    pub(crate) kind: MeterKind,
}

/// A table's direct meter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectMeter {
    /// The unit that the meter counts.
    pub(crate) unit: MeterUnit,
    /// The method by which the meter marks packets.
    pub(crate) kind: MeterKind,
    /// The word of the field that receives the colour of a packet that hits an entry.
    pub(crate) target: Word,
}

impl MeterKind {
    /// Checks rates for a meter of this kind. The text describes the fault.
    pub(crate) fn check(self, config: &MeterConfig) -> Result<(), String> {
        let MeterConfig { committed_rate, committed_burst, peak_rate, peak_burst, excess_burst } = *config;
        if self != Self::TwoRates && (committed_rate, committed_burst) != (peak_rate, peak_burst) {
            return Err(
                "it has a single rate: give the committed rate and burst as peak ones, too".to_owned()
            );
        }
        if self != Self::SingleRate && excess_burst != 0 {
            return Err("it has no excess burst: leave eburst out".to_owned());
        }
        if peak_rate < committed_rate {
            return Err(format!("the peak rate {peak_rate} is below the committed rate {committed_rate}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_checked_against_the_kind() {
        let single = MeterConfig {
            committed_rate: 5,
            committed_burst: 6,
            peak_rate: 5,
            peak_burst: 6,
            excess_burst: 7,
        };
        let plain = MeterConfig { excess_burst: 0, ..single };
        let two = MeterConfig { peak_rate: 9, ..plain };
        use MeterKind::{SingleRate, TwoColours, TwoRates};
        for (kind, good, bad) in
            [(TwoRates, two, single), (SingleRate, single, two), (TwoColours, plain, single)]
        {
            assert!(kind.check(&good).is_ok() && kind.check(&plain).is_ok(), "{kind:?}");
            assert!(kind.check(&bad).is_err(), "{kind:?}");
        }
        assert!(TwoRates.check(&MeterConfig { peak_rate: 4, ..plain }).is_err());
    }
}
