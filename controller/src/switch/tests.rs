//! Tests of the handle and the task of a switch, with an embedded switch.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::timeout;
use tributary_link::FramePort;
use tributary_link::in_process::{LinkConfig, link};
use tributary_softswitch::{SoftSwitch, SwitchConfig};
use tributary_topology::NodeKey;
use tributary_wire::MacAddr;

use super::*;
use crate::tables::mac_forward::{self, Forward, ToController};
use crate::testing::{base, pipeline, topology};

/// The only port of the switch that has a link.
const PORT: u16 = 3;
const PATIENCE: Duration = Duration::from_secs(10);

struct Rig {
    key: NodeKey,
    base: SwitchState,
    switch: Switch,
    packet_ins: broadcast::Receiver<PacketIn>,
}

/// Creates a handle on a switch at `address`, which may be started later.
fn rig(address: SocketAddr) -> Rig {
    let topology = topology();
    let key = topology.find("leaf0").unwrap();
    let base = base(&topology).remove(&key).unwrap();
    let target = Target { name: "leaf0".into(), address: address.to_string(), device_id: 0 };
    let common = Common {
        pipeline: Arc::new(pipeline()),
        elections: Elections::now(),
        patience: PATIENCE,
        packet_ins: broadcast::Sender::new(8),
        journal_is_new: false,
    };
    let switch = Switch::start(key, target, base.clone(), &common);
    Rig { key, base, switch, packet_ins: common.packet_ins.subscribe() }
}

async fn soft_switch(listen: SocketAddr, ports: Vec<(u16, Box<dyn FramePort>)>) -> SoftSwitch {
    SoftSwitch::start(SwitchConfig::new("leaf0", listen, ports)).await.unwrap()
}

async fn up(switch: &Switch) {
    timeout(PATIENCE, switch.health().wait_for(SwitchHealth::is_up)).await.unwrap().unwrap();
}

/// Returns `base` with one more MAC address, which it forwards to `port`.
fn with_mac(base: &SwitchState, port: u16) -> SwitchState {
    let mut state = base.clone();
    state.put(mac_forward::Key { dst: MacAddr::new(2, 0, 0, 0, 0, 0x77) }, Forward { port });
    state
}

#[tokio::test]
async fn only_the_newest_state_reaches_a_switch_that_was_away_and_all_who_asked_hear_of_it() {
    let any = "127.0.0.1:0".parse().unwrap();
    let first = soft_switch(any, Vec::new()).await;
    let address = first.p4runtime_addr();
    let Rig { switch, base, .. } = rig(address);
    up(&switch).await;
    assert_eq!(switch.held().borrow().as_ref().unwrap().version, 1);
    first.stop().await.unwrap();
    switch.health().wait_for(|health| !health.is_up()).await.unwrap();

    let orders: Vec<_> = (1..=100).map(|port| switch.converge(with_mac(&base, port), Vec::new())).collect();
    let mut held = switch.held();
    held.mark_unchanged();
    let _again = soft_switch(address, Vec::new()).await;
    for order in orders {
        // Some callers may have stopped waiting before the switch was back. The others receive the outcome of the
        // newest state.
        match order.outcome().await {
            Ok(desired) => assert_eq!(desired.version, 101),
            Err(error) => assert!(matches!(error, SwitchError::Unreachable { .. }), "{error}"),
        }
    }
    timeout(PATIENCE, held.changed()).await.unwrap().unwrap();
    let desired = held.borrow_and_update().clone().unwrap();
    assert_eq!((desired.version, &desired.state), (101, &with_mac(&base, 100)));
    assert!(!held.has_changed().unwrap(), "the states before it were not tried");
}

#[tokio::test]
async fn a_refused_state_is_told_and_a_later_one_is_not_held_up() {
    let running = soft_switch("127.0.0.1:0".parse().unwrap(), Vec::new()).await;
    let Rig { switch, base, .. } = rig(running.p4runtime_addr());
    up(&switch).await;
    let mut wrong = base.clone();
    // The switch has no port with that number.
    wrong.put_group(7, [5, 6000]);
    let refused = switch.converge(wrong, Vec::new()).outcome().await.unwrap_err();
    assert!(matches!(refused, SwitchError::Refused { .. }), "{refused}");
    assert!(switch.health().borrow().is_up(), "it is there all the same");
    let held = switch.converge(with_mac(&base, 9), vec![(4, 1)]).outcome().await.unwrap();
    assert_eq!((held.version, &held.withdraws[..]), (3, &[(4, 1)][..]));
}

#[tokio::test]
async fn what_is_asked_of_a_switch_that_is_away_is_answered_at_once() {
    let gone = soft_switch("127.0.0.1:0".parse().unwrap(), Vec::new()).await;
    let address = gone.p4runtime_addr();
    gone.stop().await.unwrap();
    let Rig { switch, base, .. } = rig(address);
    switch.health().wait_for(|health| matches!(health, SwitchHealth::Unreachable { .. })).await.unwrap();
    let order = switch.converge(base, Vec::new()).outcome().await.unwrap_err();
    let clear = switch.clear_counters(0).await.unwrap_err();
    for error in [order, clear] {
        let text = error.to_string();
        assert!(text.starts_with("switch leaf0: unreachable for "), "{text}");
        assert!(text.contains(&format!("s: no answer from {address}")), "{text}");
    }
    let counters = switch.read_counters().latest().await;
    assert!(counters.last.is_none() && counters.stale.unwrap().starts_with("no answer from"));
    // These are more orders than the queue holds. None of them is stored for later.
    for _ in 0..2 * QUEUE {
        drop(switch.clear_counters(0));
    }
    let error = switch.clear_counters(0).await.unwrap_err();
    assert!(matches!(error, SwitchError::Unreachable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_leave_by_a_port_and_come_in_with_their_port() {
    let config = LinkConfig { loss: 0.0, seed: 0, queue_frames: 8 };
    let (near, mut far, _) = link(&config).unwrap();
    let ports: Vec<(u16, Box<dyn FramePort>)> = vec![(PORT, Box::new(near))];
    let running = soft_switch("127.0.0.1:0".parse().unwrap(), ports).await;
    let Rig { switch, mut packet_ins, key, base } = rig(running.p4runtime_addr());
    up(&switch).await;
    let frame = |last| {
        let mut frame = vec![2, 0, 0, 0, 0, last, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
        frame.resize(64, 0x5a);
        frame
    };
    // The frame is sent repeatedly, because the session may be too new for the first ones.
    let sent = timeout(PATIENCE, async {
        loop {
            switch.packet_out(PORT, frame(7));
            match far.receive().unwrap() {
                Some(frame) => return frame.to_vec(),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    assert_eq!(sent.await.unwrap(), frame(7));

    let mut state = base;
    state.put(mac_forward::Key { dst: MacAddr::new(2, 0, 0, 0, 0, 9) }, ToController {});
    switch.converge(state, Vec::new()).outcome().await.unwrap();
    far.send(&frame(9)).unwrap();
    far.flush().unwrap();
    let packet = timeout(PATIENCE, packet_ins.recv()).await.unwrap().unwrap();
    assert_eq!(packet, PacketIn { switch: key, port: PORT, payload: frame(9) });
}
