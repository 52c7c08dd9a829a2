//! Draws the comparison, with a row for each codec and a column for each figure.

use svg::node::element::{Group, Path};
use svg::{Document, Node};

use super::candidates::{CLUSTERED, F32};
use super::report::{CodecReport, CodecRow, Setting};
use tributary_picture::{
    FAINT, INK, OTHERS, OTHERS_LIGHT, OURS, OURS_LIGHT, PAPER, RULE, page, rectangle, text, vertical,
};

const MARGIN: f64 = 24.0;
/// The left edge of the first column's bars, and the distance between columns.
const LEFT: f64 = 226.0;
const COLUMN: f64 = 226.0;
/// Length of the longest bar. The figures are printed to the right of the bar.
const LONGEST: f64 = 116.0;
const TOP: f64 = 142.0;
const ROW: f64 = 30.0;
const BAR: f64 = 18.0;
const FOOTER: f64 = 24.0;
/// Distance from the top of a bar to the baseline of its text.
const TEXT_BASE: f64 = 13.5;

/// One figure for all codecs.
struct Column {
    title: &'static str,
    explained: &'static str,
    /// The value of the longest bar. Bars of larger values are cut off.
    most: f64,
    /// The value at which a reference line is drawn.
    line: Option<f64>,
    figures: fn(&CodecRow) -> Figures,
}

/// One codec's values in a column: one bar, or two bars of half the height, one above the other.
struct Figures {
    bars: Vec<f64>,
    said: String,
}

/// Draws the report.
pub(super) fn picture(report: &CodecReport) -> Document {
    let columns = columns(&report.codecs);
    let bottom = TOP + report.codecs.len() as f64 * ROW;
    let mut page = page(LEFT + columns.len() as f64 * COLUMN, bottom + FOOTER, 13).add(title(report));
    for (row, top) in tops(&report.codecs) {
        page.append(text(LEFT - 12.0, top + TEXT_BASE, row.codec, INK).set("text-anchor", "end"));
    }
    for (at, column) in columns.iter().enumerate() {
        page.append(column.draw(&report.codecs, LEFT + at as f64 * COLUMN, bottom));
    }
    page
}

/// Returns the rows, each with the top of its bars.
fn tops(rows: &[CodecRow]) -> impl Iterator<Item = (&CodecRow, f64)> {
    rows.iter().enumerate().map(|(at, row)| (row, TOP + at as f64 * ROW))
}

fn title(report: &CodecReport) -> Group {
    let values = report.codecs.first().map_or(0, |row| row.values);
    let what = format!("Codecs, applied to a worker's gradient of {values} values");
    let Setting { workers, rounds, seeds } = report.setting;
    let trainings = if seeds == 1 { "one training".to_owned() } else { format!("mean of {seeds} trainings") };
    let how = format!(
        "{workers} workers, {rounds} rounds. Accuracy: on held-out images, {trainings}. Times: this machine's, on all \
         cores. Green: kinds of CASQ."
    );
    Group::new()
        .add(text(MARGIN, 36.0, what, INK).set("font-size", 19).set("font-weight", 600))
        .add(text(MARGIN, 60.0, how, FAINT))
}

fn columns(rows: &[CodecRow]) -> [Column; 5] {
    let most = |figures: fn(&CodecRow) -> Figures| {
        let bars = rows.iter().flat_map(|row| figures(row).bars);
        bars.fold(f64::MIN_POSITIVE, f64::max)
    };
    let f32 = rows.iter().find(|row| row.codec == F32);
    [
        Column {
            title: "Bits a value",
            explained: "below: over a fabric, in lanes",
            most: most(bits),
            line: None,
            figures: bits,
        },
        Column {
            title: "Relative squared error",
            explained: "whole bar: all is lost; below: of the sum",
            most: 1.0,
            line: None,
            figures: errors,
        },
        Column {
            title: "Accuracy",
            explained: "line: of f32",
            most: 1.0,
            line: f32.map(|row| row.accuracy),
            figures: |row| Figures {
                bars: vec![row.accuracy],
                said: format!("{:.2} %", 100.0 * row.accuracy),
            },
        },
        Column {
            title: "Time to encode",
            explained: "below: to decode",
            most: most(times),
            line: None,
            figures: times,
        },
        Column {
            title: "Pays on links below",
            explained: "compared with sending f32",
            most: most(pays_below),
            line: None,
            figures: pays_below,
        },
    ]
}

