//! A comparison as a picture: a panel for each rate, a bar for each contender.

use bytesize::ByteSize;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};
use svg::node::element::{Group, Line, Rectangle, Text};
use svg::{Document, Node};
use thiserror::Error;

use crate::comparison::{Contender, Report, Row};

const WIDTH: f64 = 940.0;
/// Where bars begin, and how long the longest is.
const LEFT: f64 = 190.0;
const LONGEST: f64 = 500.0;
const TOP: f64 = 92.0;
const PANEL_HEADER: f64 = 34.0;
const BAR: f64 = 18.0;
const BAR_STEP: f64 = 27.0;
const PANEL_GAP: f64 = 34.0;
const FOOTER: f64 = 30.0;
/// Half the height of the ends of a whisker.
const WHISKER: f64 = 5.0;
/// From the top of a bar to the base of its text.
const TEXT_BASE: f64 = 13.5;
/// Pixels of the PNG for each unit of the picture: sharp on dense screens.
const SCALE: f32 = 2.0;

const FONT: &str = "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif";
const INK: &str = "#1f2937";
const FAINT: &str = "#6b7280";
const RULE: &str = "#d1d5db";
const OURS: &str = "#0f766e";
const OURS_LOSSY: &str = "#5eada6";
const OTHERS: &str = "#9aa3b2";

/// Why there is no PNG.
#[derive(Debug, Error)]
pub enum PlotError {
    /// This machine has no fonts: there would be no text in the picture.
    #[error(
        "this machine has no fonts to draw text with: install some with `apt-get install fonts-dejavu-core`"
    )]
    NoFonts,
    /// The picture is none.
    #[error("cannot draw the picture: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// There is no memory for so large a picture.
    #[error("a picture of {0} by {1} pixels cannot be drawn")]
    Size(u32, u32),
    /// The picture cannot be written as PNG.
    #[error("cannot encode the picture: {0}")]
    Png(String),
}

/// Draws the report as SVG.
pub fn svg(report: &Report) -> String {
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
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", FONT)
        .set("font-size", 13)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "#ffffff"))
        .add(title(report));
    for panel in panels {
        document.append(panel);
    }
    format!("{document}\n")
}

/// Makes a PNG of an SVG, with the fonts that this machine has.
///
/// # Errors
/// [`PlotError`].
pub fn png(svg: &str) -> Result<Vec<u8>, PlotError> {
    let mut options = Options::default();
    options.fontdb_mut().load_system_fonts();
    let any = options.fontdb.faces().next().map(|face| face.families.first().map(|(name, _)| name.clone()));
    let family = any.flatten().ok_or(PlotError::NoFonts)?;
    // What the generic name stands for is a setting of desktops, which a server need not have.
    if options.fontdb.faces().all(|face| face.families.iter().all(|(name, _)| name != "DejaVu Sans")) {
        options.fontdb_mut().set_sans_serif_family(family);
    } else {
        options.fontdb_mut().set_sans_serif_family("DejaVu Sans");
    }
    let tree = Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(SCALE).unwrap_or(tree.size().to_int_size());
    let too_large = PlotError::Size(size.width(), size.height());
    let mut pixmap = Pixmap::new(size.width(), size.height()).ok_or(too_large)?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| PlotError::Png(error.to_string()))
}

fn text(x: f64, y: f64, content: impl Into<String>) -> Text {
    Text::new(content.into()).set("x", x).set("y", y).set("fill", INK)
}

fn title(report: &Report) -> Group {
    let setting = &report.setting;
    let (size, workers) = (ByteSize(setting.bytes), setting.workers);
    let what = format!("All-reduce of {size} of f32 over {workers} workers, topology {}", setting.topology);
    let how = format!(
        "Bars: median of {} turns, whiskers: fastest and slowest. 1 x is the time of the bare tensor on one link.",
        setting.rounds
    );
    Group::new()
        .add(text(24.0, 36.0, what).set("font-size", 19).set("font-weight", 600))
        .add(text(24.0, 60.0, how).set("fill", FAINT))
}

/// One rate.
struct Panel<'a> {
    report: &'a Report,
    rate: u64,
    top: f64,
    height: f64,
    /// Length of a bar for the time of the bare tensor.
    scale: f64,
}

impl Panel<'_> {
    fn draw(&self, rows: &[&Row]) -> Group {
        let ring = self.report.ring_bound();
        let name = format!("{} Mbit/s", self.rate as f64 / 1e6);
        let mut group = Group::new().add(text(24.0, self.top + 14.0, name).set("font-weight", 600));
        for (place, label) in [(1.0, "1 x".to_owned()), (ring, format!("ring's bound, {ring:.2} x"))] {
            group.append(self.rule(place, &label));
        }
        for (at, row) in rows.iter().enumerate() {
            group.append(self.bar(row, self.top + PANEL_HEADER + at as f64 * BAR_STEP));
        }
        group
    }

    /// A vertical line, so many times the bare tensor's time from the left.
    fn rule(&self, place: f64, label: &str) -> Group {
        let x = LEFT + place * self.scale;
        let line = Line::new().set("x1", x).set("x2", x);
        let line = line.set("y1", self.top + 20.0).set("y2", self.top + self.height).set("stroke", RULE);
        let label = text(x, self.top + 14.0, label).set("font-size", 11).set("fill", FAINT);
        // The two lines can be close: the first label ends at its line, the other begins there.
        let anchor = if place > 1.0 { "start" } else { "end" };
        Group::new().add(line).add(label.set("text-anchor", anchor))
    }

    fn bar(&self, row: &Row, top: f64) -> Group {
        let bare = self.report.bare_seconds(self.rate);
        let at = |seconds: f64| LEFT + seconds / bare * self.scale;
        let (middle, end) = (top + BAR / 2.0, at(row.seconds.max));
        let color = match (row.case.contender, row.case.loss > 0.0) {
            (Contender::Ours, false) => OURS,
            (Contender::Ours, true) => OURS_LOSSY,
            _ => OTHERS,
        };
        let whisker = |x1: f64, x2: f64, half: f64| {
            let line = Line::new().set("x1", x1).set("x2", x2).set("stroke", INK);
            line.set("y1", middle - half).set("y2", middle + half)
        };
        let said =
            format!("{:.0} ms  ({:.2} x), limit: {}", row.seconds.median * 1e3, row.to_bare, row.limit);
        Group::new()
            .add(text(LEFT - 10.0, top + TEXT_BASE, row.case.to_string()).set("text-anchor", "end"))
            .add(
                Rectangle::new()
                    .set("x", LEFT)
                    .set("y", top)
                    .set("width", at(row.seconds.median) - LEFT)
                    .set("height", BAR)
                    .set("fill", color),
            )
            .add(whisker(at(row.seconds.min), end, 0.0))
            .add(whisker(at(row.seconds.min), at(row.seconds.min), WHISKER))
            .add(whisker(end, end, WHISKER))
            .add(text(end + 10.0, top + TEXT_BASE, said))
    }
}
