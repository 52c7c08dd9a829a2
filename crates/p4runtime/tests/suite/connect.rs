//! Connecting to a switch that is not there.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tributary_p4runtime::{Session, SessionError, Target};

fn target(address: &str) -> Target {
    Target { name: "leaf-1".to_owned(), address: address.to_owned(), device_id: 0 }
}

#[tokio::test]
async fn an_absent_switch_is_named_with_its_address() {
    // Bound and closed again: no program listens there.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    // The error has no reason until the first refusal, which may take its time on a busy machine.
    for patience in [0.2, 2.0, 20.0, 200.0].map(Duration::from_secs_f64) {
        let error = Session::connect(target(&address), 1, Instant::now() + patience).await.unwrap_err();
        let SessionError::Unreachable { switch, address: given, reason, refused } = error else {
            panic!("{error}")
        };
        assert_eq!((switch.as_str(), &given), ("leaf-1", &address));
        assert_eq!(refused, reason.to_lowercase().contains("refused"), "{reason}");
        if refused {
            return;
        }
    }
    panic!("nothing is said of the refusal");
}

#[tokio::test]
async fn a_single_attempt_does_not_wait_for_the_deadline() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    // If it did retry, the test would not end.
    let deadline = Instant::now() + Duration::from_secs(3600);
    let error = Session::connect_once(target(&address), 1, deadline).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_port_that_never_answers_ends_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let deadline = Instant::now() + Duration::from_millis(200);
    let error = Session::connect(target(&address), 1, deadline).await.unwrap_err();
    assert!(matches!(error, SessionError::Unreachable { refused: false, .. }), "{error}");
}

#[tokio::test]
async fn a_senseless_address_is_refused_at_once() {
    let error = Session::connect(target("not an address"), 1, Instant::now()).await.unwrap_err();
    assert!(matches!(error, SessionError::BadAddress { .. }), "{error}");
    assert_eq!(target("not an address").check(), Err(error));
    assert_eq!(target("leaf-1.example:9559").check(), Ok(()));
}
