//! The wait of a worker's all-reduces.

use std::fmt;
use std::time::Duration;

use tributary_wire::Seq;

/// The duration and the cause of a wait of all-reduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Time since the last result.
    pub silent: Duration,
    /// Time since the last event that lets the all-reduces continue: a result or a change of generation.
    pub unmoved: Duration,
    /// The oldest slice without a result; `None` if the all-reduces have not begun.
    pub slice: Option<Seq>,
    /// Time for which the worker has been frozen for a change of generation; `None` if it is not frozen.
    pub frozen: Option<Duration>,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slice {
            Some(slice) => write!(f, "no result of slice {slice}, nor another one, for {:.1?}", self.silent)?,
            None => write!(f, "nothing has come for {:.1?}", self.silent)?,
        }
        match self.frozen {
            Some(time) => write!(f, "; the job has been changing over to another generation for {time:.1?}"),
            None => Ok(()),
        }
    }
}
