//! Many simulations, and the table of their results.

use serde::Serialize;
use tributary_protocol::Downlink;

use crate::outcome::ScenarioOutcome;
use crate::parallel::on_all_cores;
use crate::run::{SimError, run};
use crate::scenario::Scenario;

/// The scenarios of a sweep: every combination of the lists.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The scenario from which all combinations are derived.
    pub base: Scenario,
    /// Probabilities of loss on every link.
    pub losses: Vec<f64>,
    /// Windows, in slices.
    pub windows: Vec<u32>,
    /// Downlinks on which results travel.
    pub downlinks: Vec<Downlink>,
    /// The delay of one worker's start, in milliseconds.
    pub late_ms: Vec<u64>,
    /// Number of seeds for each combination. A row has the means over the seeds.
    pub seeds: u64,
}

impl Default for Sweep {
    /// Returns a sweep of losses up to 5 % with the default window.
    ///
    /// It takes a few seconds in a release build.
    fn default() -> Self {
        let base = Scenario::default();
        Self {
            losses: vec![0.0, 0.001, 0.005, 0.01, 0.02, 0.05],
            windows: vec![base.window],
            downlinks: vec![base.downlink],
            late_ms: vec![0],
            seeds: 3,
            base,
        }
    }
}

/// The results of one combination: means over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Probability of loss on every link, both directions.
    pub loss: f64,
    /// The job's window: slices in flight.
    pub window: u32,
    /// "multicast" or "unicast".
    pub downlink: &'static str,
    /// The delay of one worker's start, in milliseconds.
    pub late_ms: u64,
    /// Time until the last worker had the last result, in seconds.
    pub seconds: f64,
    /// This time relative to the time of the same combination without losses and delays.
    pub to_lossless: f64,
    /// This time relative to the time that a link needs for the values without headers.
    pub to_ideal: f64,
    /// Bytes on the link into the server.
    pub bytes_into_server: f64,
    /// Bytes on the link out of the server.
    pub bytes_out_of_server: f64,
    /// Bytes on all links, both directions.
    pub bytes_on_all_links: f64,
    /// Slices retransmitted by all workers.
    pub retransmissions: f64,
    /// Retransmitted slices relative to slices sent for the first time.
    pub retransmitted: f64,
    /// Retransmission timeouts on all workers.
    pub timeouts: f64,
    /// Packets dropped because a queue was full.
    pub dropped: f64,
}

/// Runs every combination of a sweep, several at a time.
///
/// Rows are in the order of the sweep's lists: windows, downlinks, delays, losses. The last one varies
/// fastest.
///
/// # Errors
/// The first [`SimError`] of any run.
pub fn sweep(sweep: &Sweep) -> Result<Vec<Row>, SimError> {
    let cases = combinations(sweep);
    let scenarios: Vec<Scenario> = cases
        .iter()
        .flat_map(|case| {
            (0..sweep.seeds).map(|seed| Scenario { seed: sweep.base.seed + seed, ..case.clone() })
        })
        .collect();
    let outcomes: Vec<ScenarioOutcome> =
        on_all_cores(&scenarios, run).into_iter().collect::<Result<_, _>>()?;
    let outcomes: Vec<&[ScenarioOutcome]> = outcomes.chunks(sweep.seeds.max(1) as usize).collect();
    let rows = cases.iter().zip(&outcomes).map(|(case, of_case)| {
        let undisturbed = cases.iter().position(|other| {
            (other.window, other.downlink) == (case.window, case.downlink) && is_undisturbed(other)
        });
        row(case, of_case, undisturbed.and_then(|at| outcomes.get(at)).copied())
    });
    Ok(rows.collect())
}

fn is_undisturbed(scenario: &Scenario) -> bool {
    scenario.link.loss == 0.0 && scenario.stragglers.iter().all(|(_, late)| late.is_zero())
}

fn combinations(sweep: &Sweep) -> Vec<Scenario> {
    let mut cases = Vec::new();
    for &window in &sweep.windows {
        for &downlink in &sweep.downlinks {
            for &late in &sweep.late_ms {
                for &loss in &sweep.losses {
                    let mut case = Scenario { window, downlink, ..sweep.base.clone() };
                    case.link.loss = loss;
                    case.stragglers.push((0, std::time::Duration::from_millis(late)));
                    cases.push(case);
                }
            }
        }
    }
    cases
}

fn row(case: &Scenario, outcomes: &[ScenarioOutcome], undisturbed: Option<&[ScenarioOutcome]>) -> Row {
    let mean = |outcomes: &[ScenarioOutcome], of: &dyn Fn(&ScenarioOutcome) -> f64| {
        outcomes.iter().map(of).sum::<f64>() / outcomes.len().max(1) as f64
    };
    let seconds_of = |outcome: &ScenarioOutcome| outcome.duration.as_secs_f64();
    let seconds = mean(outcomes, &seconds_of);
    Row {
        loss: case.link.loss,
        window: case.window,
        downlink: match case.downlink {
            Downlink::Multicast => "multicast",
            Downlink::Unicast => "unicast",
        },
        late_ms: case.stragglers.iter().map(|(_, late)| late.as_millis() as u64).sum(),
        seconds,
        to_lossless: undisturbed.map_or(f64::NAN, |outcomes| seconds / mean(outcomes, &seconds_of)),
        to_ideal: seconds / case.ideal().as_secs_f64(),
        bytes_into_server: mean(outcomes, &|outcome| outcome.bytes_into_server() as f64),
        bytes_out_of_server: mean(outcomes, &|outcome| outcome.bytes_out_of_server() as f64),
        bytes_on_all_links: mean(outcomes, &|outcome| outcome.bytes_on_all_links() as f64),
        retransmissions: mean(outcomes, &|outcome| outcome.retransmitted() as f64),
        retransmitted: mean(outcomes, &|outcome| outcome.retransmitted() as f64 / outcome.sent() as f64),
        timeouts: mean(outcomes, &|outcome| outcome.timeouts() as f64),
        dropped: mean(outcomes, &|outcome| outcome.dropped() as f64),
    }
}
