//! Packets from and to the controller, with their header fields.

use num_bigint::BigUint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_p4runtime::p4::v1::stream_message_request::Update as Say;
use tributary_p4runtime::p4::v1::{PacketMetadata, PacketOut};
use tributary_testkit::simple_switch;

use super::controller::Controller;
use super::program::Program;
use super::values::random_bits;
use super::{reads, seed};
use crate::pair::Pair;

/// Number of packets. The embedded switch sends at most this number back at once.
const PACKETS: usize = 90;

#[tokio::test]
async fn packets_of_the_controller_are_the_same_on_both() {
    if !simple_switch::is_installed() {
        return;
    }
    let program = Program::read("packet_io");
    let packets = packets(&program);
    let pair = Pair::start().await;
    let mut controllers = Vec::new();
    for (name, address) in pair.addresses() {
        let mut controller = Controller::connect(name, address, &program).await;
        let mut back = Vec::new();
        for packet in &packets {
            controller.say(Say::Packet(packet.clone())).await;
        }
        for _ in 0..PACKETS / 2 {
            back.push(controller.packet_in(&program).await.expect("a packet comes back"));
        }
        controllers.push((controller, back));
    }
    let [(bmv2, theirs), (embedded, ours)] = controllers.try_into().ok().unwrap();
    assert_eq!(ours, theirs, "seed {}", seed());
    reads::compare("packet_io", &program, &[], bmv2, embedded).await;
}

/// Returns packets that go alternately to ports and back to the controller.
fn packets(program: &Program) -> Vec<PacketOut> {
    let mut random = ChaCha8Rng::seed_from_u64(seed());
    let header = program.info.packet_out().unwrap();
    let one = |number: usize| {
        let mut metadata = Vec::new();
        for field in &header.fields {
            let value: BigUint = match field.name.as_str() {
                "egress_port" => random.random_range(1u8..6).into(),
                "way" => (number % 2).into(),
                "pad" => BigUint::ZERO,
                _ => random_bits(field.width as usize, &mut random),
            };
            metadata.push(PacketMetadata { metadata_id: field.id, value: value.to_bytes_be() });
        }
        let bytes = random.random_range(1..60);
        PacketOut { payload: (0..bytes).map(|_| random.random()).collect(), metadata }
    };
    (0..PACKETS).map(one).collect()
}
