//! The results of the comparison, for programs and for users.

use anyhow::{Context, Result};
use serde::Serialize;

use super::candidates::{CASQ, F32, UNIFORM};
use super::measure::Measured;
use crate::commands::ps::gates::{self, Gate};
use tributary_cli::output::number_table;

/// The least ratio of the bytes as f32 to the bytes with CASQ.
const LEAST_RATIO: f64 = 13.0;
/// The greatest squared error of CASQ, divided by the error of uniform levels with the same number of
/// bits.
const MOST_ERROR: f64 = 0.5;
/// The greatest loss of accuracy, in percentage points.
const MOST_ACCURACY_LOST: f64 = 2.0;

const BITS_PER_BYTE: f64 = 8.0;
const MEGA: f64 = 1e6;
const GIGA: f64 = 1e9;

/// The results of one codec.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CodecRow {
    pub(super) codec: &'static str,
    /// Number of values in a gradient.
    pub(super) values: usize,
    /// Bytes that a worker sends in each round.
    pub(super) bytes: usize,
    /// The bytes of the values as f32, divided by `bytes`.
    ratio: f64,
    /// The mean squared error of a worker's gradient, divided by its mean square.
    pub(super) nmse: f64,
    /// The mean squared error of the sum of all workers' gradients, divided by the sum's mean square.
    pub(super) nmse_of_sum: f64,
    /// Accuracy on held-out images, from 0 to 1.
    pub(super) accuracy: f64,
    /// The rate of encoding in gigabytes of f32 per second, on all cores.
    pub(super) encode_gb_per_s: f64,
    pub(super) decode_gb_per_s: f64,
    /// The link speed below which encoding, sending and decoding together take less time than sending f32;
    /// `None` if the codec saves no bytes.
    pub(super) break_even_mbit_per_s: Option<f64>,
    /// Bytes that a worker sends in each round over a fabric that aggregates codes.
    pub(super) fabric_bytes: Option<usize>,
}

impl CodecRow {
    pub(super) fn new(codec: &'static str, measured: Measured, values: usize, accuracy: f64) -> Self {
        let plain = values * size_of::<f32>();
        let rate = |time: std::time::Duration| plain as f64 / time.as_secs_f64() / GIGA;
        let saved = plain.checked_sub(measured.bytes).filter(|saved| *saved > 0);
        let time = (measured.encode + measured.decode).as_secs_f64();
        Self {
            codec,
            values,
            bytes: measured.bytes,
            ratio: plain as f64 / measured.bytes as f64,
            nmse: measured.error,
            nmse_of_sum: measured.error_of_sum,
            accuracy,
            encode_gb_per_s: rate(measured.encode),
            decode_gb_per_s: rate(measured.decode),
            break_even_mbit_per_s: saved.map(|saved| saved as f64 * BITS_PER_BYTE / time / MEGA),
            fabric_bytes: measured.fabric_bytes,
        }
    }

    /// Returns the time for a gradient in milliseconds, at a rate in gigabytes of f32 per second.
    pub(super) fn milliseconds(&self, gb_per_s: f64) -> f64 {
        1e3 * (self.values * size_of::<f32>()) as f64 / (gb_per_s * GIGA)
    }
}

/// The setup of the comparison.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Setting {
    /// The number of workers, which share each mini-batch.
    pub(super) workers: u16,
    /// The number of rounds of each training.
    pub(super) rounds: u32,
    /// The number of trainings with each codec.
    pub(super) seeds: u64,
}

/// The comparison's JSON object.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CodecReport {
    #[serde(flatten)]
    pub(super) setting: Setting,
    pub(super) codecs: Vec<CodecRow>,
    pub(super) gates: Vec<Gate>,
}

impl CodecReport {
    /// Checks the rows against the gates.
    pub(super) fn new(setting: Setting, codecs: Vec<CodecRow>) -> Result<Self> {
        let row = |name| codecs.iter().find(|row| row.codec == name).with_context(|| format!("no {name}"));
        let (plain, uniform, casq) = (row(F32)?, row(UNIFORM)?, row(CASQ)?);
        let lost = 100.0 * (plain.accuracy - casq.accuracy);
        let gates = vec![
            Gate::at_least("bytes of f32 / bytes of casq-4", casq.ratio, LEAST_RATIO),
            Gate::at_most("error of casq-4 / error of uniform-2", casq.nmse / uniform.nmse, MOST_ERROR),
            Gate::at_most("accuracy of f32 - accuracy of casq-4, in points", lost, MOST_ACCURACY_LOST),
        ];
        Ok(Self { setting, codecs, gates })
    }

    /// Returns the results as text for users.
    pub(super) fn text(&self) -> String {
        let mut table = number_table(&[
            "codec",
            "bytes",
            "ratio",
            "error",
            "of the sum",
            "accuracy",
            "encodes",
            "decodes",
            "pays below",
        ]);
        for row in &self.codecs {
            table.add_row([
                row.codec.to_owned(),
                row.bytes.to_string(),
                format!("{:.1}", row.ratio),
                format!("{:.4}", row.nmse),
                format!("{:.4}", row.nmse_of_sum),
                format!("{:.2} %", 100.0 * row.accuracy),
                format!("{:.2} GB/s", row.encode_gb_per_s),
                format!("{:.2} GB/s", row.decode_gb_per_s),
                row.break_even_mbit_per_s.map_or("-".to_owned(), |rate| format!("{rate:.0} Mbit/s")),
            ]);
        }
        format!("{table}\n{}\n{}", self.explanation(), gates::table(&self.gates))
    }

    fn explanation(&self) -> String {
        let values = self.codecs.first().map_or(0, |row| row.values);
        let mut text = format!(
            "A worker's gradient of {values} values; the error is the mean squared error, relative to the values' \
             mean square.\n\
             On links slower than \"pays below\", sending f32 takes longer than encoding, sending the code and \
             decoding."
        );
        for row in &self.codecs {
            if let Some(bytes) = row.fabric_bytes {
                let ratio = (row.values * size_of::<f32>()) as f64 / bytes as f64;
                text += &format!(
                    "\n{} over a fabric: {bytes} bytes ({ratio:.1}), aggregated on the way.",
                    row.codec
                );
            }
        }
        text
    }
}
