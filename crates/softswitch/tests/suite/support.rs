//! A switch that runs the project's program, with the tables that a controller would write.
#![allow(dead_code)]

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use tributary_softswitch::control::{
    ActionCall, CounterValue, EntryKey, FieldMatch, KeyMatch, MulticastGroup, Replica, TableEntry,
};
use tributary_softswitch::{Outputs, Pipeline, Switch};
use tributary_wire::constants::RANK_ALL;
use tributary_wire::frame::{FrameHeader, FrameView, MacAddr, emit, frame_len};
use tributary_wire::{Header, Hop, JobId, Kind, Message, NodeId, Operator, Rank, Seq, Tag, Totals};

use crate::program::PROGRAM;

/// The node id of the switch under test.
pub(crate) const NODE: u16 = 7;
/// The port to the parent.
pub(crate) const UP: u16 = 9;
/// The job's index in the counters.
pub(crate) const JOB_INDEX: u64 = 3;
/// The id of the job under test.
pub(crate) const JOB: u16 = 0x1234;
/// First slot of the job's window.
pub(crate) const BASE: u32 = 64;
/// Number of slots in the job's window.
pub(crate) const WINDOW: u32 = 16;

/// Number of values that a slice has.
pub(crate) const VALUES: usize = PROGRAM.1.values();
/// The values of a slice.
pub(crate) type Values = [i32; VALUES];

/// Reads a file that p4c wrote for the program under test.
pub(crate) fn p4_build(file: &str) -> String {
    p4_build_of(PROGRAM.0, file)
}

/// Reads a file that p4c wrote for the program in this folder.
pub(crate) fn p4_build_of(folder: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/build").join(folder).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files that p4c makes of a program: one for the switch, one for its controllers.
pub(crate) const FILES: [&str; 2] = ["tributary.json", "tributary.p4info.txtpb"];

/// Reads both files of the program in this folder.
pub(crate) fn program_in(folder: &str) -> [String; 2] {
    FILES.map(|file| p4_build_of(folder, file))
}

/// Returns the compiled program under test.
pub(crate) fn pipeline() -> Arc<Pipeline> {
    static PIPELINE: LazyLock<Arc<Pipeline>> = LazyLock::new(|| {
        let [json, info] = program_in(PROGRAM.0);
        Arc::new(Pipeline::load_text(&json, &info).unwrap())
    });
    PIPELINE.clone()
}

/// An admission entry of a job at a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admit {
    pub(crate) job: u16,
    pub(crate) port: u16,
    pub(crate) job_index: u64,
    pub(crate) base: u32,
    pub(crate) window: u32,
    pub(crate) children: u64,
    pub(crate) kinds: u64,
    pub(crate) aggregate: bool,
    pub(crate) fan_in: u8,
}

impl Admit {
    fn arguments(&self, rank: u64) -> [u64; 8] {
        let mask = u64::from(self.window) - 1;
        let (aggregate, fan_in) = (self.aggregate.into(), self.fan_in.into());
        [self.job_index, self.base.into(), mask, self.children, self.kinds, aggregate, fan_in, rank]
    }
}

/// A sender's MAC and IP address.
pub(crate) type Address = (MacAddr, Ipv4Addr);

/// The rank in an admission entry that admits gradients of every rank.
pub(crate) const ANY_RANK: u64 = RANK_ALL as u64;

/// The kinds of packet as bits, as `admission` writes them: bit 0 GRADIENT, bit 1 RESULT.
pub(crate) const GRADIENT: u64 = 1;
pub(crate) const RESULT: u64 = 2;

/// A switch and its outputs, with methods that use the program's names.
pub(crate) struct Rig {
    pub(crate) switch: Switch,
    pub(crate) outputs: Outputs,
}

impl Rig {
    /// Makes a switch that only has an identity.
    pub(crate) fn new() -> Self {
        Self::running(pipeline())
    }

    /// Makes a switch that runs another program.
    pub(crate) fn running(pipeline: Arc<Pipeline>) -> Self {
        let mut rig = Self { switch: Switch::new(pipeline), outputs: Outputs::new() };
        let set_identity = rig.call("set_identity", &[NODE.into()]);
        let identity = rig.table("identity");
        rig.switch.set_default(identity, Some(&set_identity)).unwrap();
        rig
    }

    /// Makes a switch that aggregates for `fan_in` children at the ports 1, 2, ..., and is a child
    /// at port [`UP`].
    pub(crate) fn aggregating(fan_in: u8) -> Self {
        Self::new().aggregates(fan_in)
    }

