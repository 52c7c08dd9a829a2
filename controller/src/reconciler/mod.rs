//! The reconciler of a job: a task that decides the job's next step after each event, and carries it
//! out.

mod change_error;
mod generation_change;
mod runs;
mod survivors;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tributary_planner::JobRequest;

use crate::jobs::{JobKey, Step, Terms};
use crate::manager::{CreateFailure, Manager};
use crate::quotas::Asking;
use generation_change::GenerationChange;
pub(crate) use runs::{JoinFailure, join};

/// Time within which several events count as one.
/// A failure often causes several events in short succession.
const DEBOUNCE: Duration = Duration::from_millis(30);
/// The pause after a failed change. An event ends it early.
const FAILURE_PAUSE: Duration = Duration::from_millis(200);

/// Runs the reconciler of a job until the job is over or the controller has ended.
async fn run(manager: Weak<Manager>, key: JobKey) {
    let Some(mut look) = manager.upgrade().and_then(|manager| manager.look_of(key)) else { return };
    loop {
        let Some(manager) = manager.upgrade() else { return };
        look.mark_unchanged();
        let step = manager.state().next_step(key, Instant::now());
        match step {
            Step::Over => return,
            Step::Rest(until) => {
                manager.note_setback(key, String::new());
                drop(manager);
                if !rest(&mut look, until).await {
                    return;
                }
            }
            Step::Invite(host) => manager.invite(key, &host),
            // The result is ignored, because `end` logs its own failures.
            Step::End => drop(manager.end(key).await),
            Step::Fail(reason) => manager.fail(key, &reason),
            Step::Change(desired) => {
                if let Err(error) = GenerationChange::carry_out(&manager, key, look.clone(), &desired).await {
                    if manager.note_setback(key, error.to_string()) {
                        tracing::warn!(key, reason = desired.reason, setback = %error, "the job does not change over yet");
                    }
                    if error.is_final() {
                        manager.fail(key, &error.to_string());
                    }
                    drop(manager);
                    // A timeout also leads to the next attempt.
                    let _ = timeout(FAILURE_PAUSE, look.changed()).await;
                }
            }
        }
    }
}

/// Waits until there is a reason to decide again. Returns false if no further reason can occur.
async fn rest(look: &mut watch::Receiver<()>, until: Option<Instant>) -> bool {
    let time = async {
        match until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        changed = look.changed() => {
            sleep(DEBOUNCE).await;
            look.mark_unchanged();
            changed.is_ok()
        }
        () = time => true,
    }
}

/// Creates a job, and starts its reconciler.
pub(crate) async fn create_job(
    manager: &Arc<Manager>,
    asking: &Asking,
    name: &str,
    request: &JobRequest,
    terms: Terms,
) -> Result<JobKey, CreateFailure> {
    let key = manager.create(asking, name, request, terms).await?;
    start(manager, key);
    Ok(key)
}

/// Starts the reconciler of a job.
pub(crate) fn start(manager: &Arc<Manager>, key: JobKey) {
    tokio::spawn(run(Arc::downgrade(manager), key));
}
