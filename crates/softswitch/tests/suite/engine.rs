//! A running switch, which forwards frames of real links while a control plane changes it.

use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use tributary_link::{FramePort, InProcessPort, LinkConfig, link};
use tributary_softswitch::control::MulticastGroup;
use tributary_softswitch::engine::{Control, Engine, PacketIns};
use tributary_softswitch::{ControlError, SwitchError};

use crate::support::{Rig, pipeline};

const CPU_PORT: u16 = 510;
/// Much longer than any test here takes, so a test that waits for this time has failed.
const LONG: Duration = Duration::from_secs(120);

/// The far end of a link.
struct Host {
    port: InProcessPort,
    poll: Poll,
}

impl Host {
    fn send(&mut self, frame: &[u8]) {
        self.port.send(frame).unwrap();
        self.port.flush().unwrap();
    }

    /// Waits for the next frame.
    fn receive(&mut self) -> Vec<u8> {
        let mut events = Events::with_capacity(8);
        loop {
            if let Some(frame) = self.port.receive().unwrap() {
                return frame.to_vec();
            }
            self.poll.poll(&mut events, Some(LONG)).unwrap();
            assert!(!events.is_empty(), "no frame came");
        }
    }
}

/// Makes a link. Returns its switch end as a numbered port, and the host at its other end.
fn cable(number: u16) -> ((u16, Box<dyn FramePort>), Host) {
    let (near, mut port, _) = link(&LinkConfig { loss: 0.0, seed: 0, queue_frames: 512 }).unwrap();
    let poll = Poll::new().unwrap();
    port.register(poll.registry(), Token(0)).unwrap();
    ((number, Box::new(near)), Host { port, poll })
}

/// Starts a switch with hosts at the ports 1 to 3.
fn start() -> (Engine, PacketIns, [Host; 3]) {
    let (ports, hosts): (Vec<_>, Vec<_>) = (1..=3).map(cable).unzip();
    let (engine, packet_ins) = Engine::start("test", ports, CPU_PORT).unwrap();
    (engine, packet_ins, hosts.try_into().ok().unwrap())
}

/// Makes a frame to the address whose last byte is `to`.
fn frame(to: u8, payload: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    (frame[5], frame[12], frame[20]) = (to, 0x12, payload);
    frame
}

/// Makes the switch forward frames for an address to a port, or run another action on them.
async fn forward(control: &Control, to: u8, action: &str, arguments: &[u64]) {
    let entry = Rig::new().entry("mac_forward", &[to.into()], action, arguments);
    control.run(move |switch| switch.insert(&entry)).await.unwrap().unwrap();
}

#[tokio::test]
async fn frames_go_from_link_to_link_as_soon_as_there_is_a_program() {
    let (engine, _packet_ins, [mut one, mut two, mut three]) = start();
    let control = engine.control();
    assert_eq!(control.run(|_| ()).await, Err(ControlError::NoPipeline));
    assert_eq!(control.packet_out(frame(2, 0)).await, Err(ControlError::NoPipeline));
    control.commit(pipeline()).await.unwrap();
    forward(control, 2, "forward", &[2]).await;
    forward(control, 3, "forward", &[3]).await;
    for payload in 0..200 {
        one.send(&frame(2, payload));
        two.send(&frame(3, payload));
    }
    for payload in 0..200 {
        assert_eq!(two.receive(), frame(2, payload));
        assert_eq!(three.receive(), frame(3, payload));
    }
    engine.stop().unwrap();
}

#[tokio::test]
async fn the_controller_gets_and_sends_frames() {
    let (engine, mut packet_ins, [mut one, mut two, _three]) = start();
    let control = engine.control();
    control.commit(pipeline()).await.unwrap();
    forward(control, 9, "to_controller", &[]).await;
    one.send(&frame(9, 1));
    let mut expected = (1_u16 << 7).to_be_bytes().to_vec();
    expected.extend(frame(9, 1));
    assert_eq!(packet_ins.recv().await, Some(expected));
    let mut out = (2_u16 << 7).to_be_bytes().to_vec();
    out.extend(frame(4, 7));
    control.packet_out(out).await.unwrap();
    assert_eq!(two.receive(), frame(4, 7));
}

