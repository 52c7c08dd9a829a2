use thiserror::Error;

/// Why data could not be read, or a training step could not be taken.
#[derive(Debug, Error)]
pub enum TrainerError {
    /// The data file is not gzip, or is damaged.
    #[error("the data cannot be decompressed: {0}; get the file again and compare its SHA-256")]
    Gzip(std::io::Error),
    /// The data file decompresses to more than any file of digits holds.
    #[error("the data are longer than {limit} bytes when decompressed: this is not the digits' file")]
    TooLong {
        /// The most bytes that are read.
        limit: u64,
    },
    /// The CSV text could not be read.
    #[error("the data are not CSV: {0}")]
    Csv(csv::Error),
    /// A line has more or fewer fields than an image and its label.
    #[error("line {line} of the data has {got} fields: {expected} needed, the pixels and then the label")]
    Fields {
        /// The line in the decompressed text, counted from 1.
        line: u64,
        /// Number of fields that an image and its label have.
        expected: usize,
        /// Number of fields in the line.
        got: usize,
    },
    /// A field is not an integer in its range.
    #[error("line {line}, field {field} of the data is {text:?}: an integer from 0 to {max} needed")]
    Field {
        /// The line in the decompressed text, counted from 1.
        line: u64,
        /// The field in its line, counted from 1.
        field: usize,
        /// The text of the field.
        text: String,
        /// The largest value allowed.
        max: u8,
    },
    /// There are too few images to train on some and hold out others.
    #[error("the data hold {0} images: at least 2 needed, one to train on and one to hold out")]
    TooFewImages(usize),
    /// A training needs at least one worker.
    #[error("a training without workers: give at least 1")]
    NoWorkers,
    /// A rank that is not in the job.
    #[error("no worker has rank {rank}: the {workers} workers' ranks start at 0")]
    NoSuchRank {
        /// The requested rank.
        rank: u16,
        /// Number of workers.
        workers: u16,
    },
    /// A worker would have no data.
    #[error("{samples} samples for {workers} workers: each needs at least one")]
    EmptyShard {
        /// Number of samples.
        samples: usize,
        /// Number of workers.
        workers: u16,
    },
    /// An impossible group of members.
    #[error("this is no group to train with: {problem}")]
    BadGroup {
        /// The problem with the group.
        problem: String,
    },
    /// The state from another member does not fit this training.
    #[error("what is to be taken over is no member's state: do all run the same training?")]
    BadState,
    /// A gradient has the wrong size for this model.
    #[error("a gradient of {got} values for a model of {expected} parameters")]
    WrongLength {
        /// Number of parameters that the model has.
        expected: usize,
        /// Number of values that were given.
        got: usize,
    },
    /// A step cannot be divided by zero samples.
    #[error("the summed gradient of 0 samples is no step to take: a worker contributed nothing")]
    NoSamples,
}
