//! A study as a picture: a line for each method, or bars where nothing is between one place and the next.

use svg::node::element::{Circle, Group, Line, Polyline};
use svg::{Document, Node};
use tributary_sim::flow::Method;
use tributary_sim::flow::study::{Settings, Study};

use super::report::{Studied, label, of_hosts, of_switches};
use crate::picture::{FAINT, INK, OTHERS, OURS, OURS_LIGHT, RULE, page, rectangle, text};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 80.0;
const BOTTOM: f64 = 370.0;
const LABEL_STEP: f64 = 15.0;
/// What is shorter is drawn as if it were so long, in milliseconds: an axis by powers of ten has no 0.
const SHORTEST: f64 = 1.0;
/// Where times differ by a larger factor, the axis is by powers of ten.
const MOST_EVEN: f64 = 20.0;
/// Of bars.
const BAR: f64 = 13.0;
const BAR_STEP: f64 = 17.0;
/// The most lines of an even axis.
const TICKS: f64 = 7.0;

/// Draws a study.
pub(super) fn picture(studied: &Studied, settings: &Settings) -> Document {
    let chart = Chart { studied, scale: Scale::of(studied) };
    let subtitle = if studied.study == Study::Scaling {
        "Fat trees that just hold the job; all links have one rate".to_owned()
    } else {
        format!("{}; {}", of_hosts(settings), of_switches(settings))
    };
    page(WIDTH, HEIGHT, 12)
        .add(text(24.0, 32.0, studied.title(settings), INK).set("font-size", 16).set("font-weight", 600))
        .add(text(24.0, 54.0, subtitle, FAINT).set("font-size", 11))
        .add(chart.axes())
        .add(if studied.study == Study::Failures { chart.bars() } else { chart.lines() })
}

/// The axis of times, all in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// From 0 to so many steps.
    Even { step: f64, steps: f64 },
    /// By powers of ten, from one to another.
    Decades { least: f64, most: f64 },
}

impl Scale {
    fn of(studied: &Studied) -> Self {
        let results = studied.points.iter().flat_map(|point| &point.results);
        let times = results.filter_map(|one| one.seconds).map(|seconds| (seconds * 1e3).max(SHORTEST));
        let (least, most) =
            times.fold((f64::INFINITY, SHORTEST), |(least, most), time| (time.min(least), time.max(most)));
        if most <= MOST_EVEN * least {
            let power = 10f64.powf((most / TICKS).log10().floor());
            let step =
                [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|step| most <= TICKS * step);
            let step = step.unwrap_or(10.0 * power);
            return Self::Even { step, steps: (most / step).ceil() };
        }
        let (least, most) = (least.log10().floor(), most.log10().ceil());
        Self::Decades { least, most }
    }

    /// From 0 at the bottom to 1 at the top.
    fn height(self, milliseconds: f64) -> f64 {
        match self {
            Self::Even { step, steps } => milliseconds.max(0.0) / (step * steps),
            Self::Decades { least, most } => (milliseconds.max(SHORTEST).log10() - least) / (most - least),
        }
    }

    fn ticks(self) -> Vec<f64> {
        let count = |lines: f64| 0..=lines as u32;
        match self {
            Self::Even { step, steps } => count(steps).map(|tick| f64::from(tick) * step).collect(),
            Self::Decades { least, most } => {
                count(most - least).map(|tick| 10f64.powf(least + f64::from(tick))).collect()
            }
        }
    }
}

struct Chart<'a> {
    studied: &'a Studied,
    scale: Scale,
}

