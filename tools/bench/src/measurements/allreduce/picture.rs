//! A comparison as a picture: a panel for each rate, a bar for each contender.

use bytesize::ByteSize;
use svg::node::element::{Group, Line};
use svg::{Document, Node};
use tributary_bench::comparison::{ComparisonReport, Contender, Row};

use tributary_picture::{FAINT, INK, OTHERS, OURS, OURS_LIGHT, RULE, page, rectangle, text, vertical};

const WIDTH: f64 = 940.0;
/// The left edge of the bars, and the length of the longest bar.
const LEFT: f64 = 190.0;
const LONGEST: f64 = 500.0;
const TOP: f64 = 92.0;
const PANEL_HEADER: f64 = 34.0;
const BAR: f64 = 18.0;
const BAR_STEP: f64 = 27.0;
const PANEL_GAP: f64 = 34.0;
const FOOTER: f64 = 30.0;
/// Half the height of the end lines of a whisker.
const WHISKER: f64 = 5.0;
/// Distance from the top of a bar to the baseline of its text.
const TEXT_BASE: f64 = 13.5;

/// Draws the report.
pub(super) fn picture(report: &ComparisonReport) -> Document {
    let mut rates: Vec<u64> = report.rows.iter().map(|row| row.case.rate).collect();
    rates.dedup();
    let longest = report.rows.iter().map(|row| row.seconds.max / report.bare_seconds(row.case.rate));
    let scale = LONGEST / longest.fold(report.ring_bound(), f64::max);
    let mut panels = Vec::new();
    let mut top = TOP;
    for rate in rates {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.case.rate == rate).collect();
        let panel = Panel { report, rate, top, height: PANEL_HEADER + rows.len() as f64 * BAR_STEP, scale };
        panels.push(panel.draw(&rows));
        top += panel.height + PANEL_GAP;
    }
    let height = top - PANEL_GAP + FOOTER;
    panels.into_iter().fold(page(WIDTH, height, 13).add(title(report)), Document::add)
}

fn title(report: &ComparisonReport) -> Group {
    let setting = &report.setting;
    let (size, workers) = (ByteSize(setting.bytes), setting.workers);
    let what = format!(
        "All-reduce of {size} of {} over {workers} workers, topology {}, MTU {}",
        setting.elements.name(),
        setting.topology,
        setting.mtu
    );
    let how = format!(
        "Bars: median of {} turns, whiskers: fastest and slowest. 1 x is the time of the bare tensor on one link.",
        setting.rounds
    );
    Group::new()
        .add(text(24.0, 36.0, what, INK).set("font-size", 19).set("font-weight", 600))
        .add(text(24.0, 60.0, how, FAINT))
}

/// The part of the picture for one rate.
struct Panel<'a> {
    report: &'a ComparisonReport,
    rate: u64,
    top: f64,
    height: f64,
    /// Length of a bar for the time that the tensor without headers takes on one link.
    scale: f64,
}

impl Panel<'_> {
    fn draw(&self, rows: &[&Row]) -> Group {
        let ring = self.report.ring_bound();
        let name = format!("{} Mbit/s", self.rate as f64 / 1e6);
        let mut group = Group::new().add(text(24.0, self.top + 14.0, name, INK).set("font-weight", 600));
        for (place, label) in [(1.0, "1 x".to_owned()), (ring, format!("ring's bound, {ring:.2} x"))] {
            group.append(self.rule(place, &label));
        }
        for (at, row) in rows.iter().enumerate() {
            group.append(self.bar(row, self.top + PANEL_HEADER + at as f64 * BAR_STEP));
        }
        group
    }

    /// Draws a vertical line at `place` times the time that the tensor without headers takes on one link.
    fn rule(&self, place: f64, label: &str) -> Group {
        let x = LEFT + place * self.scale;
        let line = vertical(x, self.top + 20.0, self.top + self.height, RULE);
        let label = text(x, self.top + 14.0, label, FAINT).set("font-size", 11);
        // The two lines can be close, so the first label ends at its line and the second label begins at its
        // line.
        let anchor = if place > 1.0 { "start" } else { "end" };
        Group::new().add(line).add(label.set("text-anchor", anchor))
    }

    fn bar(&self, row: &Row, top: f64) -> Group {
        let bare = self.report.bare_seconds(self.rate);
        let at = |seconds: f64| LEFT + seconds / bare * self.scale;
        let (middle, end) = (top + BAR / 2.0, at(row.seconds.max));
        let color = match (row.case.contender, row.case.loss > 0.0 || row.case.single_frames) {
            (Contender::Ours, false) => OURS,
            (Contender::Ours, true) => OURS_LIGHT,
            _ => OTHERS,
        };
        let whisker = |x1: f64, x2: f64, half: f64| {
            let line = Line::new().set("x1", x1).set("x2", x2).set("stroke", INK);
            line.set("y1", middle - half).set("y2", middle + half)
        };
        let said =
            format!("{:.0} ms  ({:.2} x), limit: {}", row.seconds.median * 1e3, row.to_bare, row.limit);
        Group::new()
            .add(text(LEFT - 10.0, top + TEXT_BASE, row.case.to_string(), INK).set("text-anchor", "end"))
            .add(rectangle(LEFT, top, at(row.seconds.median) - LEFT, BAR, color))
            .add(whisker(at(row.seconds.min), end, 0.0))
            .add(whisker(at(row.seconds.min), at(row.seconds.min), WHISKER))
            .add(whisker(end, end, WHISKER))
            .add(text(end + 10.0, top + TEXT_BASE, said, INK))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tributary_bench::comparison::{Case, ComparisonSetting, Elements, Machine, Turn};

    use super::*;

    #[test]
    fn the_picture_has_every_case_and_names_what_limits() {
        let machine =
            Machine { processor: "any".into(), cores: 2, kernel: "6.1".into(), build: "any".into() };
        let setting = ComparisonSetting {
            began: 0,
            topology: "three-tier-8".into(),
            workers: 8,
            bytes: 1 << 20,
            elements: Elements::default(),
            mtu: 1500,
            rounds: 1,
            iterations: 1,
            machine,
            versions: BTreeMap::new(),
            skipped: Vec::new(),
        };
        let turn = |contender, loss, seconds, processor_share| {
            let case = Case { rate: 50_000_000, loss, single_frames: false, contender };
            (case, Turn { seconds: vec![seconds], link_bytes: 1e6, processor_share })
        };
        let turns = [
            turn(Contender::Ours, 0.0, 0.17, 0.1),
            turn(Contender::Ours, 0.01, 0.4, 0.1),
            turn(Contender::OpenMpi, 0.0, 1.0, 0.99),
        ];
        let picture = picture(&ComparisonReport::of(setting, &turns).unwrap()).to_string();
        for word in ["Tributary, 1 % loss", "Open MPI", "limit: link", "limit: waiting", "limit: CPU"] {
            assert!(picture.contains(word), "{word:?} is not in: {picture}");
        }
    }
}
