//! The client side of a membership over loopback TCP, with a simulated controller that follows the
//! test's orders.

use crate::directory::{Directory, TOKEN};
use crate::job::{Structure, configs};
use crate::line::{Condition, Line};
use tokio::net::TcpListener;
use tonic::Code;
use tributary_api::v1::{self, job_event::Event};
use tributary_api::{Downlink, JobConfig};
use tributary_host_agent::{JobEvent, JobMember, JoinError, MemberRole, Membership};
use tributary_transport::Remote;
use tributary_wire::Seq;

fn member() -> JobMember {
    JobMember::worker("star", TOKEN, "w0")
}

fn config() -> JobConfig {
    configs(1, Downlink::Unicast).0.remove(0)
}

/// Starts a controller of a job with one worker. Returns it with the worker's membership, which has
/// received its start.
async fn started() -> (Directory, Membership) {
    let directory = Directory::start(vec![config()]).await;
    let mut membership = Membership::join(&directory.remote(), member()).await.unwrap();
    assert_eq!(membership.next_event().await.unwrap(), JobEvent::Start(Box::new(config())));
    (directory, membership)
}

#[tokio::test]
async fn a_member_is_told_the_course_of_its_job() {
    let (directory, mut membership) = started().await;
    let next = Structure::first(1, Downlink::Unicast).next().worker(0);
    let course = [
        (Event::Prepare(v1::Prepare { generation: 2 }), JobEvent::Prepare { generation: 2 }),
        (
            Event::Proceed(v1::Proceed { generation: 2, until: 7 }),
            JobEvent::Proceed { generation: 2, until: 7 },
        ),
        (
            Event::Provide(v1::Provide { generation: 2, seqs: vec![3, 1] }),
            JobEvent::Provide { generation: 2, seqs: vec![Seq(3), Seq(1)] },
        ),
        (Event::Change((&next).into()), JobEvent::Change(Box::new(next))),
        (
            Event::Failed(v1::JobFailed { reason: "host w2 has left".into(), wrong_sum: false }),
            JobEvent::Failed { reason: "host w2 has left".into(), wrong_sum: false },
        ),
    ];
    for (event, expected) in course {
        directory.tell("w0", event).await;
        assert_eq!(membership.next_event().await.unwrap(), expected);
    }
    assert!(matches!(membership.next_event().await, Err(JoinError::Over)));
    assert_eq!(directory.heard(), ["w0 joins"], "nobody joins again when the job is over");
}

#[tokio::test]
async fn a_part_ends_without_failure_when_another_host_serves_and_with_a_reason_when_it_is_removed() {
    for (role, event, expected) in [
        (MemberRole::Server, Event::Relieved(v1::JobRelieved {}), JobEvent::Relieved),
        (
            MemberRole::Worker,
            Event::Removed(v1::JobRemoved { reason: "host w0 is slow".into() }),
            JobEvent::Removed { reason: "host w0 is slow".into() },
        ),
    ] {
        let directory = Directory::start(vec![config(); 2]).await;
        let remote = directory.remote();
        let mut membership = Membership::join(&remote, JobMember { role, ..member() }).await.unwrap();
        let name = if role == MemberRole::Server { "w0 as the server" } else { "w0" };
        directory.tell(name, event).await;
        assert_eq!(membership.next_event().await.unwrap(), expected);
        assert!(matches!(membership.next_event().await, Err(JoinError::Over)));
    }
}

#[tokio::test]
async fn events_that_make_no_sense_are_errors() {
    let (directory, mut membership) = started().await;
    let bad = v1::JobConfig { window: 3, ..v1::JobConfig::from(&config()) };
    directory.tell("w0", Event::Change(bad)).await;
    let error = membership.next_event().await.unwrap_err();
    assert!(matches!(error, JoinError::BadConfig(_)) && error.to_string().contains("window"), "{error}");
}

#[tokio::test]
async fn a_member_speaks_with_its_jobs_token_and_in_its_role() {
    let directory = Directory::start(vec![config(); 2]).await;
    directory.carry_on();
    for role in [MemberRole::Worker, MemberRole::Server] {
        let member = JobMember { role, ..member() };
        let membership = Membership::join(&directory.remote(), member).await.unwrap();
        membership.leave("shutting down").await.unwrap();
    }
    let expected = [
        "w0 as the server joins",
        "w0 as the server leaves: shutting down",
        "w0 joins",
        "w0 leaves: shutting down",
    ];
    assert_eq!(directory.heard(), expected);
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_again_with_what_the_member_holds() {
    let mut directory = Directory::start(vec![config()]).await;
    let line = Line::to(directory.address()).await;
    let mut membership = Membership::join(&line.remote(), member()).await.unwrap();
    // Nothing can continue before the start.
    directory.tell("w0", Event::Prepare(v1::Prepare { generation: 9 })).await;
    assert!(matches!(membership.next_event().await.unwrap(), JobEvent::Start(_)));
    assert_eq!(membership.next_event().await.unwrap(), JobEvent::Prepare { generation: 9 });
    membership.holds(3);
    let mut unreachable_since = membership.unreachable_since();
    assert!(unreachable_since.borrow_and_update().is_none());

    line.set(Condition::Cut);
    unreachable_since.wait_for(Option::is_some).await.unwrap();
    line.set(Condition::Whole);
    directory.wait_for("w0 comes back in generation 3").await;
    unreachable_since.wait_for(Option::is_none).await.unwrap();
    directory.tell("w0", Event::Prepare(v1::Prepare { generation: 4 })).await;
    assert_eq!(membership.next_event().await.unwrap(), JobEvent::Prepare { generation: 4 });

    // The controller closes the stream properly, as in a shutdown.
    directory.hang_up("w0");
    directory.wait_for("w0 comes back in generation 3").await;

    // The controller has forgotten the job, so the member cannot join again.
    directory.forget();
    directory.hang_up("w0");
    let error = membership.next_event().await.unwrap_err();
    let JoinError::Refused { code, message, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*code, message.as_str()), (Code::FailedPrecondition, "the job is over: it was ended"));
    assert!(matches!(membership.next_event().await, Err(JoinError::Over)));
}

#[tokio::test]
async fn a_refusal_carries_the_controllers_reason() {
    let directory = Directory::start(vec![config()]).await;
    let member = JobMember { token: b"guessed".to_vec(), ..member() };
    let error = Membership::join(&directory.remote(), member).await.unwrap_err();
    let JoinError::Refused { code, message, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*code, message.as_str()), (Code::PermissionDenied, "wrong token for this job"));
}

#[tokio::test]
async fn a_controller_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let controller = Remote::controller(&address, None).unwrap();
    let error = Membership::join(&controller, member()).await.unwrap_err();
    assert!(matches!(error, JoinError::Connect(_)) && error.to_string().contains(&address), "{error}");
}
