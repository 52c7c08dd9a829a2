//! A process without file descriptors. The test has its own program, because the limit applies to all
//! threads of a process.

#![allow(clippy::unwrap_used)]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tributary_transport::{ConnectError, Remote};

#[tokio::test]
async fn a_lack_of_descriptors_is_not_blamed_on_the_server() {
    let remote = Remote::controller("127.0.0.1:9", None).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    let error = remote.connect().await.unwrap_err();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(matches!(error, ConnectError::NoDescriptor { .. }), "{error}");
    let own = format!("since process {} of this host has no file descriptor left (", std::process::id());
    assert!(error.to_string().contains(&own), "{error}");
}
