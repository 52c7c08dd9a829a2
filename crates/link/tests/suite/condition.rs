//! The system's description of an interface. The test needs root, `ip` and `ethtool`. Without them,
//! it prints that and passes.

use std::process::Command;
use std::time::{Duration, Instant};

use tributary_link::{InterfaceCondition, LinkError, Merging};
use tributary_testkit::netns;

/// A step that takes longer has a defect.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs ethtool; returns false if it is not installed.
fn ethtool(arguments: &[&str]) -> bool {
    match Command::new("ethtool").args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            eprintln!("skipped: there is no ethtool ({error})");
            false
        }
    }
}

#[test]
fn an_interface_is_as_it_was_set_up() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    netns::ip("link set left mtu 1000");
    if !ethtool(&["-K", "left", "tx", "off", "tso", "off", "gso", "off", "gro", "off"]) {
        return;
    }
    let is = |mtu, offloads: &[&'static str]| InterfaceCondition {
        mtu,
        is_up: true,
        has_address: false,
        driver: "veth".into(),
        offloads: offloads.to_vec(),
    };
    assert_eq!(InterfaceCondition::of("left").unwrap(), is(1000, &[]));
    assert!(ethtool(&["-K", "left", "gso", "on"]));
    assert_eq!(InterfaceCondition::of("left").unwrap(), is(1000, &["gso"]));
    assert!(ethtool(&["-K", "left", "tx", "on", "tso", "on"]));
    assert_eq!(InterfaceCondition::of("left").unwrap(), is(1000, &["tso", "gso", "tx"]));
    netns::ip("address add 192.0.2.1/24 dev left");
    netns::ip("link set right down");
    // The kernel reports the lost carrier with a delay.
    let deadline = Instant::now() + PATIENCE;
    let mut down = InterfaceCondition::of("left").unwrap();
    while down.is_up && Instant::now() < deadline {
        down = InterfaceCondition::of("left").unwrap();
    }
    assert!(down.has_address && !down.is_up, "without a carrier: {down:?}");
    for name in ["nowhere", "longer than any interface may be called", ""] {
        let refused = InterfaceCondition::of(name).unwrap_err();
        assert!(matches!(&refused, LinkError::NoInterface { name: of } if of == name), "{refused}");
    }
}

#[test]
fn what_merges_frames_is_switched_off() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    assert_eq!(Merging::switch_off("left").unwrap(), Merging::default());
    if !ethtool(&["-K", "left", "gro", "on"]) {
        return;
    }
    let has_gro = || InterfaceCondition::of("left").unwrap().offloads.contains(&"gro");
    assert!(has_gro());
    let off = Merging { switched_off: vec!["gro"], still_on: Vec::new() };
    assert_eq!(Merging::switch_off("left").unwrap(), off);
    assert!(!has_gro(), "it is off");
    assert_eq!(Merging::switch_off("left").unwrap(), Merging::default());
    assert!(matches!(Merging::switch_off("nowhere"), Err(LinkError::NoInterface { .. })));
}