fn bits(row: &CodecRow) -> Figures {
    let of = |bytes: usize| bytes as f64 * 8.0 / row.values.max(1) as f64;
    match row.fabric_bytes {
        Some(fabric) => {
            let bars = vec![of(row.bytes), of(fabric)];
            Figures { said: format!("{:.1}, fabric {:.1}", bars[0], bars[1]), bars }
        }
        None => Figures { bars: vec![of(row.bytes)], said: format!("{:.1}", of(row.bytes)) },
    }
}

fn errors(row: &CodecRow) -> Figures {
    let said = |error: f64| match error {
        0.0 => "0".to_owned(),
        ..0.001 => format!("{error:.0e}"),
        ..1.0 => format!("{error:.3}"),
        ..10.0 => format!("{error:.2}"),
        _ => format!("{error:.1}"),
    };
    let bars = vec![row.nmse, row.nmse_of_sum];
    Figures { said: format!("{}, {}", said(bars[0]), said(bars[1])), bars }
}

fn times(row: &CodecRow) -> Figures {
    let bars = [row.encode_gb_per_s, row.decode_gb_per_s].map(|rate| row.milliseconds(rate));
    Figures { said: format!("{:.2}, {:.2} ms", bars[0], bars[1]), bars: bars.to_vec() }
}

fn pays_below(row: &CodecRow) -> Figures {
    match row.break_even_mbit_per_s {
        Some(rate) => Figures { bars: vec![rate], said: format!("{:.2} Gbit/s", rate / 1e3) },
        None => Figures { bars: Vec::new(), said: "–".to_owned() },
    }
}

impl Column {
    fn draw(&self, rows: &[CodecRow], left: f64, bottom: f64) -> Group {
        let mut group = Group::new()
            .add(text(left, TOP - 38.0, self.title, INK).set("font-weight", 600))
            .add(text(left, TOP - 20.0, self.explained, FAINT).set("font-size", 10))
            .add(vertical(left, TOP - 8.0, bottom, RULE));
        if let Some(line) = self.line {
            let x = left + (line / self.most).min(1.0) * LONGEST;
            group.append(vertical(x, TOP - 8.0, bottom, RULE).set("stroke-dasharray", "4 3"));
        }
        for (row, top) in tops(rows) {
            group.append(self.cell(row, left, top));
        }
        group
    }

    fn cell(&self, row: &CodecRow, left: f64, top: f64) -> Group {
        let ours = row.codec.starts_with(CLUSTERED);
        let colors = if ours { [OURS, OURS_LIGHT] } else { [OTHERS, OTHERS_LIGHT] };
        let Figures { bars, said } = (self.figures)(row);
        let height = BAR / bars.len().max(1) as f64;
        let (mut group, mut end) = (Group::new(), left);
        for (at, (value, color)) in bars.iter().zip(colors).enumerate() {
            let (y, width) = (top + at as f64 * height, (value / self.most).min(1.0) * LONGEST);
            group.append(rectangle(left, y, width, height, color));
            end = end.max(left + width);
            if *value > self.most {
                // An arrowhead shows that the value exceeds the bar.
                let head =
                    format!("M{} {y}l{} {}l{} {}z", left + LONGEST, 5.0, height / 2.0, -5.0, height / 2.0);
                group.append(Path::new().set("d", head).set("fill", color));
                end = left + LONGEST + 5.0;
            }
        }
        // The text has an outline in the background colour, so that it is readable on a line.
        let said = text(end + 7.0, top + TEXT_BASE, said, INK).set("font-size", 12);
        group.add(said.set("paint-order", "stroke").set("stroke", PAPER).set("stroke-width", 4))
    }
}
