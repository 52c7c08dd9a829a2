//! A study as a picture.

use svg::Document;
use tributary_picture::{Axis, Bars, Chart, Line, OTHERS, OURS, OURS_LIGHT};
use tributary_sim::flow::Method;
use tributary_sim::flow::study::{Settings, Study};

use super::report::{Studied, label, of_hosts, of_switches};

/// The shortest time that is drawn, in milliseconds. Shorter times are drawn as this time.
///
/// A logarithmic axis has no 0.
const SHORTEST: f64 = 1.0;
/// The largest ratio of times on a linear axis. If the ratio is larger, the axis is logarithmic.
const MOST_EVEN: f64 = 20.0;

/// Draws a study.
pub(super) fn picture(studied: &Studied, settings: &Settings) -> Document {
    let subtitle = if studied.study == Study::Scaling {
        "The smallest fat trees that hold the job; all links have one rate".to_owned()
    } else {
        format!("{}; {}", of_hosts(settings), of_switches(settings))
    };
    let places = studied.points.iter().map(|point| point.place.clone());
    // The cases are different switches that die, so there is nothing to interpolate between them.
    let has_bars = studied.study == Study::Failures;
    Chart {
        title: studied.title(settings),
        subtitle,
        across: if has_bars {
            Axis::groups(studied.axis(), places)
        } else {
            Axis::places(studied.axis(), places)
        },
        up: times(studied),
        lines: if has_bars { Vec::new() } else { lines(studied) },
        bars: if has_bars { bars(studied) } else { Vec::new() },
    }
    .draw()
}

/// Returns the axis of times.
fn times(studied: &Studied) -> Axis {
    let results = studied.points.iter().flat_map(|point| &point.results);
    let times = results.filter_map(|one| one.seconds).map(|seconds| (seconds * 1e3).max(SHORTEST));
    let (least, most) =
        times.fold((f64::INFINITY, SHORTEST), |(least, most), time| (time.min(least), time.max(most)));
    if most <= MOST_EVEN * least {
        Axis::even("", 0.0, most, spoken)
    } else {
        Axis::decades("", least, most, spoken)
    }
}

/// Returns a method's times, at the points for which the method has a time.
fn points(studied: &Studied, which: usize) -> Vec<(f64, f64)> {
    let times = (0_u32..).map(f64::from).zip(&studied.points);
    times.filter_map(|(place, point)| Some((place, point.results.get(which)?.seconds? * 1e3))).collect()
}

fn lines(studied: &Studied) -> Vec<Line> {
    let line = |(which, method)| {
        let (color, dashes) = look(method);
        Line { name: label(method), color, dashes, points: points(studied, which) }
    };
    studied.methods().into_iter().enumerate().map(line).collect()
}

fn bars(studied: &Studied) -> Vec<Bars> {
    let bars = |(which, method)| {
        let (color, dashes) = look(method);
        // Methods of one kind differ in the dashes of their lines. Bars have no dashes, so the second
        // method's bar is paler.
        let opacity = if dashes == "none" { 1.0 } else { 0.5 };
        Bars { name: label(method), color, opacity, points: points(studied, which) }
    };
    studied.methods().into_iter().enumerate().map(bars).collect()
}

/// Returns a label of the time axis.
fn spoken(milliseconds: f64) -> String {
    if milliseconds < 1000.0 { format!("{milliseconds} ms") } else { format!("{} s", milliseconds / 1e3) }
}

/// Returns a method's colour and dashes.
fn look(method: Method) -> (&'static str, &'static str) {
    const SERVER: &str = "#b45309";
    const RING: &str = "#2563eb";
    const TREE: &str = "#7c3aed";
    match method {
        Method::Fabric { window: tributary_protocol::DEFAULT_WINDOW } => (OURS, "none"),
        Method::Fabric { .. } => (OURS_LIGHT, "none"),
        Method::Leaf { .. } => (OTHERS, "4 3"),
        Method::ParameterServer { servers: 1 } => (SERVER, "none"),
        Method::ParameterServer { .. } => (SERVER, "6 3"),
        Method::Ring => (RING, "none"),
        Method::DoubleTree => (TREE, "none"),
    }
}
