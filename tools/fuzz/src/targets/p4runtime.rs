//! P4Runtime: the messages that a controller sends to a switch, and the switch's replies.
//!
//! An input is the kind of a message and its protobuf. The target checks these properties: an entity that a
//! controller reads by name does not change when it is sent again; a switch executes a write or refuses it
//! with a reason, and can be read afterwards; an entry that was written is found, and is not found after it
//! was deleted; and a packet-out becomes a frame of the packet's length.

use std::sync::Arc;

use prost::Message;
use tributary_p4runtime::entry::{
    ActionCall, ControllerPacket, CounterCell, Entity, MulticastGroup, Query, TableEntry,
};
use tributary_p4runtime::p4::v1::stream_message_request::Update;
use tributary_p4runtime::p4::v1::{
    self as message, PacketIn, ReadRequest, StreamMessageRequest, WriteRequest,
};
use tributary_softswitch::server::requests;
use tributary_softswitch::{Outputs, Switch};

use crate::finding::sound;
use crate::program::PIPELINE;
use crate::{Seed, Target};

/// The program's port to the controller.
const CPU_PORT: u16 = 510;

pub(super) const TARGET: Target = Target {
    name: "p4runtime",
    about: "P4Runtime: 0 a write, 1 a read, 2 a message of the stream, 3 a packet-in; then protobuf",
    max_len: 2048,
    tries: 1500,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => drop(WriteRequest::decode(bytes).map(write)),
        1 => {
            let switch = Switch::new(Arc::clone(&PIPELINE));
            drop(ReadRequest::decode(bytes).map(|request| read(&switch, request)));
        }
        2 => drop(StreamMessageRequest::decode(bytes).map(stream)),
        _ => drop(
            PacketIn::decode(bytes).map(|packet| ControllerPacket::from_packet_in(PIPELINE.info(), packet)),
        ),
    }
}

fn write(request: WriteRequest) {
    let info = PIPELINE.info();
    let mut switch = Switch::new(Arc::clone(&PIPELINE));
    for update in request.updates {
        if let Some(entity) = &update.entity {
            named(entity);
        }
        let refused = requests::write(&mut switch, update).err();
        assert!(refused.is_none_or(|refused| !refused.message().is_empty()));
    }
    for query in [Query::AllTables, Query::AllDefaults, Query::AllGroups] {
        let pattern = sound(query.to_proto(info));
        let found =
            sound(requests::read(&switch, ReadRequest { entities: vec![pattern], ..ReadRequest::default() }));
        for entity in found {
            // A controller can parse an entity that a switch reports, and can send it back.
            let entity = sound(Entity::from_proto(info, &entity));
            let is_default = matches!(query, Query::AllDefaults);
            if !is_default {
                sound(requests::write(&mut switch, sound(entity.delete(info))));
            }
        }
    }
    for query in [Query::AllTables, Query::AllGroups] {
        let request = ReadRequest { entities: vec![sound(query.to_proto(info))], ..ReadRequest::default() };
        assert_eq!(sound(requests::read(&switch, request)), [], "something was not deleted");
    }
}

fn named(entity: &message::Entity) {
    let info = PIPELINE.info();
    if let Ok(entity) = Entity::from_proto(info, entity) {
        let sent = sound(entity.to_proto(info));
        assert_eq!(sound(Entity::from_proto(info, &sent)), entity);
    }
}

fn read(switch: &Switch, request: ReadRequest) {
    match requests::read(switch, request) {
        Ok(found) => found.iter().for_each(named),
        Err(refused) => assert!(!refused.message().is_empty()),
    }
}

fn stream(message: StreamMessageRequest) {
    let Some(Update::Packet(packet)) = message.update else { return };
    let payload = packet.payload.len();
    match requests::packet_out(&PIPELINE, &packet) {
        Ok(frame) => {
            // The program's packet-in header is two bytes long.
            assert_eq!(frame.len(), payload + 2);
            Switch::new(Arc::clone(&PIPELINE)).process(CPU_PORT, &frame, &mut Outputs::new());
        }
        Err(refused) => assert!(!refused.message().is_empty()),
    }
}

fn seeds() -> Vec<Seed> {
    let info = PIPELINE.info();
    let admit =
        ActionCall::new("admit").with("job_index", 1_u8).with("slot_base", 64_u8).with("slot_mask", 63_u8);
    let admit = admit
        .with("children", 1_u8)
        .with("kinds", 3_u8)
        .with("aggregate", 1_u8)
        .with("fan_in", 2_u8)
        .with("rank", 5_u8);
    let admission =
        TableEntry::new("admission").exact("job", 7_u8).exact("ingress_port", 3_u8).action(admit.clone());
    let guard = TableEntry::new("egress_guard").exact("job", 7_u8).exact("egress_port", 3_u8);
    let guard = guard.action(ActionCall::new("allow"));
    let identity =
        TableEntry::default_of("identity").action(ActionCall::new("set_identity").with("node", 7_u8));
    let group = MulticastGroup::to_ports(5, [1, 2]);
    let update = |update| sound(update);
    let write = |updates: Vec<message::Update>| {
        [vec![0], WriteRequest { updates, ..WriteRequest::default() }.encode_to_vec()].concat()
    };
    let read = |queries: &[Query]| {
        let entities = queries.iter().map(|query| sound(query.to_proto(info))).collect();
        [vec![1], ReadRequest { entities, ..ReadRequest::default() }.encode_to_vec()].concat()
    };
    let entity = |entry: &TableEntry| Entity::from(entry.clone());
    let packet = ControllerPacket::new([0x5a; 60]).with("egress_port", 3_u8);
    let packet = StreamMessageRequest { update: Some(Update::Packet(sound(packet.to_packet_out(info)))) };
    let metadata = vec![message::PacketMetadata { metadata_id: 1, value: vec![3] }];
    let packet_in = PacketIn { payload: vec![0x5a; 60], metadata };
    vec![
        (
            "insert".to_owned(),
            write(vec![
                update(entity(&admission).insert(info)),
                update(entity(&guard).insert(info)),
                update(Entity::from(group.clone()).insert(info)),
            ]),
        ),
        (
            "change".to_owned(),
            write(vec![
                update(entity(&admission).insert(info)),
                update(entity(&admission).modify(info)),
                update(entity(&admission).delete(info)),
                update(entity(&identity).modify(info)),
            ]),
        ),
        (
            "counter".to_owned(),
            write(vec![update(Entity::from(CounterCell::zero("job_received", 3)).modify(info))]),
        ),
        ("read-all".to_owned(), read(&[Query::AllTables, Query::AllDefaults, Query::AllGroups])),
        (
            "read-one".to_owned(),
            read(&[
                Query::Entry(admission),
                Query::CounterCell("job_received".to_owned(), 3),
                Query::Group(5),
                Query::Counter("port_ingress".to_owned()),
            ]),
        ),
        ("packet-out".to_owned(), [vec![2], packet.encode_to_vec()].concat()),
        ("packet-in".to_owned(), [vec![3], packet_in.encode_to_vec()].concat()),
    ]
}
