//! The UCI handwritten digits; `data/README.md` has their source.

use std::io::Read;
use std::sync::Arc;

use csv::ByteRecord;
use flate2::read::GzDecoder;

use crate::error::TrainerError;
use crate::images::{CLASSES, Images, PIXELS};

/// The largest pixel value in the file. A pixel counts the points of ink in a block of 4 × 4 points.
const INK: u8 = 16;

/// Every image whose number (from 0) is a multiple of this is held out.
/// Three has no common factor with ten, the number of classes. In long stretches of the file, the classes come in
/// order.
const HOLD_OUT_EVERY: usize = 3;

/// The maximum number of decompressed bytes that are read.
/// It is thirty times the size of the real file.
const MAX_BYTES: u64 = 8 << 20;

/// The data, split into a part for training and a part for measuring accuracy.
#[derive(Debug, Clone)]
pub struct Digits {
    /// Two thirds of the images. They are shared, because each worker of a process uses them.
    pub training: Arc<Images>,
    /// Every third image, independent of the seed.
    pub held_out: Arc<Images>,
}

impl Digits {
    /// Returns the data set that is compiled into the program: 1,198 images for training, and 599 held out.
    ///
    /// # Errors
    ///
    /// [`TrainerError`], as for [`from_gzip`](Self::from_gzip), if the program was built with a damaged file.
    pub fn embedded() -> Result<Self, TrainerError> {
        Self::from_gzip(include_bytes!("../data/digits.csv.gz"))
    }

    /// Reads a gzip file of CSV text.
    ///
    /// # Errors
    ///
    /// [`TrainerError::Gzip`] if the data cannot be decompressed; [`TrainerError::TooLong`] if they are too long; also
    /// the errors of [`from_csv`](Self::from_csv).
    pub fn from_gzip(bytes: &[u8]) -> Result<Self, TrainerError> {
        let mut text = Vec::new();
        let read = GzDecoder::new(bytes).take(MAX_BYTES + 1).read_to_end(&mut text);
        if read.map_err(TrainerError::Gzip)? as u64 > MAX_BYTES {
            return Err(TrainerError::TooLong { limit: MAX_BYTES });
        }
        Self::from_csv(&text)
    }

    /// Reads CSV text without a header: [`PIXELS`] integers from 0 to 16 and a label from 0 to 9 a line.
    ///
    /// # Errors
    ///
    /// [`TrainerError::Csv`], [`TrainerError::Fields`] or [`TrainerError::Field`] for a wrong line;
    /// [`TrainerError::TooFewImages`] for fewer than two images.
    pub fn from_csv(text: &[u8]) -> Result<Self, TrainerError> {
        // The reader is flexible, so that the check below reports a short line, and not the reader's comparison with
        // the line before.
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).quoting(false).from_reader(text);
        let (mut training, mut held_out) = (Split::default(), Split::default());
        let mut images = 0;
        for record in reader.byte_records() {
            let part = if images % HOLD_OUT_EVERY == 0 { &mut held_out } else { &mut training };
            part.push(&record.map_err(TrainerError::Csv)?)?;
            images += 1;
        }
        if training.labels.is_empty() {
            return Err(TrainerError::TooFewImages(images));
        }
        Ok(Self { training: training.into_images(), held_out: held_out.into_images() })
    }
}

/// The images of one part of the data that have been read.
#[derive(Default)]
struct Split {
    pixels: Vec<[f32; PIXELS]>,
    labels: Vec<u8>,
}

impl Split {
    fn push(&mut self, record: &ByteRecord) -> Result<(), TrainerError> {
        let line = record.position().map_or(0, csv::Position::line);
        let expected = PIXELS + 1;
        if record.len() != expected {
            return Err(TrainerError::Fields { line, expected, got: record.len() });
        }
        let mut pixels = [0.0; PIXELS];
        for (index, pixel) in pixels.iter_mut().enumerate() {
            *pixel = f32::from(field(record, line, index, INK)?) / f32::from(INK);
        }
        self.labels.push(field(record, line, PIXELS, CLASSES as u8 - 1)?);
        self.pixels.push(pixels);
        Ok(())
    }

    fn into_images(self) -> Arc<Images> {
        Arc::new(Images::new(&self.pixels, self.labels))
    }
}

