//! Tests calls whose callers disconnect at each point where the call waits.
//!
//! The switch must then run the program that the server reports.

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use tokio::sync::{Notify, mpsc, watch};
use tonic::Request;
use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::forwarding_pipeline_config::Cookie;
use tributary_p4runtime::p4::v1::p4_runtime_server::P4Runtime;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, SetForwardingPipelineConfigRequest,
    Uint128, WriteRequest,
};

use super::device::{Device, MAILBOX, Mailbox};
use super::service::Service;
use crate::engine::{Engine, PacketIns};
use crate::switch::Switch;

const ELECTION_ID: u64 = 5;

static CONFIG: LazyLock<ForwardingPipelineConfig> = LazyLock::new(|| {
    let read = |file: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        fs::read_to_string(folder.join(file)).unwrap()
    };
    ForwardingPipelineConfig {
        p4info: Some(P4Info::parse(&read("constructs.p4info.txtpb")).unwrap().message().clone()),
        p4_device_config: read("constructs.json").into_bytes(),
        cookie: None,
    }
});

/// Polls a future up to `polls` times, once for each wake-up, then drops it.
/// Returns its output if it finished before.
async fn cut_off<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    std::future::poll_fn(|context| {
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polled >= polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A switch and its service, without a socket between them, and a primary controller.
struct Rig {
    engine: Engine,
    device: Arc<Device>,
    service: Service,
    _packets: PacketIns,
    _stop: watch::Sender<bool>,
}

impl Rig {
    async fn start() -> Self {
        let (engine, packets) = Engine::start("s1", Vec::new(), 510).unwrap();
        let (stop, stopping) = watch::channel(false);
        let device = Arc::new(Device::new(0, engine.control().clone(), None, stopping));
        let (sender, _) = mpsc::channel(MAILBOX);
        let mailbox = Mailbox { sender, end: Arc::new(Notify::new()) };
        device.roles.write().await.join("", ELECTION_ID.into(), mailbox).unwrap();
        let service = Service::new(Arc::clone(&device));
        Self { engine, device, service, _packets: packets, _stop: stop }
    }

    /// Sends the primary's request to set a program, and drops the call after `polls` polls.
    /// Returns true if the call finished before.
    async fn set(&self, action: Action, cookie: u64, polls: usize) -> bool {
        let config = (action != Action::Commit)
            .then(|| ForwardingPipelineConfig { cookie: Some(Cookie { cookie }), ..CONFIG.clone() });
        let request = SetForwardingPipelineConfigRequest {
            election_id: Some(Uint128 { high: 0, low: ELECTION_ID }),
            action: action.into(),
            config,
            ..Default::default()
        };
        match cut_off(self.service.set_forwarding_pipeline_config(Request::new(request)), polls).await {
            Some(set) => {
                set.unwrap();
                true
            }
            None => false,
        }
    }

    /// Returns the cookie of the program to which requests refer.
    async fn reported(&self) -> u64 {
        let request = Request::new(GetForwardingPipelineConfigRequest::default());
        let config = self.service.get_forwarding_pipeline_config(request).await.unwrap();
        config.into_inner().config.unwrap().cookie.unwrap().cookie
    }

    /// Checks that the switch runs the program that the server reports. All changes are complete by
    /// then.
    async fn check(&self, when: &str) {
        let programs = self.device.programs.read().await;
        let said = &programs.running.as_ref().unwrap().pipeline;
        let runs = self.engine.control().run(|switch| Arc::clone(switch.pipeline())).await.unwrap();
        assert!(Arc::ptr_eq(&runs, said), "another program runs than is reported: {when}");
    }
}

/// Drops a call after one poll, after two, and so on, until it finishes.
///
/// The action `prepare` comes before each attempt.
async fn at_every_point(action: Action, prepare: Option<Action>) {
    let rig = Rig::start().await;
    assert!(rig.set(Action::VerifyAndCommit, 0, usize::MAX).await);
    for polls in 1.. {
        let cookie = polls as u64;
        if let Some(prepare) = prepare {
            assert!(rig.set(prepare, cookie, usize::MAX).await);
        }
        let done = rig.set(action, cookie, polls).await;
        let when = format!("{action:?} was cut off at poll {polls}");
        rig.check(&when).await;
        if done {
            assert_eq!(rig.reported().await, cookie);
            assert!(polls > 1, "it never waits");
            return;
        }
    }
}

#[tokio::test]
async fn a_commit_that_is_cut_off_is_done_or_was_never_begun() {
    at_every_point(Action::VerifyAndCommit, None).await;
}

#[tokio::test]
async fn a_reconciliation_that_is_cut_off_is_done_or_was_never_begun() {
    at_every_point(Action::ReconcileAndCommit, None).await;
}

#[tokio::test]
async fn a_saved_program_is_committed_or_still_there_after_a_cut() {
    at_every_point(Action::Commit, Some(Action::VerifyAndSave)).await;
}

#[tokio::test]
async fn another_controller_becomes_primary_after_a_write_that_was_cut_off() {
    let rig = Rig::start().await;
    assert!(rig.set(Action::VerifyAndCommit, 1, usize::MAX).await);
    // The switch's thread is busy meanwhile.
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let control = rig.engine.control().clone();
    let work = move |_: &mut Switch| {
        // An error also means that the work may continue.
        let _ = wait.recv();
    };
    let busy = tokio::spawn(async move { control.run(work).await });
    let request =
        WriteRequest { election_id: Some(Uint128 { high: 0, low: ELECTION_ID }), ..WriteRequest::default() };
    assert!(cut_off(rig.service.write(Request::new(request)), 1).await.is_none());
    assert!(rig.device.roles.try_write().is_err(), "it would become primary before the write is done");
    assert!(rig.device.programs.try_write().is_err(), "the write would meet another program than its own");
    drop(go_on);
    busy.await.unwrap().unwrap();
    drop(rig.device.roles.write().await);
    drop(rig.device.programs.write().await);
}
