//! Who a worker is, by its certificate.

#![allow(clippy::unwrap_used)]

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

/// A host by name, where nothing is to be reduced.
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

#[tokio::test]
async fn a_worker_takes_part_in_reductions_for_its_own_host_only() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(Validity::days(2).unwrap()).unwrap();
    let names = ["ps", "127.0.0.1"].map(|name| name.parse().unwrap());
    let own = files(&folder, &authority, "ps", &Subject::ParameterServer(names.to_vec()));
    let (one, epoch) = (NonZeroU16::new(1).unwrap(), NonZeroU64::new(10).unwrap());
    let spec = JobSpec::new("job", one, PolicyKind::Asp, epoch, 1.0);
    let server = ParameterServer::start(vec![JobSettings { spec, token: None }], None, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.serve(listener, Some(ServerTls::load(own).unwrap()), async move {
        let _ = stopped.await;
    }));
    let w0 = files(&folder, &authority, "w0", &Subject::Client("w0".parse().unwrap()));
    let remote = Remote::parameter_server(&address, Some(ClientTls::load(w0).unwrap())).unwrap();
    let join = async |fabric: Option<Arc<dyn Fabric>>| {
        let options = ClientOptions { fabric, ..ClientOptions::new(vec![remote.clone()], "job", 0) };
        Client::join(options, &[1.0]).await.map(|(_, step)| step.parameters)
    };
    let error = join(Some(Arc::new(Host("w1")))).await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status, .. } if status.code() == Code::PermissionDenied));
    assert!(error.to_string().contains("for \"w0\", not for host \"w1\""), "{error}");
    assert_eq!(join(Some(Arc::new(Host("w0")))).await.unwrap(), [1.0]);
    // Without a fabric no host is claimed.
    assert_eq!(join(None).await.unwrap(), [1.0]);
}
