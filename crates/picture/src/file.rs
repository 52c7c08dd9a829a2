//! Picture files and their formats.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use svg::Document;
use thiserror::Error;
use tributary_files::Readers;

use crate::{PngError, page, png};

/// An error of drawing or writing a picture.
#[derive(Debug, Error)]
pub enum PictureError {
    /// The picture's folder does not exist.
    #[error("cannot write the picture to {file}: there is no folder {folder}", file = .file.display(), folder = .folder.display())]
    NoFolder {
        /// The picture's file.
        file: PathBuf,
        /// The missing folder.
        folder: PathBuf,
    },
    /// This machine cannot draw a PNG.
    #[error("cannot write the picture to {file}: {error}", file = .file.display())]
    Png {
        /// The picture's file.
        file: PathBuf,
        /// The error.
        error: PngError,
    },
    /// The file cannot be written.
    #[error("cannot write the picture to {file}: {error}", file = .file.display())]
    Write {
        /// The picture's file.
        file: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// The file of a picture. Its extension determines the format.
#[derive(Debug, Clone)]
pub struct PictureFile {
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
    /// Checks that the picture can be written. A program calls it before a long computation.
    ///
    /// # Errors
    /// [`PictureError::NoFolder`] if the folder does not exist; [`PictureError::Png`] if this machine cannot draw a
    /// PNG.
    pub fn check(&self) -> Result<(), PictureError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(PictureError::NoFolder { file: self.path.clone(), folder: folder.to_owned() });
        }
        if self.format == Format::Png {
            self.png(&page(1.0, 1.0, 1).to_string())?;
        }
        Ok(())
    }

    /// Writes the picture.
    ///
    /// # Errors
    /// [`PictureError::Write`] if the file cannot be written; [`PictureError::Png`] if this machine cannot draw a PNG.
    pub fn write(&self, picture: &Document) -> Result<(), PictureError> {
        let svg = format!("{picture}\n");
        let contents = match self.format {
            Format::Svg => svg.into_bytes(),
            Format::Png => self.png(&svg)?,
        };
        tributary_files::write(&self.path, Readers::Everyone, contents)
            .map_err(|error| PictureError::Write { file: self.path.clone(), error })
    }

    fn png(&self, svg: &str) -> Result<Vec<u8>, PictureError> {
        png(svg).map_err(|error| PictureError::Png { file: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{INK, text};

    fn written(name: &str) -> Result<Vec<u8>, PictureError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let picture = page(40.0, 20.0, 12).add(text(2.0, 15.0, "a < b", INK));
        path.to_str().unwrap().parse::<PictureFile>().unwrap().write(&picture)?;
        Ok(fs::read(path).unwrap())
    }

    #[test]
    fn the_ending_says_what_is_written() {
        let svg = String::from_utf8(written("a.SVG").unwrap()).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
        match written("a.png") {
            Ok(png) => assert!(png.starts_with(b"\x89PNG")),
            // PNG needs fonts, which a machine without a desktop may not have.
            Err(error) => assert!(error.to_string().contains("fonts-dejavu-core"), "{error}"),
        }
    }

    #[test]
    fn other_endings_are_refused() {
        for name in ["picture", "picture.jpg", "svg", ".png"] {
            assert!(name.parse::<PictureFile>().unwrap_err().contains(".svg"), "{name}");
        }
    }
}
