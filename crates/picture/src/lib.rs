//! Pictures of results: their common style, and the files in which they are stored.

mod chart;
mod file;
mod png;

use svg::Document;
use svg::node::element::{self, Rectangle, Text};

pub use chart::{Axis, Bars, Chart, Line};
pub use file::{PictureError, PictureFile};
pub use png::{PngError, png};

const FONT: &str = "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif";
/// The colour of the background.
pub const PAPER: &str = "#ffffff";
/// The colour of main text.
pub const INK: &str = "#1f2937";
/// The colour of explanatory text.
pub const FAINT: &str = "#6b7280";
/// The colour of guide lines.
pub const RULE: &str = "#d1d5db";
/// The colour of the picture's subject.
pub const OURS: &str = "#0f766e";
/// The colour of a variant of the subject.
pub const OURS_LIGHT: &str = "#5eada6";
/// The colour of the subject's baseline.
pub const OTHERS: &str = "#9aa3b2";
/// The colour of a variant of the baseline.
pub const OTHERS_LIGHT: &str = "#c9ced8";

/// Makes an empty page. The sizes are in pixels.
pub fn page(width: f64, height: f64, font_size: u32) -> Document {
    Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", FONT)
        .set("font-size", font_size)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", PAPER))
}

/// Makes a text that begins at the given point on its baseline.
pub fn text(x: f64, y: f64, content: impl Into<String>, color: &str) -> Text {
    Text::new(content).set("x", x).set("y", y).set("fill", color)
}

/// Makes a rectangle. `x` and `y` are its upper left corner.
pub fn rectangle(x: f64, y: f64, width: f64, height: f64, color: &str) -> Rectangle {
    let shape = Rectangle::new().set("x", round(x)).set("y", round(y));
    shape.set("width", round(width)).set("height", round(height)).set("fill", color)
}

/// Makes a vertical line at `x`, between the heights `from` and `to`.
pub fn vertical(x: f64, from: f64, to: f64, color: &str) -> element::Line {
    let x = round(x);
    element::Line::new()
        .set("x1", x)
        .set("x2", x)
        .set("y1", round(from))
        .set("y2", round(to))
        .set("stroke", color)
}

/// Rounds to hundredths of a pixel. Finer differences are invisible, and the file stays small.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
