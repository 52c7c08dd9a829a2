use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroU16;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use redb::backends::InMemoryBackend;
use redb::{Database, StorageBackend};
use tempfile::TempDir;
use tokio::sync::broadcast;
use tonic::Request;
use tributary_api::v1;
use tributary_api::v1::controller_server::Controller;
use tributary_planner::Aggregation;
use tributary_wire::Rank;

use super::*;
use crate::access::Access;
use crate::jobs::{JobState, Joining};
use crate::manager::Manager;
use crate::quotas::{Asking, LOCAL};
use crate::reconciler;
use crate::service::Service;
use crate::state::ControllerState;
use crate::testing;

/// A simulated disk that a test can make hang or fill up.
#[derive(Debug, Default, Clone)]
struct Disk {
    bytes: Arc<InMemoryBackend>,
    state: Arc<(Mutex<DiskState>, Condvar)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum DiskState {
    #[default]
    Works,
    Hangs,
    Full,
}

impl Disk {
    fn set(&self, state: DiskState) {
        *self.state.0.lock().unwrap() = state;
        self.state.1.notify_all();
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let state = self.state.1.wait_while(self.state.0.lock().unwrap(), |state| *state == DiskState::Hangs);
        match *state.unwrap() {
            DiskState::Full => Err(io::ErrorKind::StorageFull.into()),
            _ => self.bytes.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bytes.write(offset, data)
    }
}

fn journal(disk: &Disk) -> Journal {
    journal_with(disk, health::PATIENCE)
}

/// Creates a journal on a disk that counts as hanging when a write takes longer than `patience`.
fn journal_with(disk: &Disk, patience: Duration) -> Journal {
    let open = |disk: &Disk| Database::builder().create_with_backend(disk.clone());
    store::prepare(&open(disk).unwrap()).unwrap();
    let disk = disk.clone();
    let store = Store::without_file("a test's", move || open(&disk)).unwrap();
    Journal::of(store, patience).unwrap()
}

fn created(state: &mut ControllerState, name: &str) -> JobKey {
    state.create(name, &testing::request(4, Aggregation::Tree), testing::TERMS).unwrap()
}

fn names(journal: &Journal) -> Vec<String> {
    let kept = journal.load(&testing::topology()).unwrap();
    kept.into_iter().map(|kept| kept.name).collect()
}

#[tokio::test]
async fn a_disk_that_hangs_holds_up_only_those_who_wait_for_it() {
    let (disk, topology, mut state) =
        (Disk::default(), testing::topology(), testing::controller_state(64, 4));
    let journal = journal(&disk);
    disk.set(DiskState::Hangs);
    let (first, second) = (created(&mut state, "first"), created(&mut state, "second"));
    let keep = |state: &ControllerState, key| {
        Box::pin(journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome())
    };
    let mut written = keep(&state, first);
    drop(keep(&state, second));
    tokio::select! {
        biased;
        written = &mut written => panic!("{written:?}, and the disk hangs"),
        () = std::future::ready(()) => {}
    }
    // Records are written in the order in which they were submitted. The last record says that the job is over.
    state.jobs.get_mut(second).unwrap().end();
    let forgotten = keep(&state, second);
    disk.set(DiskState::Works);
    written.await.unwrap();
    forgotten.await.unwrap();
    assert_eq!(names(&journal), ["first"]);
}

#[tokio::test]
async fn a_full_disk_is_told_to_whoever_waits_until_there_is_room_and_what_was_written_stays() {
    let (disk, topology, mut state) =
        (Disk::default(), testing::topology(), testing::controller_state(64, 4));
    let journal = journal(&disk);
    let (first, second) = (created(&mut state, "first"), created(&mut state, "second"));
    let keep = |key| journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome();
    keep(first).await.unwrap();
    disk.set(DiskState::Full);
    let error = keep(second).await.unwrap_err();
    assert!(matches!(error, JournalError::Write { .. }), "{error}");
    assert!(error.to_string().contains("a test's: cannot write"), "{error}");
    // The disk has room again. The journal also writes the record for which no caller waited.
    disk.set(DiskState::Works);
    keep(first).await.unwrap();
    assert_eq!(names(&journal), ["first", "second"]);
}

#[test]
fn what_was_handed_in_is_on_disk_when_the_journal_is_closed() {
    let (folder, topology, mut state) =
        (TempDir::new().unwrap(), testing::topology(), testing::controller_state(64, 4));
    let journal = Journal::open(folder.path()).unwrap();
    for name in ["first", "second"] {
        let key = created(&mut state, name);
        drop(journal.keep(&topology, key, state.jobs.get(key).unwrap()));
    }
    drop(journal);
    assert_eq!(names(&Journal::open(folder.path()).unwrap()), ["first", "second"]);
}

#[tokio::test]
async fn a_journal_that_is_removed_is_written_anew_with_all_jobs() {
    let (folder, topology, mut state) =
        (TempDir::new().unwrap(), testing::topology(), testing::controller_state(64, 4));
    let inner = folder.path().join("state");
    let journal = Journal::open(&inner).unwrap();
    assert!(journal.is_new());
    let keys = ["first", "second", "third"].map(|name| created(&mut state, name));
    let keep = |key| journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome();
    keep(keys[0]).await.unwrap();
    fs::remove_file(inner.join("jobs.redb")).unwrap();
    keep(keys[1]).await.unwrap();
    fs::remove_dir_all(&inner).unwrap();
    keep(keys[2]).await.unwrap();
    // The file is also restored if no job changes.
    fs::remove_file(inner.join("jobs.redb")).unwrap();
    while !inner.join("jobs.redb").exists() {
        tokio::task::yield_now().await;
    }
    assert!(journal.problem().is_none());
    drop(journal);
    let again = Journal::open(&inner).unwrap();
    assert!(!again.is_new());
    assert_eq!(names(&again), ["first", "second", "third"]);
}

#[tokio::test]
async fn a_file_in_the_journals_place_is_left_alone_and_named_until_it_is_gone() {
    let (folder, topology, mut state) =
        (TempDir::new().unwrap(), testing::topology(), testing::controller_state(64, 4));
    let journal = Journal::open(folder.path()).unwrap();
    let (first, second) = (created(&mut state, "first"), created(&mut state, "second"));
    let keep = |key| journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome();
    keep(first).await.unwrap();
    let (file, other) = (folder.path().join("jobs.redb"), folder.path().join("other"));
    fs::write(&other, "a backup").unwrap();
    fs::rename(&other, &file).unwrap();
    let error = keep(second).await.unwrap_err();
    assert!(matches!(error, JournalError::Replaced { .. }), "{error}");
    assert!(error.to_string().contains("jobs.redb: another file has taken"), "{error}");
    assert!(journal.problem().unwrap().to_string().contains("another file has taken"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a backup");
    fs::remove_file(&file).unwrap();
    keep(first).await.unwrap();
    assert!(journal.problem().is_none());
    drop(journal);
    assert_eq!(names(&Journal::open(folder.path()).unwrap()), ["first", "second"]);
}

/// Flips a bit in each part of a journal's file, both after a clean stop of its controller and after a
/// crash.
#[tokio::test]
async fn a_damaged_journal_is_refused_or_complete_and_never_an_older_one() {
    const PART: usize = 512;
    let (folder, topology, mut state) =
        (TempDir::new().unwrap(), testing::topology(), testing::controller_state(64, 4));
    let journal = Journal::open(folder.path()).unwrap();
    for name in ["first", "second", "third"] {
        let key = created(&mut state, name);
        journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome().await.unwrap();
    }
    let file = folder.path().join("jobs.redb");
    let crashed = fs::read(&file).unwrap();
    drop(journal);
    let (mut refused, mut complete) = (0, 0);
    for bytes in [crashed, fs::read(&file).unwrap()] {
        let written = bytes.chunks(PART).enumerate().filter(|(_, part)| part.iter().any(|byte| *byte != 0));
        for at in written.map(|(part, _)| part * PART + PART / 2) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            fs::write(&file, damaged).unwrap();
            match Journal::open(folder.path()) {
                Ok(journal) => {
                    complete += 1;
                    assert_eq!(names(&journal), ["first", "second", "third"], "byte {at} is damaged");
                }
                Err(JournalError::Damaged { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    println!("{refused} refused, {complete} complete");
    assert!(refused > 0 && complete > 0);
}

#[test]
fn only_its_owner_may_read_the_tokens_in_a_journal() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("state");
    let file = Store::in_folder(&folder).unwrap().file().to_owned();
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    // An earlier version left the file with this mode.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    Store::in_folder(&folder).unwrap();
    assert_eq!(mode(&file), 0o600);
}

#[tokio::test]
async fn a_file_in_place_of_the_journals_folder_is_named_until_it_is_gone() {
    let (folder, topology, mut state) =
        (TempDir::new().unwrap(), testing::topology(), testing::controller_state(64, 4));
    let inner = folder.path().join("state");
    let journal = Journal::open(&inner).unwrap();
    let (first, second) = (created(&mut state, "first"), created(&mut state, "second"));
    let keep = |key| journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome();
    keep(first).await.unwrap();
    fs::remove_dir_all(&inner).unwrap();
    fs::write(&inner, "in its place").unwrap();
    let error = keep(second).await.unwrap_err();
    assert!(matches!(error, JournalError::NoWay { .. }), "{error}");
    assert!(error.to_string().contains("state/jobs.redb: the journal cannot be found any more"), "{error}");
    assert_eq!(journal.problem().unwrap().to_string(), error.to_string());
    assert_eq!(fs::read_to_string(&inner).unwrap(), "in its place");
    fs::remove_file(&inner).unwrap();
    keep(first).await.unwrap();
    assert!(journal.problem().is_none());
    drop(journal);
    assert_eq!(names(&Journal::open(&inner).unwrap()), ["first", "second"]);
}

/// Overwrites the file of a journal of two jobs, and checks that the controller reports that and does
/// not touch the file.
async fn is_left_alone_and_named(overwrite: impl Fn(&Path)) {
    let (folder, topology, mut state) =
        (TempDir::new().unwrap(), testing::topology(), testing::controller_state(64, 4));
    let journal = Journal::open(folder.path()).unwrap();
    let (first, second) = (created(&mut state, "first"), created(&mut state, "second"));
    let keep = |key| journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome();
    let (file, aside) = (folder.path().join("jobs.redb"), folder.path().join("aside"));
    keep(first).await.unwrap();
    fs::copy(&file, folder.path().join("older")).unwrap();
    keep(second).await.unwrap();
    overwrite(&file);
    let overwritten = fs::read(&file).unwrap();
    let error = keep(first).await.unwrap_err();
    assert!(matches!(error, JournalError::Overwritten { .. }), "{error}");
    assert!(error.to_string().contains("has written into the journal, or cut it off"), "{error}");
    assert_eq!(journal.problem().unwrap().to_string(), error.to_string());
    fs::rename(&file, &aside).unwrap();
    keep(first).await.unwrap();
    assert!(journal.problem().is_none());
    drop(journal);
    assert_eq!(names(&Journal::open(folder.path()).unwrap()), ["first", "second"]);
    assert!(fs::read(&aside).unwrap() == overwritten, "it was written to");
}

#[tokio::test]
async fn what_is_written_over_a_journal_is_left_alone_and_named_until_it_is_moved_away() {
    is_left_alone_and_named(|file| fs::write(file, vec![0x5A; 1 << 20]).unwrap()).await;
    is_left_alone_and_named(|file| drop(File::create(file).unwrap())).await;
    // An earlier copy of the journal is overwritten too, although it is a valid journal.
    let older = |file: &Path| assert!(fs::copy(file.with_file_name("older"), file).unwrap() > 0);
    is_left_alone_and_named(older).await;
    let half = |file: &Path| File::options().write(true).open(file).unwrap().set_len(4096).unwrap();
    is_left_alone_and_named(half).await;
}

#[tokio::test]
async fn a_disk_that_hangs_is_a_problem_until_it_answers() {
    let (disk, topology, mut state) =
        (Disk::default(), testing::topology(), testing::controller_state(64, 4));
    let journal = journal_with(&disk, Duration::ZERO);
    let key = created(&mut state, "job");
    disk.set(DiskState::Hangs);
    let written = journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome();
    let problem = loop {
        if let Some(problem) = journal.problem() {
            break problem;
        }
    };
    assert!(matches!(problem, JournalError::Hangs { .. }), "{problem}");
    assert!(problem.to_string().contains("a test's: the disk has not answered"), "{problem}");
    disk.set(DiskState::Works);
    written.await.unwrap();
    while journal.problem().is_some() {}
}

#[tokio::test]
async fn who_creates_or_ends_a_job_is_answered_though_the_disk_hangs_and_the_job_is_not_left() {
    let (disk, topology, state) = (Disk::default(), testing::topology(), testing::controller_state(64, 4));
    let manager = Manager::start(topology, journal(&disk), state, BTreeMap::new(), broadcast::Sender::new(1));
    let asking = Asking { creator: LOCAL.to_owned(), waits: false };
    let request = testing::request(4, Aggregation::Tree);
    let create = |name| reconciler::create_job(&manager, &asking, name, &request, testing::TERMS);
    let kept = create("kept").await.unwrap();
    disk.set(DiskState::Hangs);
    // Time can be paused, because no other work is in progress. It then jumps to the end of each wait.
    tokio::time::pause();
    let refused = create("refused").await.unwrap_err().to_string();
    assert!(refused.contains("the disk has not answered for 5s"), "{refused}");
    let ended = manager.end(kept).await.unwrap_err().to_string();
    assert!(ended.contains("has ended, but that is not on disk") && ended.contains("for 5s"), "{ended}");
    tokio::time::resume();
    disk.set(DiskState::Works);
    let last = create("last").await.unwrap();
    assert_eq!(names(&manager.journal), ["last"]);
    let state = manager.state();
    let alive: Vec<_> = state.jobs.iter().filter(|(_, job)| job.is_alive()).map(|(key, _)| key).collect();
    assert_eq!(alive, [last]);
}

#[tokio::test]
async fn a_job_whose_creator_has_hung_up_is_ended_since_nobody_has_its_token() {
    let (disk, topology, state) = (Disk::default(), testing::topology(), testing::controller_state(64, 4));
    let manager = Manager::start(topology, journal(&disk), state, BTreeMap::new(), broadcast::Sender::new(1));
    let service = Service { manager: manager.clone(), access: Access::Open };
    disk.set(DiskState::Hangs);
    let request = v1::CreateJobRequest { name: "job".to_owned(), window: 4, ..Default::default() };
    let mut creating = service.create_job(Request::new(request));
    let states = || manager.state().jobs.iter().map(|(_, job)| job.is_alive()).collect::<Vec<_>>();
    while states() != [true] {
        tokio::select! {
            biased;
            created = &mut creating => panic!("{created:?}, and the disk hangs"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(creating);
    disk.set(DiskState::Works);
    while states() != [false] {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn no_generation_is_used_up_while_none_can_be_written_down() {
    let (disk, topology, state) = (Disk::default(), testing::topology(), testing::controller_state(256, 4));
    let manager = Manager::start(topology, journal(&disk), state, BTreeMap::new(), broadcast::Sender::new(1));
    let asking = Asking { creator: LOCAL.to_owned(), waits: false };
    let request = testing::request(4, Aggregation::Tree);
    let key = reconciler::create_job(&manager, &asking, "job", &request, testing::TERMS).await.unwrap();
    let token = of(&manager, key, |job| job.record.token.to_bytes());
    let role = v1::MemberRole::Unspecified;
    let join = |host| {
        manager
            .join(
                "job",
                &token,
                &Joining {
                    host,
                    role,
                    elastic: host != "ps",
                    resume: 0,
                    new_run: false,
                    processes: NonZeroU16::MIN,
                },
            )
            .unwrap()
    };
    let _members = ["w0", "w1", "w2", "w3", "ps"].map(join);
    while of(&manager, key, |job| *job.state() != JobState::Running) {
        tokio::task::yield_now().await;
    }

    disk.set(DiskState::Full);
    let leave = v1::LeaveRequest {
        job: "job".into(),
        token: token.to_vec(),
        host: "w3".into(),
        ..v1::LeaveRequest::default()
    };
    manager.leave(&leave, |_| true).unwrap();
    // The controller retries the change.
    for _ in 0..5 {
        manager.note_setback(key, String::new());
        of(&manager, key, |job| job.look.send_replace(()));
        while of(&manager, key, |job| job.setback.is_empty()) {
            tokio::task::yield_now().await;
        }
    }
    let setback = of(&manager, key, |job| job.setback.clone());
    assert!(setback.contains("a test's: cannot write"), "{setback}");
    // Only the attempt that found the disk full may have issued a number.
    let issued = of(&manager, key, |job| job.record.issued);
    assert!(issued <= 2, "{issued}");
    disk.set(DiskState::Works);
    while of(&manager, key, |job| job.record.current == 1) {
        tokio::task::yield_now().await;
    }
    // Members may already have received the earlier numbers.
    assert_eq!(of(&manager, key, |job| job.record.current), issued + 1);
}

/// Applies `look` to a job.
fn of<T>(manager: &Manager, key: JobKey, look: impl FnOnce(&Job) -> T) -> T {
    look(manager.state().jobs.get(key).unwrap())
}

/// Stores the job, and returns the number of the generation that the next controller would take up.
async fn kept_generation(journal: &Journal, state: &ControllerState, key: JobKey) -> u32 {
    let topology = testing::topology();
    journal.keep(&topology, key, state.jobs.get(key).unwrap()).outcome().await.unwrap();
    let mut kept = journal.load(&topology).unwrap();
    kept.pop().unwrap().record.unwrap().current
}

#[tokio::test]
async fn a_generation_is_the_present_one_on_disk_before_it_is_in_the_book() {
    let (journal, mut state) = (journal(&Disk::default()), testing::controller_state(64, 4));
    let (key, topology) = (created(&mut state, "job"), testing::topology());
    let desired = testing::first_generation(&state, key);
    assert_eq!(state.install(key, &desired).unwrap(), 1);
    assert!(state.jobs.get_mut(key).unwrap().advance(1, ""));
    assert_eq!(state.install(key, &desired).unwrap(), 2);
    assert_eq!(kept_generation(&journal, &state, key).await, 1);

    let job = state.jobs.get_mut(key).unwrap();
    assert!(job.announce(2, "a test", crate::jobs::Beginning::OF_JOB));
    assert_eq!(job.record.current, 1);
    assert_eq!(kept_generation(&journal, &state, key).await, 2);
    // The change is cancelled.
    state.jobs.get_mut(key).unwrap().call_off(&topology, 2);
    assert_eq!(kept_generation(&journal, &state, key).await, 1);
}

#[test]
fn numbers_of_processes_are_stored_and_an_earlier_record_has_one_process_for_each_worker() {
    let (topology, mut state) = (testing::topology(), testing::controller_state(64, 4));
    let key = created(&mut state, "job");
    let job = state.jobs.get_mut(key).unwrap();
    job.record.terms.processes_per_host = NonZeroU16::new(4);
    job.record.processes = [(1, 4), (2, 4)]
        .map(|(rank, processes)| (Rank::new(rank), NonZeroU16::new(processes).unwrap()))
        .into();
    let stored = StoredJob::new(&topology, job).to_json().unwrap();
    let load = |stored: &[u8]| StoredJob::from_json(stored).unwrap().into_record(&topology).unwrap();
    let loaded = load(&stored);
    assert_eq!(loaded.terms, job.record.terms);
    assert_eq!(loaded.processes, job.record.processes);

    let mut earlier: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    for field in ["processes", "processes_per_host"] {
        assert!(earlier.as_object_mut().unwrap().remove(field).is_some());
    }
    let loaded = load(earlier.to_string().as_bytes());
    assert_eq!(loaded.process_counts().counts().collect::<Vec<_>>(), [1; 4]);
}
