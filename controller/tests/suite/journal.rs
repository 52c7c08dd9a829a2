//! Tests of a journal of jobs that another program has changed.

use std::collections::BTreeMap;
use std::fs;
use std::panic;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{config, shipped};
use tributary_controller::{Controller, ControllerConfig, StartError, SwitchAddress};

/// Returns a configuration whose switch does not exist. Jobs are planned and stored nevertheless.
fn with(state: &Path) -> ControllerConfig {
    let nowhere = SwitchAddress { address: "127.0.0.1:9".into(), device_id: 1 };
    let switches = BTreeMap::from([("leaf".to_owned(), nowhere)]);
    ControllerConfig { switches, state: Some(state.to_owned()), ..config(shipped("two-workers.toml")) }
}

/// Creates a journal in the folder.
async fn leave_a_journal(state: &Path) {
    Controller::start(with(state)).await.unwrap().shutdown().await.unwrap();
}

async fn refusal(state: &Path) -> String {
    let error = Controller::start(with(state)).await.unwrap_err();
    assert!(matches!(error, StartError::Journal(_)), "{error}");
    error.to_string()
}

/// Counts panics from now on.
/// Caught panics count, too, because they would also write a message and a backtrace to standard error.
fn count_panics() -> &'static AtomicU32 {
    static PANICS: AtomicU32 = AtomicU32::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(panic);
        }));
    });
    &PANICS
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_is_no_journal_without_jobs() {
    let state = tempfile::tempdir().unwrap();
    leave_a_journal(state.path()).await;
    let file = state.path().join("jobs.redb");
    fs::write(&file, "").unwrap();
    let error = refusal(state.path()).await;
    assert!(
        error.contains("jobs.redb") && error.contains("it is empty") && error.contains("move it away"),
        "{error}"
    );
    assert_eq!(fs::metadata(&file).unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_not_as_it_was_written_is_refused() {
    let state = tempfile::tempdir().unwrap();
    leave_a_journal(state.path()).await;
    let file = state.path().join("jobs.redb");
    let whole = fs::read(&file).unwrap();
    let panics = count_panics();
    for page in (0..whole.len().min(1 << 16)).step_by(4096) {
        let mut garbled = whole.clone();
        for (at, byte) in garbled[page..].iter_mut().take(4096).enumerate() {
            *byte = at as u8;
        }
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join("jobs.redb"), &garbled).unwrap();
        // A change in an unused page need not be an error.
        if let Err(error) = Controller::start(with(state.path())).await.map(drop) {
            assert!(error.to_string().contains("damaged"), "page {page}: {error}");
        }
    }
    assert_eq!(panics.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_cut_off_is_damaged_and_the_disk_is_not_full() {
    let state = tempfile::tempdir().unwrap();
    leave_a_journal(state.path()).await;
    let file = state.path().join("jobs.redb");
    let whole = fs::read(&file).unwrap();
    let panics = count_panics();
    for len in [1, 128, 4095, whole.len() / 2, whole.len() - 4096] {
        fs::write(&file, &whole[..len]).unwrap();
        let error = refusal(state.path()).await;
        assert!(error.contains("damaged"), "{len} bytes: {error}");
    }
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    // A file that an earlier controller did not finish is not a journal.
    fs::remove_file(&file).unwrap();
    fs::write(state.path().join("jobs.redb.new"), &whole[..100]).unwrap();
    leave_a_journal(state.path()).await;
    assert!(file.exists());
}
