//! The output of `tributary-bench scale`.

use std::fmt;

use bytesize::ByteSize;
use serde::Serialize;
use tributary_cli::output::number_table;
use tributary_sim::flow::Method;
use tributary_sim::flow::study::{Measured, Point, Settings, Study};
use tributary_topology::format_rate;

/// The results of all studies.
#[derive(Debug, Serialize)]
pub(super) struct ScaleReport {
    pub(super) settings: Settings,
    pub(super) studies: Vec<Studied>,
}

/// The results of one study.
#[derive(Debug, Serialize)]
pub(super) struct Studied {
    pub(super) study: Study,
    pub(super) points: Vec<Point>,
}

impl Studied {
    /// Returns the study's name.
    pub(super) fn name(&self) -> &'static str {
        match self.study {
            Study::Scaling => "scaling",
            Study::Jobs => "jobs",
            Study::Slots => "slots",
            Study::Congestion => "congestion",
            Study::Failures => "failures",
        }
    }

    /// Returns the label of the study's axis.
    pub(super) fn axis(&self) -> &'static str {
        match self.study {
            Study::Scaling => "workers",
            Study::Jobs => "jobs",
            Study::Slots => "room for",
            Study::Congestion => "load",
            Study::Failures => "dies",
        }
    }

    /// Describes the measurement, as a title.
    pub(super) fn title(&self, settings: &Settings) -> String {
        let workers = settings.workers;
        match self.study {
            Study::Scaling => "One job alone: time of a synchronisation, ms".to_owned(),
            Study::Jobs => format!("Jobs of {workers} workers on random hosts: time of an iteration, ms"),
            Study::Slots => {
                "16 such jobs, by the number of jobs with slots: time of an iteration, ms".to_owned()
            }
            Study::Congestion => "One such job with background traffic: time of an iteration, ms".to_owned(),
            Study::Failures => "One such job, and a switch that dies for 3 s: lost time, ms".to_owned(),
        }
    }

    /// Returns the methods, in the order of the results.
    pub(super) fn methods(&self) -> Vec<Method> {
        self.points
            .first()
            .map(|point| point.results.iter().map(|one| one.method).collect())
            .unwrap_or_default()
    }

    /// Returns true if the fabric's savings are a meaningful figure in this study.
    fn has_gains(&self) -> bool {
        !matches!(self.study, Study::Failures | Study::Slots)
    }

    fn times(&self) -> String {
        let labels: Vec<String> = self.methods().into_iter().map(label).collect();
        let header: Vec<&str> = [self.axis()].into_iter().chain(labels.iter().map(String::as_str)).collect();
        let mut table = number_table(&header);
        for Point { place, results } in &self.points {
            let times = results.iter().map(|one| one.seconds.map_or_else(|| "-".to_owned(), milliseconds));
            table.add_row([place.clone()].into_iter().chain(times));
        }
        table.to_string()
    }

    /// Formats the share of the other methods' time that each window of the fabric saves.
    fn gains(&self) -> String {
        let others: Vec<Method> =
            self.methods().into_iter().filter(|method| !method.is_in_network()).collect();
        let labels: Vec<String> = others.iter().copied().map(label).collect();
        let header: Vec<&str> =
            [self.axis(), "saved by"].into_iter().chain(labels.iter().map(String::as_str)).collect();
        let mut table = number_table(&header);
        for Point { place, results } in &self.points {
            // Windows with equal times share a row.
            let mut fabric: Vec<&Measured> =
                results.iter().filter(|one| matches!(one.method, Method::Fabric { .. })).collect();
            fabric.dedup_by_key(|one| one.seconds.map(milliseconds));
            for ours in fabric {
                let theirs = results.iter().filter(|one| others.contains(&one.method));
                let gains = theirs.map(|other| saved(ours, other).map_or_else(|| "-".to_owned(), per_cent));
                table.add_row([place.clone(), label(ours.method)].into_iter().chain(gains));
            }
        }
        table.to_string()
    }

    /// Returns the first reason why each method without figures has none.
    fn refusals(&self) -> Vec<String> {
        let refused = |one: &Measured| Some(format!("{}: {}", label(one.method), one.refused.as_ref()?));
        let mut all: Vec<_> =
            self.points.iter().flat_map(|point| &point.results).filter_map(refused).collect();
        all.truncate(1);
        all
    }

    /// Returns the windows that limited the fabric more than its links did.
    fn window_bound(&self) -> Vec<String> {
        let results = || self.points.iter().flat_map(|point| &point.results);
        let is_bound = |method| results().any(|one| one.method == method && one.window_bound > 0.5);
        let bound = self.methods().into_iter().filter(|method| is_bound(*method)).map(label);
        bound.map(|label| format!("{label}: its window, not a link, is the limit")).collect()
    }
}

/// Returns the share of the other method's time that ours saves.
fn saved(ours: &Measured, other: &Measured) -> Option<f64> {
    Some(1.0 - ours.seconds? / other.seconds?)
}

fn milliseconds(seconds: f64) -> String {
    let time = seconds * 1e3;
    if time.abs() < 99.95 { format!("{time:.1}") } else { format!("{time:.0}") }
}

fn per_cent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Returns a method's name in one or two words. PS is a parameter server.
pub(super) fn label(method: Method) -> String {
    match method {
        Method::Fabric { window } => format!("fabric {window}"),
        Method::Leaf { .. } => "leaves".to_owned(),
        Method::ParameterServer { servers: 1 } => "PS".to_owned(),
        Method::ParameterServer { servers } => format!("{servers} PS"),
        Method::Ring => "ring".to_owned(),
        Method::DoubleTree => "tree".to_owned(),
    }
}

/// Describes the settings that all studies share.
pub(super) fn of_hosts(settings: &Settings) -> String {
    let bytes = ByteSize(settings.gradient_bytes).display().si();
    format!("Gradients of {bytes}, hosts' links of {}", format_rate(settings.rate))
}

/// Describes the settings that all studies except scaling share.
pub(super) fn of_switches(settings: &Settings) -> String {
    let slow = settings.rate / u64::from(settings.oversubscription.max(1));
    let compute = settings.compute.seconds * 1e3;
    format!("links between switches of {}, {compute:.0} ms of computing", format_rate(slow))
}

impl fmt::Display for ScaleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.\nExcept for scaling: {}.", of_hosts(&self.settings), of_switches(&self.settings))?;
        for studied in &self.studies {
            write!(f, "\n\n{}\n{}", studied.title(&self.settings), studied.times())?;
            for note in studied.window_bound().into_iter().chain(studied.refusals()) {
                write!(f, "\n{note}")?;
            }
            if studied.has_gains() {
                write!(f, "\n{}", studied.gains())?;
            }
        }
        Ok(())
    }
}