impl Chart<'_> {
    fn x(&self, place: usize) -> f64 {
        let steps = self.studied.points.len().saturating_sub(1).max(1);
        LEFT + 20.0 + (RIGHT - LEFT - 40.0) * place as f64 / steps as f64
    }

    /// Between the bars of a place.
    fn bar_middle(&self, place: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * (place as f64 + 0.5) / self.studied.points.len().max(1) as f64
    }

    fn y(&self, milliseconds: f64) -> f64 {
        let y = BOTTOM - (BOTTOM - TOP) * self.scale.height(milliseconds);
        (y * 10.0).round() / 10.0
    }

    fn axes(&self) -> Group {
        let mut group = Group::new();
        for milliseconds in self.scale.ticks() {
            let y = self.y(milliseconds);
            let line = Line::new().set("x1", LEFT).set("x2", RIGHT).set("y1", y).set("y2", y);
            group.append(line.set("stroke", RULE));
            let label = text(LEFT - 8.0, y + 4.0, spoken(milliseconds), FAINT);
            group.append(label.set("text-anchor", "end"));
        }
        for (place, point) in self.studied.points.iter().enumerate() {
            let has_bars = self.studied.study == Study::Failures;
            let x = if has_bars { self.bar_middle(place) } else { self.x(place) };
            let label = text(x, BOTTOM + 20.0, point.place.clone(), FAINT);
            group.append(label.set("text-anchor", "middle"));
        }
        let middle = (LEFT + RIGHT) / 2.0;
        group.add(text(middle, BOTTOM + 40.0, self.studied.axis(), INK).set("text-anchor", "middle"))
    }

    /// A bar for each method at each place, in the order of their names at the right.
    fn bars(&self) -> Group {
        let mut group = Group::new();
        let methods = self.studied.methods();
        let first = -0.5 * BAR_STEP * methods.len() as f64;
        for (which, method) in methods.into_iter().enumerate() {
            let (color, dashes) = look(method);
            // Two of one kind differ in how their lines are drawn, so here the second one is paler.
            let opacity = if dashes == "none" { 1.0 } else { 0.5 };
            for (place, point) in self.studied.points.iter().enumerate() {
                let Some(time) = point.results.get(which).and_then(|result| result.seconds) else { continue };
                let (x, y) = (self.bar_middle(place) + first + which as f64 * BAR_STEP, self.y(time * 1e3));
                group.append(rectangle(x, y, BAR, BOTTOM - y, color).set("fill-opacity", opacity));
            }
            let y = TOP + LABEL_STEP * (which as f64 + 1.0);
            let name = text(RIGHT + 10.0, y, label(method), color).set("font-weight", 600);
            group.append(name.set("fill-opacity", opacity));
        }
        group
    }

    fn lines(&self) -> Group {
        let mut group = Group::new();
        let mut labels = Vec::new();
        for (which, method) in self.studied.methods().into_iter().enumerate() {
            let times = self.studied.points.iter().enumerate();
            let times = times.filter_map(|(place, point)| Some((place, point.results.get(which)?.seconds?)));
            let points: Vec<(f64, f64)> =
                times.map(|(place, time)| (self.x(place), self.y(time * 1e3))).collect();
            let Some(&(_, end)) = points.last() else { continue };
            let (color, dashes) = look(method);
            let all = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
            let line = Polyline::new().set("points", all).set("fill", "none").set("stroke", color);
            group.append(line.set("stroke-width", 2).set("stroke-dasharray", dashes));
            for (x, y) in points {
                group.append(
                    Circle::new().set("cx", format!("{x:.1}")).set("cy", y).set("r", 3).set("fill", color),
                );
            }
            labels.push((end, label(method), color));
        }
        // Where lines end close to one another, their labels go on downwards.
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = TOP - LABEL_STEP;
        for (end, label, color) in labels {
            let y = (end + 4.0).max(free);
            group.append(text(RIGHT + 10.0, y, label, color).set("font-weight", 600));
            free = y + LABEL_STEP;
        }
        group
    }
}

/// A time on the axis.
fn spoken(milliseconds: f64) -> String {
    if milliseconds < 1000.0 { format!("{milliseconds} ms") } else { format!("{} s", milliseconds / 1e3) }
}

/// A method's colour, and its dashes.
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
