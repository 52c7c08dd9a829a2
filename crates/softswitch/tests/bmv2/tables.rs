//! The table entries of both switches: jobs of several kinds, and ordinary forwarding.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, TableEntry};
use tributary_p4runtime::p4::v1::Update;
use tributary_wire::constants::RANK_ALL;

/// The node id of the switch.
pub(crate) const NODE: u16 = 7;
/// The port to the server.
pub(crate) const UP: u16 = 4;
/// Ports that table entries name. All of them receive broadcasts.
pub(crate) const PORTS: [u16; 5] = [1, 2, 3, UP, 5];
/// The multicast group of broadcasts.
const EVERYONE: u16 = 2;

/// The parameters of a job on the switch.
pub(crate) struct Job {
    pub(crate) id: u16,
    pub(crate) index: u8,
    pub(crate) base: u16,
    pub(crate) window: u16,
    pub(crate) aggregate: bool,
    pub(crate) fan_in: u8,
    /// True if the switch admits senders by their addresses instead of by port: see [`sender`].
    pub(crate) by_sender: bool,
    /// Ports, each with the children that it leads to.
    pub(crate) children: &'static [(u16, &'static [u8])],
    /// Ports by which the job's packets may leave.
    pub(crate) egress: &'static [u16],
    /// The multicast group of the job's results, and true if they release the slot.
    pub(crate) results: Option<(u16, bool)>,
}

/// MAC and IP addresses of senders.
pub(crate) mod sender {
    /// The addresses of every child.
    pub(crate) const CHILD: (u64, u32) = (0x0203_0405_0607, 0x0a00_0001);
    /// The rank that the children must have, which is one of several in the traffic.
    pub(crate) const RANK: u16 = 1;
    pub(crate) const PARENT: (u64, u32) = (0x0203_0405_0608, 0x0a00_0002);
    /// The addresses of a sender that is neither a child nor the parent.
    pub(crate) const NEIGHBOUR: (u64, u32) = (0x0203_0405_0609, 0x0a00_0003);
    pub(crate) const ALL: [(u64, u32); 3] = [CHILD, PARENT, NEIGHBOUR];
}

/// Jobs of the test.
/// The first job aggregates. The second job passes packets through. Two more jobs share slots with
/// the first, or have two children at one port. The ports of the last job have neighbours.
pub(crate) const JOBS: [Job; 5] = [
    Job {
        id: 100,
        index: 1,
        base: 64,
        window: 8,
        aggregate: true,
        fan_in: 3,
        by_sender: false,
        children: &[(1, &[0]), (2, &[1]), (3, &[5])],
        egress: &[1, 2, 3, UP],
        results: Some((1, true)),
    },
    Job {
        id: 101,
        index: 2,
        base: 0,
        window: 4,
        aggregate: false,
        fan_in: 0,
        by_sender: false,
        children: &[(1, &[0]), (2, &[1])],
        egress: &[1, UP],
        results: None,
    },
    Job {
        id: 102,
        index: 3,
        base: 64,
        window: 8,
        aggregate: true,
        fan_in: 1,
        by_sender: false,
        children: &[(2, &[3])],
        egress: &[2, UP],
        results: Some((1, false)),
    },
    Job {
        id: 103,
        index: 4,
        base: 4094,
        window: 2,
        aggregate: true,
        fan_in: 2,
        by_sender: false,
        children: &[(1, &[0, 31])],
        egress: &[UP],
        results: Some((1, true)),
    },
    Job {
        id: 105,
        index: 5,
        base: 128,
        window: 8,
        aggregate: true,
        fan_in: 2,
        by_sender: true,
        children: &[(1, &[0]), (2, &[1])],
        egress: &[1, 2, UP],
        results: Some((1, true)),
    },
];

/// The destinations that the switch knows.
pub(crate) mod mac {
    pub(crate) const HOST: u64 = 0x0200_0000_0001;
    pub(crate) const SERVER: u64 = 0x0200_0000_0004;
    pub(crate) const EVERYONE: u64 = 0xffff_ffff_ffff;
    pub(crate) const CONTROLLER: u64 = 0x0180_c200_000e;
    pub(crate) const DROPPED: u64 = 0x0200_0000_0009;
    pub(crate) const UNKNOWN: u64 = 0x0200_0000_0077;
    pub(crate) const ALL: [u64; 6] = [HOST, SERVER, EVERYONE, CONTROLLER, DROPPED, UNKNOWN];
}

/// Returns all updates that are written, with the ids of a program.
pub(crate) fn updates(info: &P4Info) -> Vec<Update> {
    let identity = ActionCall::new("set_identity").with("node", NODE);
    let identity = Entity::from(TableEntry::default_of("identity").action(identity)).modify(info).unwrap();
    let mut entities: Vec<Entity> = vec![
        MulticastGroup::to_ports(1, [1, 2, 3]).into(),
        MulticastGroup::to_ports(EVERYONE.into(), PORTS.map(u32::from)).into(),
    ];
    entities.extend(JOBS.iter().flat_map(of_job));
    let to = |port: u16| ActionCall::new("forward").with("port", port);
    let everyone = ActionCall::new("broadcast").with("group", EVERYONE);
    for (dst, action) in [
        (mac::HOST, to(1)),
        (mac::SERVER, to(UP)),
        (mac::EVERYONE, everyone),
        (mac::CONTROLLER, ActionCall::new("to_controller")),
        (mac::DROPPED, ActionCall::new("drop")),
    ] {
        entities.push(TableEntry::new("mac_forward").exact("dst", dst).action(action).into());
    }
    let inserts = entities.iter().map(|entity| entity.insert(info).unwrap());
    std::iter::once(identity).chain(inserts).collect()
}

fn of_job(job: &Job) -> Vec<Entity> {
    const GRADIENT: u8 = 1;
    const RESULT: u8 = 2;
    let admit = |port: u16, children: &[u8], kinds: u8, (mac, ip): (u64, u32)| -> Vec<Entity> {
        let children = children.iter().fold(0u64, |mask, child| mask | 1 << child);
        let call = ActionCall::new("admit").with("job_index", job.index).with("slot_base", job.base);
        let call = call.with("slot_mask", job.window - 1).with("children", children).with("kinds", kinds);
        let call = call.with("aggregate", u8::from(job.aggregate)).with("fan_in", job.fan_in);
        let call = call.with("rank", if job.by_sender { sender::RANK } else { RANK_ALL });
        let at_port = |table: &str| TableEntry::new(table).exact("job", job.id).exact("ingress_port", port);
        if !job.by_sender {
            return vec![at_port("admission").action(call).into()];
        }
        let bound = at_port("sender_admission").exact("source_mac", mac).exact("source_ip", ip);
        let by_sender = at_port("admission").action(ActionCall::new("admit_by_sender"));
        vec![bound.action(call).into(), by_sender.into()]
    };
    let mut entities = admit(UP, &[], RESULT, sender::PARENT);
    let of_children = |(port, children): &(u16, &[u8])| admit(*port, children, GRADIENT, sender::CHILD);
    entities.extend(job.children.iter().flat_map(of_children));
    entities.extend(job.egress.iter().map(|port| {
        let entry = TableEntry::new("egress_guard").exact("job", job.id).exact("egress_port", *port);
        entry.action(ActionCall::new("allow")).into()
    }));
    entities.extend(job.results.map(|(group, release)| {
        let call = ActionCall::new("deliver").with("group", group).with("release", u8::from(release));
        TableEntry::new("result_group").exact("job", job.id).action(call).into()
    }));
    entities
}
