use thiserror::Error;

/// An error of reading the data, or of a training step.
#[derive(Debug, Error)]
pub enum TrainerError {
    /// The data file is not gzip, or is damaged.
    #[error("the data cannot be decompressed: {0}; get the file again and compare its SHA-256")]
    Gzip(std::io::Error),
    /// The decompressed data file is longer than any file of digits.
    #[error("the data are longer than {limit} bytes when decompressed: this is not the digits' file")]
    TooLong {
        /// The maximum number of bytes that are read.
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
        /// The number of fields of an image and its label.
        expected: usize,
        /// The number of fields in the line.
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
    /// There are too few images: at least one is needed for training, and one is held out.
    #[error("the data hold {0} images: at least 2 needed, one to train on and one to hold out")]
    TooFewImages(usize),
    /// The training has no workers.
    #[error("a training without workers: give at least 1")]
    NoWorkers,
    /// The rank is not in the job.
    #[error("no worker has rank {rank}: the {workers} workers' ranks start at 0")]
    NoSuchRank {
        /// The requested rank.
        rank: u16,
        /// The number of workers.
        workers: u16,
    },
    /// A worker would have no data.
    #[error("{samples} samples for {workers} workers: each needs at least one")]
    EmptyShard {
        /// The number of samples.
        samples: usize,
        /// The number of workers.
        workers: u16,
    },
    /// The group of members or shards is invalid.
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
        /// The number of parameters of the model.
        expected: usize,
        /// The number of values in the gradient.
        got: usize,
    },
    /// The summed gradient has no samples, so its mean is undefined.
    #[error("the summed gradient of 0 samples is no step to take: a worker contributed nothing")]
    NoSamples,
}
