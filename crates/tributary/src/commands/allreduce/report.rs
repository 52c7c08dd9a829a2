//! The results of the measurement.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use bytesize::ByteSize;
use serde_json::json;
use tributary_cli::output;

/// The all-reduces of one rank.
#[derive(Debug)]
pub(super) struct AllReduceReport {
    pub(super) host: String,
    pub(super) rank: u32,
    /// Number of workers in the job at the end.
    pub(super) workers: usize,
    /// Ranks that left the job during the measurement, with the reasons. The last sums do not include them.
    pub(super) lost: BTreeMap<u32, String>,
    /// Size of the tensor in bytes.
    pub(super) bytes: u64,
    pub(super) elements: usize,
    /// Number of all-reduces into which the tensor is split.
    pub(super) tensors: u32,
    /// Number of tensors that are in flight at once.
    pub(super) in_flight: u32,
    pub(super) dtype: &'static str,
    pub(super) codec: Option<&'static str>,
    pub(super) quantisation: Option<Quantisation>,
    /// True if every sum was compared with the expected sum.
    pub(super) checked: bool,
    /// Slices that this rank sent for the first time, in all iterations.
    pub(super) slices: u64,
    /// Slices that this rank retransmitted.
    pub(super) retransmissions: u64,
    /// The time of each iteration; at least one entry.
    pub(super) times: Vec<Timing>,
    /// For each iteration that is a single call, the time of the call minus the time spent in the agent.
    pub(super) overheads: Vec<Duration>,
}

/// The time of one iteration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) began: SystemTime,
    pub(super) took: Duration,
}

/// The savings and the error of quantisation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantisation {
    /// Bytes that a rank sends into the fabric in an iteration, instead of the tensor's bytes.
    pub(super) bytes: u64,
    /// Squared error of the sums, divided by the square of the exact sums; `None` if the sums were not
    /// checked.
    pub(super) error: Option<f64>,
}

impl Timing {
    /// Measures the time of a future.
    pub(super) async fn of(done: impl Future<Output = Result<()>>) -> Result<Self> {
        let (began, started) = (SystemTime::now(), Instant::now());
        done.await?;
        Ok(Self { began, took: started.elapsed() })
    }

    /// Returns the start as Unix time and the duration, both in seconds.
    fn seconds(&self) -> [f64; 2] {
        let began = self.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        [began.as_secs_f64(), self.took.as_secs_f64()]
    }
}

impl AllReduceReport {
    pub(super) fn print(&self, json: bool) -> Result<()> {
        if json {
            output::print(serde_json::to_string(&self.json())?)?;
        } else {
            output::print(self.text())?;
        }
        Ok(())
    }

    fn sorted(&self) -> Vec<f64> {
        sorted(self.times.iter().map(|time| time.took))
    }

    /// Returns the median of the time that the client needs in addition to its agent, in seconds.
    fn overhead(&self) -> Option<f64> {
        let sorted = sorted(self.overheads.iter().copied());
        (!sorted.is_empty()).then(|| median(&sorted))
    }

    fn json(&self) -> serde_json::Value {
        let sorted = self.sorted();
        json!({
            "host": self.host,
            "rank": self.rank,
            "workers": self.workers,
            "bytes": self.bytes,
            "elements": self.elements,
            "tensors": self.tensors,
            "in_flight": self.in_flight,
            "dtype": self.dtype,
            "iterations": self.times.len(),
            "seconds": {
                "median": median(&sorted),
                "min": sorted.first(),
                "max": sorted.last(),
            },
            "algorithm_bandwidth_bits_per_second": self.bandwidth(median(&sorted)),
            "client_overhead_seconds": self.overhead(),
            "timeline": self.times.iter().map(Timing::seconds).collect::<Vec<_>>(),
            "codec": self.codec,
            "bytes_sent": self.quantisation.map_or(self.bytes, |quantisation| quantisation.bytes),
            "error_of_sum": self.quantisation.and_then(|quantisation| quantisation.error),
            "slices": self.slices,
            "retransmissions": self.retransmissions,
            "checked": self.checked,
            "lost": self.lost,
        })
    }

    fn losses(&self) -> String {
        let one = |(rank, reason): (&u32, &String)| format!(", without rank {rank} ({reason})");
        self.lost.iter().map(one).collect()
    }

    fn text(&self) -> String {
        let sorted = self.sorted();
        let median = median(&sorted);
        let range = |place: Option<&f64>| place.copied().unwrap_or(median) * 1e3;
        format!(
            "rank {} of {} on {}{}: all-reduce of {} ({} {} elements){}, {} times\n\
             time       {:.1} ms (median), {:.1} to {:.1} ms\n\
             bandwidth  {:.1} Mbit/s (tensor's bits / median time)\n\
             {}{}{} slices, {} retransmissions; {}",
            self.rank,
            self.workers,
            self.host,
            self.losses(),
            ByteSize(self.bytes),
            self.elements,
            self.dtype,
            self.parts(),
            self.times.len(),
            median * 1e3,
            range(sorted.first()),
            range(sorted.last()),
            self.bandwidth(median) / 1e6,
            self.quantised(),
            self.overhead()
                .map(|seconds| format!("client     {:.0} µs without the agent's time\n", seconds * 1e6))
                .unwrap_or_default(),
            self.slices,
            self.retransmissions,
            if self.checked { "every sum is right" } else { "sums were not checked (--check does)" },
        )
    }

