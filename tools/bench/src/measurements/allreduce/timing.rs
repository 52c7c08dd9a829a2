//! Reports of the ranks about their all-reduces, and the timings that are computed from the reports.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Returns the number of tensors that a turn of `iterations` all-reduces has reduced.
///
/// In each turn, all contenders warm up with one more all-reduce, as in `tools/bench/baselines`. New
/// processes have new memory and closed congestion windows, but a training has these only once.
pub(in crate::measurements) fn tensors_of_a_turn(iterations: u32) -> f64 {
    f64::from(iterations) + 1.0
}

/// A line that a rank prints; one rank may print it for all ranks.
#[derive(Debug, Deserialize)]
struct RankLine {
    /// True if every sum was compared with the expected sum.
    checked: bool,
    /// The start of each iteration, as Unix time, and its duration, both in seconds.
    timeline: Vec<(f64, f64)>,
}

/// The times of one all-reduce over all ranks, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::measurements) struct Timing {
    /// Unix time at which the first rank began.
    pub(in crate::measurements) began: f64,
    /// Unix time at which the last rank ended.
    pub(in crate::measurements) ended: f64,
    /// Time that the slowest rank took.
    pub(in crate::measurements) slowest: f64,
}

/// Combines the lines that the ranks printed into the timings of all iterations.
///
/// # Errors
/// A line is malformed, or sums were not checked.
pub(in crate::measurements) fn of_all<'a>(
    lines: impl IntoIterator<Item = &'a str>,
    iterations: u32,
) -> Result<Vec<Timing>> {
    let mut all = vec![None::<Timing>; iterations as usize];
    for line in lines {
        let said: RankLine =
            serde_json::from_str(line).with_context(|| format!("unexpected output of a rank: {line:?}"))?;
        ensure!(said.checked && said.timeline.len() == all.len(), "unexpected output of a rank: {line:?}");
        for (together, (began, took)) in all.iter_mut().zip(said.timeline) {
            let own = Timing { began, ended: began + took, slowest: took };
            *together = Some(together.map_or(own, |others| others.with(own)));
        }
    }
    all.into_iter().collect::<Option<_>>().context("no rank printed a result")
}

impl Timing {
    fn with(self, other: Self) -> Self {
        Self {
            began: self.began.min(other.began),
            ended: self.ended.max(other.ended),
            slowest: self.slowest.max(other.slowest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_all_reduce_takes_as_long_as_its_slowest_rank() {
        let lines = [
            r#"{"checked": true, "timeline": [[10.0, 1.5], [20.0, 1.0]], "rank": 0}"#,
            r#"{"checked": true, "timeline": [[10.5, 1.25], [19.5, 2.0]], "rank": 1}"#,
        ];
        let timings = of_all(lines, 2).unwrap();
        assert_eq!(timings[0], Timing { began: 10.0, ended: 11.75, slowest: 1.5 });
        assert_eq!(timings[1], Timing { began: 19.5, ended: 21.5, slowest: 2.0 });
    }

    #[test]
    fn what_was_not_checked_or_is_incomplete_does_not_count() {
        assert!(of_all([r#"{"checked": false, "timeline": [[1.0, 1.0]]}"#], 1).is_err());
        assert!(of_all([r#"{"checked": true, "timeline": []}"#], 1).is_err());
        assert!(of_all(["Killed"], 1).is_err());
        assert!(of_all([], 1).is_err());
    }
}
