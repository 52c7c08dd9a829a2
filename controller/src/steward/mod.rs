//! The steward of a job: a task that decides anew whenever something has happened to the job, and carries the
//! decision out.

mod change;
mod setback;
mod survivors;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::jobs::{JobKey, Step};
use crate::manager::Manager;
use change::Change;

/// A failure shows in several places, one after the other; within this time they count as one reason to act.
const DEBOUNCE: Duration = Duration::from_millis(30);
/// The pause after a change that failed, unless something happens before.
const SETBACK_PAUSE: Duration = Duration::from_millis(200);

/// Looks after a job until it is over, or the controller is gone.
pub(crate) async fn look_after(manager: Weak<Manager>, key: JobKey) {
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
            // It logs what it cannot do.
            Step::End => drop(manager.end(key).await),
            Step::Fail(reason) => manager.fail(key, &reason),
            Step::Change(target) => {
                if let Err(setback) = Change::carry_out(&manager, key, look.clone(), &target).await {
                    if manager.note_setback(key, setback.to_string()) {
                        tracing::warn!(key, reason = target.reason, %setback, "the job does not change over yet");
                    }
                    if setback.is_final() {
                        manager.fail(key, &setback.to_string());
                    }
                    drop(manager);
                    // A timeout will do as well.
                    let _ = timeout(SETBACK_PAUSE, look.changed()).await;
                }
            }
        }
    }
}

/// Waits until there is a reason to look again; `false` if there will be none.
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

/// Starts looking after a job.
pub(crate) fn employ(manager: &Arc<Manager>, key: JobKey) {
    tokio::spawn(look_after(Arc::downgrade(manager), key));
}