#[tokio::test]
async fn a_port_that_floods_the_controller_leaves_it_for_the_others() {
    const FLOOD: usize = 5000;
    let (engine, mut packet_ins, [mut one, mut two, _three]) = start();
    let control = engine.control();
    control.commit(pipeline()).await.unwrap();
    forward(control, 9, "to_controller", &[]).await;
    forward(control, 1, "forward", &[1]).await;
    let started = Instant::now();
    for burst in 0..FLOOD / 100 {
        (0..100).for_each(|_| one.send(&frame(9, 0)));
        // An answer from the other side shows that the link has room again.
        two.send(&frame(1, burst as u8));
        assert_eq!(one.receive(), frame(1, burst as u8));
    }
    two.send(&frame(9, 1));
    let (mut of_flood, expected) = (0, frame(9, 1));
    while let Some(packet_in) = packet_ins.recv().await {
        if packet_in.ends_with(&expected) {
            break;
        }
        of_flood += 1;
    }
    let most = 100 + started.elapsed().as_millis() / 10;
    assert!((100..=most).contains(&of_flood), "{of_flood}, and may be {most}");
}

#[tokio::test]
async fn a_flood_reaches_every_other_port_and_none_that_is_not_there() {
    let (engine, _packet_ins, [mut one, mut two, mut three]) = start();
    let control = engine.control();
    control.commit(pipeline()).await.unwrap();
    let replicas = [1, 2, 3, 44].map(|port| tributary_softswitch::control::Replica { port, instance: 1 });
    let group = MulticastGroup { id: 8, replicas: replicas.to_vec(), ..Default::default() };
    control.run(move |switch| switch.insert_group(&group)).await.unwrap().unwrap();
    forward(control, 0xff, "broadcast", &[8]).await;
    forward(control, 1, "forward", &[1]).await;
    one.send(&frame(0xff, 5));
    assert_eq!(two.receive(), frame(0xff, 5));
    assert_eq!(three.receive(), frame(0xff, 5));
    two.send(&frame(1, 6));
    assert_eq!(one.receive(), frame(1, 6), "its own flood did not come back first");
}

#[tokio::test]
async fn a_new_program_begins_with_empty_tables() {
    let (engine, _packet_ins, [mut one, mut two, _three]) = start();
    let control = engine.control();
    control.commit(pipeline()).await.unwrap();
    forward(control, 2, "forward", &[2]).await;
    one.send(&frame(2, 1));
    assert_eq!(two.receive(), frame(2, 1));
    control.commit(pipeline()).await.unwrap();
    let id = pipeline().info().table("mac_forward").unwrap().name.id;
    assert_eq!(control.run(move |switch| switch.entries(id)).await.unwrap().unwrap(), []);
    forward(control, 2, "forward", &[2]).await;
    one.send(&frame(2, 2));
    assert_eq!(two.receive(), frame(2, 2));
}

#[tokio::test]
async fn a_stopped_switch_says_so() {
    let (engine, mut packet_ins, _hosts) = start();
    let control = engine.control().clone();
    control.commit(pipeline()).await.unwrap();
    engine.stop().unwrap();
    assert_eq!(control.run(|_| ()).await, Err(ControlError::Stopped));
    assert_eq!(control.commit(pipeline()).await, Err(ControlError::Stopped));
    assert_eq!(packet_ins.recv().await, None);
}

#[test]
fn ports_need_a_number_of_their_own() {
    let start = |numbers: &[u16], cpu_port| {
        let ports = numbers.iter().map(|number| cable(*number).0).collect();
        Engine::start("test", ports, cpu_port).map(drop)
    };
    assert!(matches!(start(&[1, 2, 1], CPU_PORT), Err(SwitchError::PortTaken(1))));
    assert!(matches!(start(&[1, CPU_PORT], CPU_PORT), Err(SwitchError::PortTaken(CPU_PORT))));
    assert!(matches!(start(&[511], CPU_PORT), Err(SwitchError::NoSuchPort(511))));
    assert!(matches!(start(&[], 600), Err(SwitchError::NoSuchPort(600))));
    assert!(start(&[0, 509], CPU_PORT).is_ok());
}
