//! The results of the measurement, and its verdict.

use std::time::Duration;

use serde::Serialize;
use tributary_cli::output::number_table;

use super::phase::Phase;

/// The greatest relative error of a predicted step time.
const PREDICTION: f64 = 0.15;
/// The greatest allowed step time with one of eight workers left out, relative to an undisturbed step.
const DETACHED: f64 = 1.1;
const SHRUNK: f64 = 1.2;
/// The greatest change of the accuracy if all data are processed: one percentage point.
const ACCURACY: f64 = 0.01;
/// The least loss of accuracy that counts as visible.
const VISIBLE: f64 = 0.02;

/// The parameters of the emulated accelerators.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DeviceParameters {
    emulated: bool,
    how: &'static str,
    alpha_s: f64,
    beta_s: f64,
}

impl DeviceParameters {
    pub(super) fn emulated(step_ms: u64, sample_ms: u64) -> Self {
        let how = "each process computes a real gradient, and also waits alpha + beta * samples of the time in which \
                   it runs";
        Self { emulated: true, how, alpha_s: step_ms as f64 / 1e3, beta_s: sample_ms as f64 / 1e3 }
    }
}

/// The whole measurement.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DegradedReport {
    topology: String,
    training_steps: u32,
    factor: f64,
    device: DeviceParameters,
    phases: Vec<Compared>,
    checks: Vec<Check>,
    passed: bool,
    seconds: f64,
}

/// A phase, compared with the undisturbed phase and with the prediction.
#[derive(Debug, Clone, Serialize)]
struct Compared {
    #[serde(flatten)]
    phase: Phase,
    /// The phase's step time relative to the undisturbed step time.
    of_undisturbed: f64,
    /// The error of the prediction, relative to the measured time.
    prediction_error: f64,
}

/// A condition that must hold.
#[derive(Debug, Clone, Serialize)]
struct Check {
    what: String,
    measured: f64,
    limit: String,
    ok: bool,
}

impl Check {
    fn new(what: impl Into<String>, measured: f64, limit: impl Into<String>, ok: bool) -> Self {
        Self { what: what.into(), measured, limit: limit.into(), ok }
    }
}

impl DegradedReport {
    /// Makes the report. `phases` are in the order of the measurement, with the undisturbed phase first.
    pub(super) fn new(
        topology: &str,
        training_steps: u32,
        factor: f64,
        device: DeviceParameters,
        phases: Vec<Phase>,
        took: Duration,
    ) -> Self {
        let undisturbed = phases.first().map_or(f64::NAN, |phase| phase.step_s);
        let compared = |phase: Phase| Compared {
            of_undisturbed: phase.step_s / undisturbed,
            prediction_error: phase.predicted_s / phase.step_s - 1.0,
            phase,
        };
        let phases: Vec<_> = phases.into_iter().map(compared).collect();
        let checks = checks(&phases);
        Self {
            topology: topology.to_owned(),
            training_steps,
            factor,
            device,
            passed: checks.iter().all(|check| check.ok),
            phases,
            checks,
            seconds: took.as_secs_f64(),
        }
    }

    /// Returns the checks that failed.
    pub(super) fn failures(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| !check.ok);
        failed
            .map(|check| format!("{}: {:.3}, where {} is needed", check.what, check.measured, check.limit))
            .collect()
    }

    /// Formats the report for people.
    pub(super) fn text(&self) -> String {
        let mut table = number_table(&[
            "eight workers",
            "θ",
            "mode",
            "members",
            "samples",
            "a step",
            "relative to undisturbed",
            "predicted",
            "error",
            "accuracy",
        ]);
        for Compared { phase, of_undisturbed, prediction_error } in &self.phases {
            table.add_row([
                phase.name.to_owned(),
                phase.theta.map_or_else(String::new, |theta| theta.to_string()),
                phase.mode.unwrap_or_default().to_owned(),
                phase.members.to_string(),
                phase.samples.to_string(),
                format!("{:.3} s", phase.step_s),
                format!("{of_undisturbed:.2}"),
                format!("{:.3} s", phase.predicted_s),
                format!("{:+.1} %", prediction_error * 100.0),
                phase.accuracy.map_or_else(String::new, |accuracy| format!("{:.1} %", accuracy * 100.0)),
            ]);
        }
        let mut lines = vec![table.to_string()];
        lines.extend(self.checks.iter().map(|check| {
            let mark = if check.ok { "ok" } else { "NOT" };
            format!("{mark:>4}  {}: {:.3} (needed: {})", check.what, check.measured, check.limit)
        }));
        let DeviceParameters { alpha_s, beta_s, .. } = self.device;
        lines.push(format!(
            "topology {}, slow workers are {} times slower; {:.0} s in all. Workers' accelerators are emulated: \
             {alpha_s} s + {beta_s} s a sample of the time in which the process runs; the model, its gradients, data \
             and all-reduces are real",
            self.topology, self.factor, self.seconds
        ));
        lines.join("\n")
    }
}

