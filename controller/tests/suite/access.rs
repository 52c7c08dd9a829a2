//! Tests of the access rights of callers that show certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Client, Member, config, create, end, job, list, refusal, start};
use tonic::Code;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_certs::{Authority, Subject, Validity};
use tributary_controller::{Controller, ControllerTls, RunningController, StartError};
use tributary_testkit::PLAIN;
use tributary_topology::Topology;
use tributary_transport::{ClientTls, Remote, ServerTls, TlsFiles};

struct Ca {
    authority: Authority,
    folder: tempfile::TempDir,
}

impl Ca {
    fn new() -> Self {
        let authority = Authority::generate(Validity::days(1).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.crt"), authority.certificate()).unwrap();
        Self { authority, folder }
    }

    fn files(&self, subject: &Subject) -> TlsFiles {
        let issued = self.authority.issue(subject, Validity::days(1).unwrap()).unwrap();
        let write = |name: &str, text: &str| -> PathBuf {
            let path = Path::join(self.folder.path(), name);
            fs::write(&path, text).unwrap();
            path
        };
        let (certificate, key) = (write("one.crt", &issued.certificate), write("one.key", &issued.key));
        TlsFiles { certificate, key, ca: self.folder.path().join("ca.crt") }
    }

    async fn controller(&self, operator: &str) -> Result<RunningController, StartError> {
        let files = self.files(&Subject::Controller(vec!["127.0.0.1".parse().unwrap()]));
        let server = ServerTls::load(files).unwrap();
        let tls = Some(ControllerTls { server, operators: BTreeSet::from([operator.to_owned()]) });
        let topology = Topology::parse(PLAIN, "plain").unwrap();
        Controller::start(tributary_controller::ControllerConfig { tls, ..config(topology) }).await
    }

    async fn client(&self, controller: &RunningController, name: &str) -> Client {
        let tls = ClientTls::load(self.files(&Subject::Client(name.parse().unwrap()))).unwrap();
        let remote = Remote::controller(&controller.api_addr().to_string(), Some(tls)).unwrap();
        ControllerClient::new(remote.connect().await.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_acts_for_itself_and_operators_create_jobs() {
    let ca = Ca::new();
    let controller = ca.controller("alice").await.unwrap();
    let mut alice = ca.client(&controller, "alice").await;
    let mut w0 = ca.client(&controller, "w0").await;
    let mut ps = ca.client(&controller, "ps").await;
    let denied = |(code, message): (Code, String), words: &[&str]| {
        assert_eq!(code, Code::PermissionDenied, "{message}");
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    denied(refusal(create(&mut w0, job("digits")).await), &["\"w0\"", "\"alice\", \"ps\" only"]);
    let one_worker = v1::CreateJobRequest { workers: vec!["w0".into()], ..job("digits") };
    let (token, _) = create(&mut alice, one_worker).await.unwrap();

    denied(refusal(Member::join(&mut ps, "digits", &token, "w0").await), &["\"ps\"", "host \"w0\""]);
    denied(refusal(Member::join(&mut alice, "digits", &token, "w0").await), &["\"alice\"", "host \"w0\""]);
    let mut member = Member::join(&mut w0, "digits", &token, "w0").await.unwrap();
    let _server = Member::join(&mut ps, "digits", &token, "ps").await.unwrap();
    member.started().await;

    let (job, host) = ("digits".to_owned(), "w0".to_owned());
    let leave =
        v1::LeaveRequest { job, host, token: token.clone(), reason: String::new(), role: 0, at_end: false };
    denied(refusal(ps.leave(leave.clone()).await), &["host \"w0\""]);
    let v1::LeaveRequest { job, host, token, .. } = leave;
    let report =
        v1::ReportFaultRequest { job, host, token: token.clone(), description: String::new(), given: None };
    denied(refusal(ps.report_fault(report).await), &["host \"w0\""]);
    let running = &list(&mut ps).await[0];
    assert_eq!((running.state(), running.creator.as_str()), (v1::JobState::Running, "alice"));
    end(&mut w0, "digits", &token).await.unwrap();
    member.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_creates_the_jobs_that_it_serves_and_a_host_that_trains_none() {
    let ca = Ca::new();
    let controller = ca.controller("alice").await.unwrap();
    let (w0, mut ps) = (ca.client(&controller, "w0").await, ca.client(&controller, "ps").await);
    let served_by = |server: &str| v1::CreateJobRequest {
        workers: vec!["w1".into()],
        server: server.into(),
        ..job("group")
    };
    // All creators share the slots. A host that trains may therefore not take any, regardless of the job's server.
    for (client, server, may) in [
        (&ps, "w0", "for \"alice\" only"),
        (&w0, "w0", "for \"alice\" only"),
        (&w0, "ps", "for \"alice\", \"ps\" only"),
        (&w0, "", "for \"alice\", \"ps\" only"),
    ] {
        let (code, message) = refusal(create(&mut client.clone(), served_by(server)).await);
        assert!(code == Code::PermissionDenied && message.contains(may), "{message}");
    }
    assert!(list(&mut ps).await.is_empty());

    // If the request names no server, the server is the topology's.
    for server in ["ps", ""] {
        let (token, _) = create(&mut ps, served_by(server)).await.unwrap();
        // A host that created a job and serves it may still not join as a worker.
        let (code, message) = refusal(Member::join(&mut ps, "group", &token, "w1").await);
        assert_eq!(code, Code::PermissionDenied, "{message}");
        end(&mut ps, "group", &token).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_ended_with_its_token_or_by_an_operator_without() {
    let ca = Ca::new();
    let controller = ca.controller("alice").await.unwrap();
    let mut alice = ca.client(&controller, "alice").await;
    let mut ps = ca.client(&controller, "ps").await;
    let (first, _) = create(&mut ps, job("group")).await.unwrap();
    // The server that created the job needs the token, like any other caller.
    let wrong = "wrong token";
    for (client, token, told) in
        [(&ps, &[][..], "no token was given"), (&ps, &[0; 32], wrong), (&alice, &[0; 32], wrong)]
    {
        let (code, message) = refusal(end(&mut client.clone(), "group", token).await);
        assert!(code == Code::PermissionDenied && message.contains(told), "{message}");
    }
    // An operator can end a job without the token, so a server that has lost the token does not keep its slots.
    end(&mut alice, "group", &[]).await.unwrap();
    assert_eq!(list(&mut ps).await[0].state(), v1::JobState::Ended);
    let (code, _) = refusal(end(&mut alice, "another", &[]).await);
    assert_eq!(code, Code::NotFound);

    // A token belongs to one job. Operators cannot use it for another job either.
    let (second, _) = create(&mut ps, job("group")).await.unwrap();
    let (code, _) = refusal(end(&mut alice, "group", &first).await);
    assert_eq!(code, Code::PermissionDenied);
    end(&mut ps, "group", &second).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_certificates_nobody_ends_a_job_without_its_token() {
    let topology = Topology::parse(PLAIN, "plain").unwrap();
    let (_controller, mut client) = start(topology, BTreeMap::new()).await;
    let (token, _) = create(&mut client, job("digits")).await.unwrap();
    let (code, _) = refusal(end(&mut client, "digits", &[]).await);
    assert_eq!(code, Code::PermissionDenied);
    end(&mut client, "digits", &token).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_cannot_have_an_operators_name() {
    let error = Ca::new().controller("ps").await.unwrap_err();
    assert!(matches!(&error, StartError::OperatorIsHost(host) if host == "ps"), "{error}");
}
