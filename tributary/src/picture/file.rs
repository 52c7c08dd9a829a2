//! Where a picture goes, and as what.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use svg::Document;

use super::{page, png};

/// A file for a picture, whose ending says what is written to it.
#[derive(Debug, Clone)]
pub(crate) struct PictureFile {
    path: PathBuf,
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
}

impl FromStr for PictureFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        let format = match ending.to_str() {
            Some("svg") => Format::Svg,
            Some("png") => Format::Png,
            _ => return Err("a picture is an .svg or a .png: end the file's name with one of these".into()),
        };
        Ok(Self { path, format })
    }
}

impl PictureFile {
    /// Whether it could be written: to be asked before long work.
    ///
    /// # Errors
    /// There is no such folder, or no PNG can be drawn on this machine.
    pub(crate) fn check(&self) -> Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        ensure!(folder.is_dir(), "{}: there is no folder {}", self.cannot(), folder.display());
        if self.format == Format::Png {
            png(&page(1.0, 1.0, 1).to_string()).with_context(|| self.cannot())?;
        }
        Ok(())
    }

    /// Writes the picture.
    ///
    /// # Errors
    /// The file cannot be written, or a PNG cannot be drawn on this machine.
    pub(crate) fn write(&self, picture: &Document) -> Result<()> {
        let cannot = || self.cannot();
        let svg = format!("{picture}\n");
        let contents = match self.format {
            Format::Svg => svg.into_bytes(),
            Format::Png => png(&svg).with_context(cannot)?,
        };
        fs::write(&self.path, contents).with_context(cannot)
    }

    fn cannot(&self) -> String {
        format!("cannot write the picture to {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{INK, text};

    fn written(name: &str) -> Result<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let picture = page(40.0, 20.0, 12).add(text(2.0, 15.0, "a < b", INK));
        path.to_str().unwrap().parse::<PictureFile>().unwrap().write(&picture)?;
        Ok(fs::read(path)?)
    }

    #[test]
    fn the_ending_says_what_is_written() {
        let svg = String::from_utf8(written("a.SVG").unwrap()).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
        match written("a.png") {
            Ok(png) => assert!(png.starts_with(b"\x89PNG")),
            // It needs fonts, which a machine without a desktop may not have.
            Err(error) => assert!(format!("{error:#}").contains("fonts-dejavu-core"), "{error:#}"),
        }
    }

    #[test]
    fn other_endings_are_refused() {
        for name in ["picture", "picture.jpg", "svg", ".png"] {
            assert!(name.parse::<PictureFile>().unwrap_err().contains(".svg"), "{name}");
        }
    }
}
