//! Packets between controller and switch.

use tokio::sync::broadcast::Receiver;
use tributary_p4runtime::Code;
use tributary_p4runtime::entry::{ActionCall, ControllerPacket, TableEntry};
use tributary_p4runtime::p4::v1 as message;
use tributary_p4runtime::session::Notification;

use crate::fixture::{INFO, PORT, Rig, insert, receive, soon};

/// Makes a frame to this address that does not belong to the project's protocol.
fn frame(dst: [u8; 6]) -> Vec<u8> {
    let mut frame = dst.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.resize(60, 0x5a);
    frame
}

async fn complaint(heard: &mut Receiver<Notification>) -> message::StreamError {
    match soon(heard.recv()).await.unwrap() {
        Notification::Refused(error) => error,
        other => panic!("{other:?}"),
    }
}

async fn packet_in(heard: &mut Receiver<Notification>) -> ControllerPacket {
    match soon(heard.recv()).await.unwrap() {
        Notification::PacketIn(packet) => ControllerPacket::from_packet_in(&INFO, packet).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_packet_for_the_controller_reaches_the_primary_with_its_port() {
    let (mut rig, session) = Rig::with_program().await;
    let backup = rig.connect(1).await.unwrap();
    let (mut heard, mut unheard) = (session.notifications(), backup.notifications());
    let to_controller = TableEntry::new("mac_forward").exact("dst", 0x0200_0000_00ffu64);
    session.write(vec![insert(to_controller.action(ActionCall::new("to_controller")))]).await.unwrap();
    rig.send(&frame([2, 0, 0, 0, 0, 0xff]));
    let packet = packet_in(&mut heard).await;
    assert_eq!(packet.fields["ingress_port"], PORT.into());
    assert_eq!(packet.payload, frame([2, 0, 0, 0, 0, 0xff]));
    assert!(unheard.try_recv().is_err());
}

#[tokio::test]
async fn a_packet_from_the_controller_leaves_by_the_port_it_names() {
    let (mut rig, session) = Rig::with_program().await;
    let sent = frame([6; 6]);
    let packet = ControllerPacket::new(sent.clone()).with("egress_port", PORT);
    session.send_packet(packet.to_packet_out(&INFO).unwrap()).await.unwrap();
    let received = tokio::task::spawn_blocking(move || receive(&mut rig.host)).await.unwrap();
    assert_eq!(received, sent);
}

#[tokio::test]
async fn a_packet_out_that_does_not_fit_the_header_is_complained_about() {
    let (_rig, session) = Rig::with_program().await;
    let mut heard = session.notifications();
    let mut packet =
        ControllerPacket::new(frame([6; 6])).with("egress_port", 4u8).to_packet_out(&INFO).unwrap();
    packet.metadata[0].metadata_id = 77;
    session.send_packet(packet.clone()).await.unwrap();
    let error = complaint(&mut heard).await;
    assert_eq!(error.canonical_code, i32::from(Code::InvalidArgument));
    assert!(error.message.contains("77"), "{}", error.message);
    let Some(message::stream_error::Details::PacketOut(details)) = error.details else {
        panic!("no details")
    };
    assert_eq!(details.packet_out, Some(packet));
}

#[tokio::test]
async fn only_the_primary_sends_packets() {
    let (rig, _primary) = Rig::with_program().await;
    let backup = rig.connect(1).await.unwrap();
    let mut heard = backup.notifications();
    let packet = ControllerPacket::new(frame([6; 6])).with("egress_port", 4u8).to_packet_out(&INFO).unwrap();
    backup.send_packet(packet).await.unwrap();
    assert_eq!(complaint(&mut heard).await.canonical_code, i32::from(Code::PermissionDenied));
}

#[tokio::test]
async fn before_a_program_is_set_packets_go_nowhere() {
    let rig = Rig::start().await;
    let session = rig.connect(1).await.unwrap();
    let mut heard = session.notifications();
    session.send_packet(message::PacketOut::default()).await.unwrap();
    assert_eq!(complaint(&mut heard).await.canonical_code, i32::from(Code::FailedPrecondition));
}

#[tokio::test]
async fn a_new_primary_gets_the_packets_from_then_on() {
    let (mut rig, old) = Rig::with_program().await;
    let to_controller = TableEntry::new("mac_forward").exact("dst", 1u8);
    old.write(vec![insert(to_controller.action(ActionCall::new("to_controller")))]).await.unwrap();
    let new = rig.connect(11).await.unwrap();
    let mut heard = new.notifications();
    rig.send(&frame([0, 0, 0, 0, 0, 1]));
    assert_eq!(packet_in(&mut heard).await.payload, frame([0, 0, 0, 0, 0, 1]));
}