    /// Makes the switch aggregate for `fan_in` children.
    pub(crate) fn aggregates(self, fan_in: u8) -> Self {
        let mut rig = self;
        for child in 0..fan_in {
            rig.admit(Admit {
                job: JOB,
                port: u16::from(child) + 1,
                job_index: JOB_INDEX,
                base: BASE,
                window: WINDOW,
                children: 1 << child,
                kinds: GRADIENT,
                aggregate: true,
                fan_in,
            });
            rig.allow(JOB, u16::from(child) + 1);
        }
        rig.admit(Admit {
            job: JOB,
            port: UP,
            job_index: JOB_INDEX,
            base: BASE,
            window: WINDOW,
            children: 0,
            kinds: RESULT,
            aggregate: true,
            fan_in: 0,
        });
        rig.allow(JOB, UP);
        rig
    }

    pub(crate) fn table(&self, name: &str) -> u32 {
        self.switch.pipeline().info().table(name).unwrap().name.id
    }

    /// Makes an action with its arguments.
    pub(crate) fn call(&self, action: &str, arguments: &[u64]) -> ActionCall {
        let action = self.switch.pipeline().info().action(action).unwrap();
        assert_eq!(action.parameters.len(), arguments.len());
        let value = |value: &u64| value.to_be_bytes().to_vec();
        let ids = action.parameters.iter().map(|parameter| parameter.id);
        ActionCall { action_id: action.name.id, params: ids.zip(arguments.iter().map(value)).collect() }
    }

    /// Makes a key whose fields all match exactly.
    pub(crate) fn key(&self, table: &str, values: &[u64]) -> EntryKey {
        let table = self.switch.pipeline().info().table(table).unwrap();
        let field = |(field, value): (&tributary_p4runtime::p4info::MatchField, &u64)| FieldMatch {
            field_id: field.id,
            key: KeyMatch::Exact(value.to_be_bytes().to_vec()),
        };
        EntryKey {
            table_id: table.name.id,
            matches: table.key.iter().zip(values).map(field).collect(),
            priority: 0,
        }
    }

    pub(crate) fn entry(&self, table: &str, key: &[u64], action: &str, arguments: &[u64]) -> TableEntry {
        TableEntry::new(self.key(table, key), self.call(action, arguments))
    }

    pub(crate) fn insert(&mut self, table: &str, key: &[u64], action: &str, arguments: &[u64]) {
        let entry = self.entry(table, key, action, arguments);
        self.switch.insert(&entry).unwrap();
    }

    pub(crate) fn admit(&mut self, admit: Admit) {
        self.admit_rank(ANY_RANK, admit);
    }

    /// Admits only gradients of one rank.
    pub(crate) fn admit_rank(&mut self, rank: u64, admit: Admit) {
        self.insert("admission", &[admit.job.into(), admit.port.into()], "admit", &admit.arguments(rank));
    }

    /// Makes admission at a port depend on the sender.
    pub(crate) fn admit_by_sender(&mut self, job: u16, port: u16) {
        self.insert("admission", &[job.into(), port.into()], "admit_by_sender", &[]);
    }

    /// Admits packets of one sender at a port where admission depends on the sender.
    pub(crate) fn admit_sender(&mut self, (mac, ip): Address, admit: Admit) {
        let [a, b, c, d, e, f] = mac.octets();
        let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let key = [admit.job.into(), admit.port.into(), mac, u32::from(ip).into()];
        self.insert("sender_admission", &key, "admit", &admit.arguments(ANY_RANK));
    }

    pub(crate) fn allow(&mut self, job: u16, port: u16) {
        self.insert("egress_guard", &[job.into(), port.into()], "allow", &[]);
    }

    pub(crate) fn group(&mut self, id: u16, ports: &[u16]) {
        let replicas = ports.iter().map(|port| Replica { port: *port, instance: 1 }).collect();
        self.switch.insert_group(&MulticastGroup { id, replicas, ..Default::default() }).unwrap();
    }

    /// Processes a frame, and returns the frames that leave.
    pub(crate) fn send(&mut self, port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        self.outputs.clear();
        self.switch.process(port, frame, &mut self.outputs);
        self.outputs.iter().map(|(port, frame)| (port, frame.to_vec())).collect()
    }

    pub(crate) fn counter(&self, name: &str, index: u64) -> CounterValue {
        let id = self.switch.pipeline().info().counter(name).unwrap().name.id;
        self.switch.counters(id).unwrap()[index as usize]
    }