    fn parts(&self) -> String {
        match self.tensors {
            1 => String::new(),
            tensors => format!(" as {tensors} tensors, {} in flight", self.in_flight),
        }
    }

    fn quantised(&self) -> String {
        let (Some(codec), Some(Quantisation { bytes, error })) = (self.codec, self.quantisation) else {
            return String::new();
        };
        let error = error.map_or("not measured (--check does)".to_owned(), |error| format!("{error:.3}"));
        format!(
            "{codec}  {} instead of {} from each rank, {:.1} times fewer; error {error} (squared error of the sum, \
             relative to its square)\n",
            ByteSize(bytes),
            ByteSize(self.bytes),
            self.bytes as f64 / bytes as f64,
        )
    }

    /// Returns the algorithm bandwidth: the tensor's size divided by the time, independent of the bytes on
    /// the links.
    fn bandwidth(&self, seconds: f64) -> f64 {
        self.bytes as f64 * 8.0 / seconds
    }
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut seconds: Vec<f64> = times.map(|time| time.as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// Returns the median of numbers in ascending order.
fn median(sorted: &[f64]) -> f64 {
    let middle = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        (middle(half.saturating_sub(1)) + middle(half)) / 2.0
    } else {
        middle(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a timing that begins `milliseconds` after the epoch and lasts for the same time.
    fn timing(milliseconds: u64) -> Timing {
        let took = Duration::from_millis(milliseconds);
        Timing { began: UNIX_EPOCH + took, took }
    }

    fn report() -> AllReduceReport {
        AllReduceReport {
            host: "w1".into(),
            rank: 1,
            workers: 2,
            lost: BTreeMap::new(),
            bytes: 1_000_000,
            elements: 250_000,
            tensors: 1,
            in_flight: 1,
            dtype: "f32",
            codec: None,
            quantisation: None,
            checked: true,
            slices: 4000,
            retransmissions: 3,
            times: [40, 10, 30, 20].map(timing).to_vec(),
            overheads: [900, 300, 500].map(Duration::from_micros).to_vec(),
        }
    }

    #[test]
    fn bandwidth_is_the_tensors_bits_over_the_median_time() {
        let json = report().json();
        assert_eq!(json["seconds"]["median"], 0.025);
        assert_eq!((&json["seconds"]["min"], &json["seconds"]["max"]), (&json!(0.01), &json!(0.04)));
        assert_eq!(json["timeline"][0], json!([0.04, 0.04]));
        let bandwidth = json["algorithm_bandwidth_bits_per_second"].as_f64().unwrap();
        assert!((bandwidth / 320e6 - 1.0).abs() < 1e-12);
        let text = report().text();
        assert!(text.contains("320.0 Mbit/s") && text.contains("rank 1 of 2 on w1"), "{text}");
    }

    #[test]
    fn sums_without_a_worker_that_is_gone_say_so() {
        let lost = BTreeMap::from([(0, "w0 is gone".to_owned())]);
        let left = AllReduceReport { workers: 1, lost, ..report() };
        assert!(left.text().contains("rank 1 of 1 on w1, without rank 0 (w0 is gone): "), "{}", left.text());
        assert_eq!(left.json()["lost"], json!({ "0": "w0 is gone" }));
    }

    #[test]
    fn what_the_client_takes_besides_its_agent_is_said_where_an_iteration_is_one_call() {
        assert_eq!(report().json()["client_overhead_seconds"], 0.0005);
        assert!(report().text().contains("500 µs without the agent's"), "{}", report().text());
        let several = AllReduceReport { tensors: 64, in_flight: 2, overheads: Vec::new(), ..report() };
        assert_eq!(several.json()["client_overhead_seconds"], json!(null));
        let text = several.text();
        assert!(text.contains("as 64 tensors, 2 in flight") && !text.contains("µs"), "{text}");
    }

    #[test]
    fn what_is_quantised_says_what_that_saves_and_costs() {
        let plain = report().json();
        assert_eq!((&plain["bytes_sent"], &plain["codec"]), (&json!(1_000_000), &json!(null)));
        let quantisation = Some(Quantisation { bytes: 250_000, error: Some(0.25) });
        let report = AllReduceReport { codec: Some("casq-4-shared"), quantisation, ..report() };
        let json = report.json();
        assert_eq!((&json["bytes_sent"], &json["error_of_sum"]), (&json!(250_000), &json!(0.25)));
        let text = report.text();
        assert!(text.contains("4.0 times fewer") && text.contains("error 0.250"), "{text}");
    }

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one() {
        assert_eq!(median(&[1.0, 2.0, 7.0]), 2.0);
        assert_eq!(median(&[5.0]), 5.0);
    }
}