fn checks(phases: &[Compared]) -> Vec<Check> {
    let find = |name: &str| phases.iter().find(|compared| compared.phase.name == name);
    let mut checks = Vec::new();
    for Compared { phase, prediction_error, .. } in phases {
        let what = format!("{}: relative error of the predicted time", phase.name);
        checks.push(Check::new(what, *prediction_error, "±0.15", prediction_error.abs() <= PREDICTION));
        if let Some(same) = phase.same_bits {
            let what = format!("{}: all members have the same model (1: yes)", phase.name);
            checks.push(Check::new(what, f64::from(u8::from(same)), "1", same));
        }
    }
    let mut ratio = |name: &str, most: f64| {
        if let Some(Compared { phase, of_undisturbed, .. }) = find(name) {
            let what = format!("{}: step time relative to undisturbed", phase.name);
            checks.push(Check::new(what, *of_undisturbed, format!("≤ {most}"), *of_undisturbed <= most));
        }
    };
    ratio("one slow, detach", DETACHED);
    ratio("one slow, shrink", SHRUNK);
    for (name, mode) in [("one slow, detach", "detach"), ("one slow, shrink", "shrink")] {
        if let Some(Compared { phase, .. }) = find(name) {
            let theta = phase.theta.unwrap_or_default();
            let what = format!("r = 0.125 and θ = {theta}: {mode} (1: yes)");
            let ok = phase.mode == Some(mode);
            checks.push(Check::new(what, f64::from(u8::from(ok)), "1", ok));
        }
    }
    let accuracy = |name: &str| find(name).and_then(|compared| compared.phase.accuracy);
    if let (Some(undisturbed), Some(shrink), Some(detach)) =
        (accuracy("undisturbed"), accuracy("one slow, shrink"), accuracy("one slow, detach"))
    {
        let (of_shrink, of_detach) = (shrink - undisturbed, detach - undisturbed);
        checks.push(Check::new(
            "shrink: accuracy minus undisturbed accuracy",
            of_shrink,
            "±0.01",
            of_shrink.abs() <= ACCURACY,
        ));
        checks.push(Check::new(
            "detach: accuracy minus undisturbed accuracy",
            of_detach,
            "≤ -0.02",
            of_detach <= -VISIBLE,
        ));
    }
    if let Some(Compared { phase, .. }) = find("slow for a while") {
        let steps = phase.steps_until_return;
        let measured = steps.map_or(f64::NAN, |steps| steps as f64);
        checks.push(Check::new("steps until a recovered worker is back", measured, "≥ 1", steps.is_some()));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &'static str, step_s: f64, accuracy: Option<f64>) -> Phase {
        let mode = ["detach", "shrink"].into_iter().find(|mode| name.ends_with(mode));
        Phase {
            name,
            slow: Vec::new(),
            theta: mode.map(|_| 0.125),
            mode,
            members: 8,
            outages: 0,
            samples: 128,
            step_s,
            steps: 12,
            predicted_s: step_s * 1.1,
            predicted_before_s: None,
            steps_until_change: None,
            steps_until_return: (name == "slow for a while").then_some(9),
            accuracy,
            same_bits: accuracy.map(|_| true),
            verdict: String::new(),
        }
    }

    fn report(detach: f64, shrunk_accuracy: f64) -> DegradedReport {
        let phases = vec![
            phase("undisturbed", 1.0, Some(0.95)),
            phase("one slow", 4.0, None),
            phase("one slow, detach", detach, Some(0.85)),
            phase("one slow, shrink", 1.15, Some(shrunk_accuracy)),
            phase("slow for a while", 1.15, None),
        ];
        let device = DeviceParameters::emulated(50, 40);
        DegradedReport::new("star", 60, 4.0, device, phases, Duration::from_secs(9))
    }

    #[test]
    fn what_must_be_is_checked() {
        let good = report(1.05, 0.945);
        assert!(good.passed && good.failures().is_empty(), "{:?}", good.failures());
        let text = good.text();
        assert!(text.contains("+10.0 %") && text.contains("emulated"), "{text}");
        let bad = report(1.2, 0.90);
        assert!(!bad.passed);
        assert_eq!(bad.failures().len(), 2, "{:?}", bad.failures());
        assert!(bad.failures()[0].contains("1.200, where ≤ 1.1 is needed"), "{:?}", bad.failures());
    }
}
