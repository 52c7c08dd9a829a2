//! Finds the cause among several errors. If one worker fails, the job ends for all, and all report
//! errors.

use anyhow::{Error, Result};
use tonic::Code;
use tributary_client::ClientError;

/// Returns the results of all workers, or the error that caused the other errors.
///
/// If one worker fails, the job ends for all workers.
pub(crate) fn first_cause<T>(ends: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for end in ends {
        match end {
            Ok(one) => all.push(one),
            Err(error) => errors.push(error),
        }
    }
    errors.sort_by_key(is_consequence);
    errors.into_iter().next().map_or(Ok(all), Err)
}

/// Returns true if the error only reports that the job has ended, so that another process caused it.
pub(crate) fn is_consequence(error: &Error) -> bool {
    match error.downcast_ref() {
        Some(ClientError::JobEnded(_) | ClientError::JobFailed(_)) => true,
        Some(ClientError::Refused { code, .. }) => *code == Code::Aborted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_that_failed_first_is_named_whoever_else_was_told_of_it() {
        let ended = || ClientError::JobEnded("job \"demo\" has ended".to_owned());
        let refused = |code, message: &str| ClientError::Refused { code, message: message.to_owned() };
        let aborted = || refused(Code::Aborted, "worker 1 has ended: the job has ended");
        let end = |error: ClientError, host: &str| Err::<(), _>(Error::new(error).context(host.to_owned()));
        let wrong = refused(Code::FailedPrecondition, "the sum is wrong");
        let ends = [end(ended(), "w0"), end(aborted(), "w1"), end(wrong, "w2"), Ok(()), end(ended(), "w4")];
        assert_eq!(format!("{:#}", first_cause(ends.into_iter()).unwrap_err()), "w2: the sum is wrong");
        assert_eq!(first_cause([Ok(1), Ok(2)].into_iter()).unwrap(), [1, 2]);
        assert!(is_consequence(&first_cause([end(aborted(), "w0"), Ok(())].into_iter()).unwrap_err()));
    }
}
