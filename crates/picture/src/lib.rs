//! Pictures of results: their common look, and how they become files.

mod chart;
mod file;
mod png;

use svg::Document;
use svg::node::element::{self, Rectangle, Text};

pub use chart::{Axis, Bars, Chart, Line};
pub use file::{PictureError, PictureFile};
pub use png::{PngError, png};

const FONT: &str = "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif";
/// Background.
pub const PAPER: &str = "#ffffff";
/// Main text.
pub const INK: &str = "#1f2937";
/// Explanatory text.
pub const FAINT: &str = "#6b7280";
/// Guide lines.
pub const RULE: &str = "#d1d5db";
/// The subject of the picture.
pub const OURS: &str = "#0f766e";
/// A variant of the subject.
pub const OURS_LIGHT: &str = "#5eada6";
/// The colour of the subject's baseline.
pub const OTHERS: &str = "#9aa3b2";
/// A variant of that.
pub const OTHERS_LIGHT: &str = "#c9ced8";

/// An empty page, in pixels.
pub fn page(width: f64, height: f64, font_size: u32) -> Document {
    Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", FONT)
        .set("font-size", font_size)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", PAPER))
}

/// Text that begins at a point on its baseline.
pub fn text(x: f64, y: f64, content: impl Into<String>, color: &str) -> Text {
    Text::new(content).set("x", x).set("y", y).set("fill", color)
}

/// A rectangle by its upper left corner.
pub fn rectangle(x: f64, y: f64, width: f64, height: f64, color: &str) -> Rectangle {
    let shape = Rectangle::new().set("x", round(x)).set("y", round(y));
    shape.set("width", round(width)).set("height", round(height)).set("fill", color)
}

/// A line down from a point.
pub fn vertical(x: f64, from: f64, to: f64, color: &str) -> element::Line {
    let x = round(x);
    element::Line::new()
        .set("x1", x)
        .set("x2", x)
        .set("y1", round(from))
        .set("y2", round(to))
        .set("stroke", color)
}

/// Rounds to hundredths of a pixel, which is finer than can be seen and keeps the file small.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