/// Returns the integer in field `index` (from 0) of a record. It must be at most `max`.
fn field(record: &ByteRecord, line: u64, index: usize, max: u8) -> Result<u8, TrainerError> {
    let text = String::from_utf8_lossy(record.get(index).unwrap_or_default());
    text.parse().ok().filter(|value| *value <= max).ok_or_else(|| TrainerError::Field {
        line,
        field: index + 1,
        text: text.chars().take(32).collect(),
        max,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    /// Makes one valid line: a blank image of `label`.
    fn line(label: usize) -> String {
        format!("{}{label}\n", "0,".repeat(PIXELS))
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn error(text: &str) -> String {
        Digits::from_csv(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn the_embedded_data_are_whole() {
        let digits = Digits::embedded().unwrap();
        assert_eq!((digits.training.len(), digits.held_out.len()), (1198, 599));
        for part in [&digits.training, &digits.held_out] {
            let (min, max) = part.pixels().iter().fold((1.0f32, 0.0f32), |(a, b), &v| (a.min(v), b.max(v)));
            assert_eq!((min, max), (0.0, 1.0));
            for class in 0..CLASSES {
                let share = part.labels().filter(|&label| label == class).count() as f64 / part.len() as f64;
                assert!((0.08..0.12).contains(&share), "digit {class} makes {share} of a part");
            }
        }
    }

    #[test]
    fn pixels_are_scaled_and_labelled_in_order() {
        let inked = format!("16,8,{}7\n", "0,".repeat(PIXELS - 2));
        let digits = Digits::from_csv((inked + &line(3) + &line(4) + &line(5)).as_bytes()).unwrap();
        assert_eq!(digits.held_out.labels().collect::<Vec<_>>(), [7, 5]);
        assert_eq!(digits.training.labels().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(digits.held_out.pixels().row(0).iter().take(3).collect::<Vec<_>>(), [&1.0, &0.5, &0.0]);
    }

    #[test]
    fn errors_name_the_line() {
        let good = line(1);
        assert!(error(&format!("{good}{good}1,2\n")).contains("line 3 of the data has 2 fields"));
        assert!(error(&format!("{good}17,{good}")).contains("line 2 of the data has 66 fields"));
        assert!(
            error(&format!("{good}{}", good.replacen('0', "17", 1)))
                .contains("line 2, field 1 of the data is \"17\"")
        );
        assert!(error(&format!("{good}{}", line(10))).contains("line 2, field 65 of the data is \"10\""));
        assert!(error(&good.replacen('0', "-1", 1)).contains("\"-1\": an integer from 0 to 16 needed"));
        assert!(error(&good.replacen('0', "\"0\"", 1)).contains("line 1, field 1"));
        assert!(error("").contains("hold 0 images"));
        assert!(error(&good).contains("hold 1 images"));
    }

    #[test]
    fn damaged_and_endless_files_are_refused() {
        let mut bytes = gzip(line(0).repeat(30).as_bytes());
        assert!(Digits::from_gzip(&bytes).is_ok());
        let cut = &bytes[..bytes.len() - 9];
        assert!(matches!(Digits::from_gzip(cut), Err(TrainerError::Gzip(_))));
        let checksum = bytes.len() - 8;
        bytes[checksum] ^= 1;
        assert!(matches!(Digits::from_gzip(&bytes), Err(TrainerError::Gzip(_))));
        assert!(matches!(Digits::from_gzip(b"0,0,1"), Err(TrainerError::Gzip(_))));
        let bomb = gzip(&vec![b'\n'; MAX_BYTES as usize + 1]);
        assert!(matches!(Digits::from_gzip(&bomb), Err(TrainerError::TooLong { .. })));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let _ = Digits::from_csv(&bytes);
            let _ = Digits::from_gzip(&bytes);
            let _ = Digits::from_gzip(&gzip(&bytes));
        }

        #[test]
        fn a_damaged_line_is_an_error_or_a_good_line(at in 0usize..131, byte in any::<u8>()) {
            let mut text = line(1).repeat(3).into_bytes();
            text[line(1).len() + at.min(line(1).len() - 1)] = byte;
            if let Ok(digits) = Digits::from_csv(&text) {
                prop_assert!(digits.training.labels().all(|label| label < CLASSES));
                prop_assert!(digits.training.pixels().iter().all(|pixel| (0.0..=1.0).contains(pixel)));
            }
        }
    }
}
