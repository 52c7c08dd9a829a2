//! Tests of workers that the server identifies by their certificates.

use std::fs;
use std::num::{NonZeroU16, NonZeroU64};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::Code;
use tributary_certs::{Authority, Subject, Validity};
use tributary_ps::client::{Client, ClientError, ClientOptions, Contributor, Fabric, FabricError};
use tributary_ps::server::{JobSettings, JobSpec, ParameterServer, PolicyKind};
use tributary_transport::{ClientTls, Remote, ServerTls, TlsFiles};

/// A host's fabric that has only a name, because the tests make no reductions.
#[derive(Debug)]
struct Host(&'static str);

#[tonic::async_trait]
impl Fabric for Host {
    fn host(&self) -> &str {
        self.0
    }

    async fn join(&self, _: &str, _: &[u8], _: usize) -> Result<Box<dyn Contributor>, FabricError> {
        Err("nothing is to be reduced here".into())
    }
}

fn files(folder: &TempDir, authority: &Authority, name: &str, subject: &Subject) -> TlsFiles {
    let issued = authority.issue(subject, Validity::days(1).unwrap()).unwrap();
    let path = |ending: &str| folder.path().join(format!("{name}.{ending}"));
    fs::write(path("crt"), issued.certificate).unwrap();
    fs::write(path("key"), issued.key).unwrap();
    fs::write(folder.path().join("ca.crt"), authority.certificate()).unwrap();
    TlsFiles { certificate: path("crt"), key: path("key"), ca: folder.path().join("ca.crt") }
}

/// A server with one job of one worker, over TLS. Dropping this value stops it.
struct Trusting {
    folder: TempDir,
    authority: Authority,
    address: String,
    _stop: oneshot::Sender<()>,
}

impl Trusting {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::generate(Validity::days(2).unwrap()).unwrap();
        let names = ["ps", "127.0.0.1"].map(|name| name.parse().unwrap());
        let own = files(&folder, &authority, "ps", &Subject::ParameterServer(names.to_vec()));
        let (one, epoch) = (NonZeroU16::new(1).unwrap(), NonZeroU64::new(10).unwrap());
        let spec = JobSpec::new("job", one, PolicyKind::Asp, epoch, 1.0);
        let server = ParameterServer::start(vec![JobSettings { spec, token: None }], None, None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.serve(listener, Some(ServerTls::load(own).unwrap()), async move {
            let _ = stopped.await;
        }));
        Self { folder, authority, address, _stop: stop }
    }

    /// Returns the server's address for a client with a host's certificate.
    fn remote(&self, host: &str) -> Remote {
        let files = files(&self.folder, &self.authority, host, &Subject::Client(host.parse().unwrap()));
        Remote::parameter_server(&self.address, Some(ClientTls::load(files).unwrap())).unwrap()
    }
}

#[tokio::test]
async fn a_worker_takes_part_in_reductions_for_its_own_host_only() {
    let server = Trusting::start().await;
    let remote = server.remote("w0");
    let join = async |fabric: Option<Arc<dyn Fabric>>| {
        let options = ClientOptions { fabric, ..ClientOptions::new(vec![remote.clone()], "job", 0) };
        Client::join(options, &[1.0]).await.map(|(_, step)| step.parameters)
    };
    let error = join(Some(Arc::new(Host("w1")))).await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status, .. } if status.code() == Code::PermissionDenied));
    assert!(error.to_string().contains("for \"w0\", not for host \"w1\""), "{error}");
    assert_eq!(join(Some(Arc::new(Host("w0")))).await.unwrap(), [1.0]);
    // Without a fabric, the worker does not name its host.
    assert_eq!(join(None).await.unwrap(), [1.0]);
}

#[tokio::test]
async fn nobody_takes_the_place_of_a_worker_with_another_certificate() {
    let server = Trusting::start().await;
    let join = async |host: &str| {
        Client::join(ClientOptions::new(vec![server.remote(host)], "job", 0), &[1.0]).await
    };
    let (mut own, _) = join("w0").await.unwrap();
    let error = join("w1").await.map(drop).unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status, .. } if status.code() == Code::PermissionDenied));
    assert!(error.to_string().contains("a certificate for \"w0\""), "{error}");
    assert_eq!(own.push(&[1.0]).await.unwrap().iteration, 1);
    // The worker opens its next session, as after a crash that the server has not noticed.
    let (again, step) = join("w0").await.unwrap();
    assert_eq!(step.iteration, 1);
    drop(again);
}
