//! Conversion of SVG to PNG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};
use thiserror::Error;

/// The number of PNG pixels for each unit of the picture. With two, the PNG is sharp on dense screens.
const SCALE: f32 = 2.0;
/// The maximum width of a PNG in pixels. Viewers reject much larger pictures.
const WIDEST: f32 = 8192.0;
/// The fallback font for the text of all pictures.
const FAMILY: &str = "DejaVu Sans";

/// An error of drawing a PNG.
#[derive(Debug, Error)]
pub enum PngError {
    /// This machine has no fonts, so the picture would have no text.
    #[error(
        "this machine has no fonts to draw text with: install some with `apt-get install fonts-dejavu-core`"
    )]
    NoFonts,
    /// The SVG is invalid.
    #[error("cannot draw the picture: {0}")]
    Svg(resvg::usvg::Error),
    /// The picture is too large to draw, or its size is 0.
    #[error("a picture of {0} by {1} pixels cannot be drawn")]
    Size(u32, u32),
    /// The picture cannot be written as PNG.
    #[error("cannot encode the picture: {0}")]
    Png(String),
}

/// Converts an SVG to PNG, with the fonts of this machine.
///
/// # Errors
/// [`PngError`] if the machine has no fonts, or if the SVG is invalid or too large.
pub fn png(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut options = Options::default();
    options.fontdb_mut().load_system_fonts();
    let any = options.fontdb.faces().next().map(|face| face.families.first().map(|(name, _)| name.clone()));
    let any = any.flatten().ok_or(PngError::NoFonts)?;
    // The generic font name refers to a setting of desktops, which a server may lack.
    let known = options.fontdb.faces().any(|face| face.families.iter().any(|(name, _)| name == FAMILY));
    options.fontdb_mut().set_sans_serif_family(if known { FAMILY.to_owned() } else { any });
    let tree = Tree::from_str(svg, &options).map_err(PngError::Svg)?;
    let scale = SCALE.min(WIDEST / tree.size().width());
    let size = tree.size().to_int_size().scale_by(scale).unwrap_or(tree.size().to_int_size());
    let too_large = PngError::Size(size.width(), size.height());
    let mut pixmap = Pixmap::new(size.width(), size.height()).ok_or(too_large)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| PngError::Png(error.to_string()))
}
