//! Tests of the errors that prevent a controller from starting, and of their messages.

use std::collections::BTreeMap;

use crate::common::{config, shipped};
use tokio::net::TcpListener;
use tributary_controller::{Controller, ControllerConfig, PipelineSource, StartError, SwitchAddress};

fn at(name: &str, address: &str) -> BTreeMap<String, SwitchAddress> {
    BTreeMap::from([(name.to_owned(), SwitchAddress { address: address.to_owned(), device_id: 1 })])
}

async fn error(config: ControllerConfig) -> String {
    Controller::start(config).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_programmable_switch_needs_an_address() {
    assert_eq!(
        error(config(shipped("two-workers.toml"))).await,
        "programmable switch \"leaf\" has no P4Runtime address: give it one, or say programmable = false"
    );
}

#[tokio::test]
async fn an_address_is_for_a_switch_of_the_topology() {
    let switches = at("spine", "127.0.0.1:1");
    assert_eq!(
        error(ControllerConfig { switches, ..config(shipped("two-workers.toml")) }).await,
        "there is an address for a switch \"spine\", but topology \"two-workers\" has none of that name"
    );
}

#[tokio::test]
async fn an_address_that_is_none_is_named() {
    let switches = at("leaf", "not an address");
    let error = error(ControllerConfig { switches, ..config(shipped("two-workers.toml")) }).await;
    assert!(
        error.starts_with("switch leaf: not an address is not an address of the form host:port"),
        "{error}"
    );
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = taken.local_addr().unwrap();
    let switches = at("leaf", "127.0.0.1:1");
    let error =
        Controller::start(ControllerConfig { switches, listen, ..config(shipped("two-workers.toml")) })
            .await
            .unwrap_err();
    assert!(matches!(&error, StartError::Listen { address, .. } if *address == listen), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot listen for agents on {listen}: ")), "{error}");
}

#[tokio::test]
async fn a_directory_without_a_program_is_named() {
    let pipeline = PipelineSource::Directory(tributary_testkit::root().join("topologies"));
    let error = error(ControllerConfig { pipeline, ..config(shipped("two-workers.toml")) }).await;
    assert!(error.contains("tributary.json: cannot read the compiled P4 program"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_is_away_has_no_tables_of_jobs_that_never_were() {
    // No server listens on this address any more.
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let switches = at("leaf", &nowhere.to_string());
    let config = ControllerConfig { switches, ..config(shipped("two-workers.toml")) };
    Controller::start(config).await.unwrap().shutdown().await.unwrap();
}
