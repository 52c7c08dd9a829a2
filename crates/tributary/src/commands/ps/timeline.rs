//! Draws the times at which workers computed and waited for other workers.

use std::time::Duration;

use svg::node::element::{Group, Title};
use svg::{Document, Node};

use super::experiment::ExperimentResult;
use super::record::{ExperimentRecord, Span, SpanKind};
use tributary_picture::{FAINT, INK, OURS, RULE, page, rectangle, text, vertical};

const TITLE: &str = "Computing and waiting times of the workers";

const WIDTH: f64 = 1400.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 92.0;
const TOP: f64 = 84.0;
/// Height of the area above the rows, for a policy's name and figures.
const HEADING: f64 = 34.0;
const ROW: f64 = 26.0;
const BAR: f64 = 15.0;
/// Height of the axis below the rows.
const AXIS: f64 = 46.0;
/// Bars narrower than this are not drawn.
const LEAST_WIDTH: f64 = 0.2;
/// The shortest wait for which a line is drawn. Shorter waits are caused by the network and not by
/// another worker.
const LEAST_WAIT: Duration = Duration::from_millis(8);
/// The most time that is drawn, so that single steps remain visible.
const LONGEST: Duration = Duration::from_secs(8);
/// The most lines of an axis, and the possible distances between them in milliseconds. The first
/// distance that needs no more lines is used.
const TICKS: u32 = 10;
const STEPS: [u64; 6] = [20, 50, 100, 200, 500, 1000];

const COMPUTES: &str = "#2563eb";
const IN_GROUP: &str = OURS;
const WAITS: &str = "#f5c78a";
const FOR_WHOM: &str = "#b45309";

/// Draws the end of each experiment, one below the other. Each has a heading and a row for each worker.
pub(super) fn picture(experiments: &[(String, &ExperimentResult)]) -> Document {
    let mut parts = Vec::new();
    let mut top = TOP;
    for (name, outcome) in experiments {
        let canvas = TimelineCanvas::new(&outcome.record, top);
        parts.push(canvas.draw(&heading(name, outcome), &outcome.record));
        top = canvas.bottom + AXIS;
    }
    let page = page(WIDTH, top, 12)
        .add(text(LEFT, 34.0, TITLE, INK).set("font-size", 17).set("font-weight", 600))
        .add(text(WIDTH - RIGHT, 34.0, drawn(experiments), FAINT).set("text-anchor", "end"))
        .add(legend());
    parts.into_iter().fold(page, Document::add)
}

/// Returns a text about the part of the time that is drawn; empty if all of it is drawn.
fn drawn(experiments: &[(String, &ExperimentResult)]) -> String {
    match experiments.iter().map(|(_, outcome)| outcome.record.length()).max() {
        Some(length) if length > LONGEST => {
            let (drawn, all) = (LONGEST.as_secs_f64(), length.as_secs_f64());
            format!("drawn: the last {drawn:.0} s; figures: of all {all:.0} s")
        }
        _ => String::new(),
    }
}

fn heading(name: &str, outcome: &ExperimentResult) -> String {
    format!(
        "{name}: accuracy {:.1} %, staleness {:.2}, idle {:.0} %, {} gradients in {} updates",
        100.0 * outcome.accuracy,
        outcome.staleness,
        100.0 * outcome.record.mean_idle(),
        outcome.iterations,
        outcome.updates,
    )
}

/// The part of an experiment's time that is drawn, and its position in the picture.
struct TimelineCanvas {
    from: Duration,
    to: Duration,
    top: f64,
    bottom: f64,
}

impl TimelineCanvas {
    fn new(record: &ExperimentRecord, top: f64) -> Self {
        let to = record.length();
        let bottom = top + HEADING + record.workers().len() as f64 * ROW;
        Self { from: to.saturating_sub(LONGEST), to, top, bottom }
    }

    fn draw(&self, heading: &str, record: &ExperimentRecord) -> Group {
        let heading = text(LEFT, self.top + 18.0, heading, INK).set("font-size", 13).set("font-weight", 600);
        let mut group = Group::new().add(heading).add(self.axis());
        for (worker, spans) in record.workers().enumerate() {
            group.append(self.row(worker, spans, record.idle(worker)));
        }
        // The lines are drawn last, so that they are above all bars.
        for (worker, spans) in record.workers().enumerate() {
            group.append(self.reasons(worker, spans));
        }
        group
    }

    /// Returns the y-coordinate of the middle of a worker's row.
    fn middle(&self, worker: usize) -> f64 {
        self.top + HEADING + ROW * (worker as f64 + 0.5)
    }

    fn x(&self, time: Duration) -> f64 {
        let share =
            time.saturating_sub(self.from).as_secs_f64() / (self.to - self.from).as_secs_f64().max(1e-9);
        LEFT + (WIDTH - LEFT - RIGHT) * share.min(1.0)
    }

