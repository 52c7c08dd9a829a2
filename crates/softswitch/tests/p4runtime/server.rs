//! Tests the start and the stop of a switch.

use std::net::SocketAddr;

use tributary_p4runtime::session::Mastership;
use tributary_softswitch::{SoftSwitch, SwitchConfig};

use crate::fixture::{Rig, soon};

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let rig = Rig::start().await;
    let address = rig.switch.p4runtime_addr();
    let error = SoftSwitch::start(SwitchConfig::new("s2", address, Vec::new())).await.unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(error.to_string().contains("taken by another process"), "{error}");
}

#[tokio::test]
async fn an_address_that_is_not_ours_is_named() {
    // This is an address of TEST-NET-1, which no host has.
    let address = SocketAddr::from(([192, 0, 2, 1], 9559));
    let error = SoftSwitch::start(SwitchConfig::new("s2", address, Vec::new())).await.unwrap_err();
    assert!(error.to_string().contains("192.0.2.1:9559"), "{error}");
}

#[tokio::test]
async fn stopping_ends_the_sessions_and_frees_the_address() {
    let rig = Rig::start().await;
    let session = rig.connect(1).await.unwrap();
    let address = rig.switch.p4runtime_addr();
    soon(rig.switch.stop()).await.unwrap();
    let mut mastership = session.mastership();
    soon(mastership.wait_for(|state| matches!(state, Mastership::Ended { .. }))).await.unwrap();
    assert!(soon(session.primary()).await.is_err());
    SoftSwitch::start(SwitchConfig::new("s1", address, Vec::new())).await.unwrap();
}