    /// Returns the value of one of the job's counters, in packets.
    pub(crate) fn job(&self, name: &str) -> u64 {
        self.counter(name, JOB_INDEX).packets
    }

    /// Returns the number of packets that were rejected before their job was known.
    pub(crate) fn port_rejected(&self, port: u16) -> u64 {
        self.counter("port_rejected", port.into()).packets
    }
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) header: Header,
    pub(crate) hops: Vec<Hop>,
    pub(crate) values: Option<Values>,
}

/// Makes the hop entry for a switch.
pub(crate) fn hop(node: u16, egress_port: u16, aggregate: bool, child: u8, fan_in: u8) -> Hop {
    Hop { node: NodeId::new(node).unwrap(), egress_port, aggregate, child, fan_in }
}

/// Returns values of a slice that depend on a seed, so that their source can be recognised.
pub(crate) fn values(seed: i32) -> Values {
    std::array::from_fn(|lane| {
        (lane as i32).wrapping_mul(0x0101_0107).wrapping_add(seed.wrapping_mul(0x0111_1111))
    })
}

impl Sent {
    /// Makes a child's gradient, with hops for the switch under test and then for the server.
    pub(crate) fn gradient(child: u8, fan_in: u8, seq: u32, values: Values) -> Self {
        Self {
            header: Header {
                kind: Kind::Gradient,
                operator: Operator::Sum,
                retransmit: false,
                job: JobId::new(JOB).unwrap(),
                rank: Rank::new(u16::from(child) + 100),
                seq: Seq(seq),
                totals: Totals {
                    contributors: 1,
                    weight: 2 + u32::from(child),
                    tag: Tag { high: 0x1000_0000 << child, low: 3 << child },
                },
            },
            hops: vec![hop(NODE, UP, true, child, fan_in), hop(1000, 0, true, 0, 1)],
            values: Some(values),
        }
    }

    /// Makes a unicast result that passes the switch under test on its way to a port.
    pub(crate) fn result(seq: u32, to: u16) -> Self {
        let mut result = Self::gradient(0, 0, seq, values(1));
        result.header.kind = Kind::Result;
        result.hops = vec![hop(NODE, to, true, 0, 0)];
        result
    }

    pub(crate) fn retransmitted(mut self) -> Self {
        self.header.retransmit = true;
        self
    }

    pub(crate) fn max(mut self) -> Self {
        self.header.operator = Operator::Max;
        self
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        self.frame_with(&addresses())
    }

    /// Makes a frame with these values instead of the packet's own. Their number may be wrong.
    pub(crate) fn frame_carrying(&self, values: &[i32]) -> Vec<u8> {
        self.frame_of(&addresses(), Some(values))
    }

    pub(crate) fn frame_from(&self, (source_mac, source_ip): Address) -> Vec<u8> {
        self.frame_with(&FrameHeader { source_mac, source_ip, ..addresses() })
    }

    fn frame_with(&self, addresses: &FrameHeader) -> Vec<u8> {
        self.frame_of(addresses, self.values.as_ref().map(|values| &values[..]))
    }

    fn frame_of(&self, addresses: &FrameHeader, values: Option<&[i32]>) -> Vec<u8> {
        let message = Message { header: self.header, hops: &self.hops, values };
        let mut frame = vec![0; frame_len(&message)];
        emit(addresses, &message, &mut frame).unwrap();
        frame
    }
}

/// Returns addresses that switches ignore, except if one port leads to several senders.
pub(crate) fn addresses() -> FrameHeader {
    FrameHeader {
        source_mac: MacAddr::new(2, 0, 0, 0, 0, 1),
        destination_mac: MacAddr::new(2, 0, 0, 0, 0, 2),
        source_ip: Ipv4Addr::new(10, 0, 0, 1),
        destination_ip: Ipv4Addr::new(10, 0, 0, 2),
    }
}

/// Parses the message of a frame, and checks its checksum, lengths and all fields.
pub(crate) fn received(frame: &[u8]) -> Sent {
    let message = *FrameView::parse(frame).unwrap().message();
    let mut values = [0; VALUES];
    let carried = message.values();
    if let Some(carried) = carried {
        for (to, from) in values.iter_mut().zip(carried.iter()) {
            *to = from;
        }
    }
    Sent { header: *message.header(), hops: message.hops().collect(), values: carried.map(|_| values) }
}