    fn row(&self, worker: usize, spans: &[Span], idle: f64) -> Group {
        let y = self.middle(worker);
        let mut group = Group::new();
        group.append(text(LEFT - 12.0, y + 5.0, format!("worker {worker}"), INK).set("text-anchor", "end"));
        group.append(text(WIDTH - RIGHT + 10.0, y + 5.0, format!("{:.0} % idle", 100.0 * idle), FAINT));
        for span in spans.iter().filter(|span| span.to > self.from) {
            let (left, right) = (self.x(span.from), self.x(span.to));
            if right - left >= LEAST_WIDTH {
                group.append(bar(left, y, right - left, span));
            }
        }
        group
    }

    /// Draws a line from each worker that ended a wait to the worker that waited.
    fn reasons(&self, worker: usize, spans: &[Span]) -> Group {
        let mut group = Group::new();
        for span in spans.iter().filter(|span| span.to > self.from && span.to - span.from >= LEAST_WAIT) {
            let SpanKind::Waits { released_by: Some(other) } = span.kind else { continue };
            if usize::from(other) == worker {
                continue;
            }
            let x = self.x(span.to);
            let line = vertical(x, self.middle(other.into()), self.middle(worker), FOR_WHOM);
            group.append(line.set("stroke-width", 0.9).set("stroke-opacity", 0.55));
        }
        group
    }

    fn axis(&self) -> Group {
        let fits = |step: &Duration| self.to - self.from <= *step * TICKS;
        let step = STEPS.into_iter().map(Duration::from_millis).find(fits).unwrap_or(LONGEST);
        let ticks = (0..).map(|tick| step * tick).skip_while(|time| *time < self.from);
        let mut group = Group::new();
        for time in ticks.take_while(|time| *time <= self.to) {
            let x = self.x(time);
            group.append(vertical(x, self.top + HEADING - 6.0, self.bottom + 4.0, RULE));
            let said = text(x, self.bottom + 20.0, format!("{} s", time.as_secs_f64()), FAINT);
            group.append(said.set("text-anchor", "middle"));
        }
        group
    }
}

fn bar(x: f64, y: f64, width: f64, span: &Span) -> Group {
    let took = (span.to - span.from).as_secs_f64() * 1e3;
    let (fill, height, said) = match span.kind {
        SpanKind::Computes { in_group: true } => {
            (IN_GROUP, BAR, format!("computes for {took:.0} ms, in the group"))
        }
        SpanKind::Computes { in_group: false } => (COMPUTES, BAR, format!("computes for {took:.0} ms")),
        SpanKind::Waits { released_by: Some(other) } => {
            (WAITS, BAR * 0.6, format!("waits for {took:.0} ms, until worker {other}"))
        }
        SpanKind::Waits { released_by: None } => {
            (WAITS, BAR * 0.6, format!("waits at the end: {took:.0} ms"))
        }
    };
    // A gap separates single steps.
    let width = (width - 0.6).max(LEAST_WIDTH);
    Group::new().add(Title::new(said)).add(rectangle(x, y - height / 2.0, width, height, fill))
}

fn legend() -> Group {
    let mut group = Group::new();
    let mut x = LEFT;
    let entries = [
        (COMPUTES, BAR, "computes", 120.0),
        (IN_GROUP, BAR, "computes, in the synchronous group", 280.0),
        (WAITS, BAR * 0.6, "waits", 100.0),
    ];
    for (fill, height, said, width) in entries {
        group.append(rectangle(x, 60.0 - height / 2.0, 28.0, height, fill));
        group.append(text(x + 36.0, 64.0, said, INK));
        x += width;
    }
    group.append(vertical(x + 14.0, 50.0, 70.0, FOR_WHOM).set("stroke-width", 1.2));
    group.append(text(x + 28.0, 64.0, "leads to the worker whose gradient ended the wait", INK));
    group
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::record::Event;
    use super::*;

    #[test]
    fn a_wait_says_until_whom_and_a_line_leads_there() {
        let start = Instant::now();
        let mut record = ExperimentRecord::new(2, start);
        let mut event = |worker, ms, released| {
            record.add(&Event { worker, at: start + Duration::from_millis(ms), released });
        };
        event(0, 0, Some((0, false)));
        event(1, 0, Some((1, false)));
        event(0, 20, None);
        event(1, 40, None);
        event(0, 41, Some((1, false)));
        event(1, 41, Some((1, false)));
        record.close(start + Duration::from_millis(100));
        let outcome = ExperimentResult { accuracy: 0.5, staleness: 0.0, iterations: 2, updates: 1, record };
        let drawing = picture(&[("bsp".to_owned(), &outcome)]).to_string();
        assert!(drawing.contains("waits for 21 ms, until worker 1"), "{drawing}");
        assert!(drawing.contains("bsp: accuracy 50.0 %, staleness 0.00"), "{drawing}");
        // One of the two lines belongs to the legend. The wait of one millisecond has no line, because the
        // worker ended it itself.
        assert_eq!(drawing.matches(FOR_WHOM).count(), 2, "{drawing}");
    }
}
