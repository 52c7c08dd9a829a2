//! A member's configuration survives the API unchanged, and nothing invalid is accepted.

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use tributary_api::{
    ConfigError, DownPath, Downlink, Endpoint, FinishedSlice, JobConfig, ProcessCounts, Role, TakeOver, v1,
};
use tributary_wire::{Hop, JobId, JobSecret, MacAddr, NodeId, Operator, Rank, Seq, SliceWidth, Tag, Totals};

/// The window of every sample: a server that takes over gets one due slice for each slot.
const WINDOW: u32 = 4;

fn host() -> impl Strategy<Value = Endpoint> {
    (any::<[u8; 5]>(), 1u8..224, any::<[u8; 3]>()).prop_map(|(mac, first, ip)| Endpoint {
        mac: MacAddr::new(0x02, mac[0], mac[1], mac[2], mac[3], mac[4]),
        ip: Ipv4Addr::new(first, ip[0], ip[1], ip[2]),
    })
}

fn group() -> impl Strategy<Value = Endpoint> {
    any::<[u8; 3]>().prop_map(|low| Endpoint {
        mac: MacAddr::new(0x01, 0x00, 0x5e, low[0] & 0x7f, low[1], low[2]),
        ip: Ipv4Addr::new(239, low[0], low[1], low[2]),
    })
}

fn hop() -> impl Strategy<Value = Hop> {
    (1..=u16::MAX, any::<u16>(), any::<bool>(), 0u8..64, any::<u8>()).prop_map(
        |(node, egress_port, aggregate, child, fan_in)| Hop {
            node: NodeId::new(node).unwrap(),
            egress_port,
            aggregate,
            child,
            fan_in,
        },
    )
}

fn secret() -> impl Strategy<Value = JobSecret> {
    any::<[u8; JobSecret::BYTES]>().prop_map(JobSecret::new)
}

fn worker(ranks: Vec<u16>) -> impl Strategy<Value = Role> {
    (proptest::sample::select(ranks), vec(hop(), 1..=8), secret(), any::<bool>()).prop_map(
        |(rank, up, secret, confidential)| Role::Worker { rank: Rank::new(rank), up, secret, confidential },
    )
}

fn finished_slice() -> impl Strategy<Value = FinishedSlice> {
    (any::<[u32; 5]>(), 1..=u16::MAX, any::<bool>(), vec(any::<i32>(), SliceWidth::ETHERNET.values()))
        .prop_map(|([seq, contributors, weight, high, low], job, max, values)| FinishedSlice {
            seq: Seq(seq),
            job: JobId::new(job).unwrap(),
            operator: if max { Operator::Max } else { Operator::Sum },
            totals: Totals { contributors, weight, tag: Tag { high, low } },
            values: values.into(),
        })
}

fn take_over() -> impl Strategy<Value = TakeOver> {
    (vec(any::<u32>(), WINDOW as usize), vec(finished_slice(), 0..3))
        .prop_map(|(dues, finished)| TakeOver { dues: dues.into_iter().map(Seq).collect(), finished })
}

fn server(ranks: Vec<u16>) -> impl Strategy<Value = Role> {
    let paths = vec((host(), vec(hop(), 0..=8)), ranks.len());
    let more = (proptest::option::of(take_over()), secret(), proptest::option::of(secret()), any::<bool>());
    (1..=u16::MAX, 1u8..=64, paths, more).prop_map(move |(node, fan_in, paths, more)| {
        let (take_over, vouching_key, secret, confidential) = more;
        Role::Server {
            confidential,
            take_over,
            vouching_key,
            secret,
            node: NodeId::new(node).unwrap(),
            fan_in,
            down: ranks
                .iter()
                .zip(paths)
                .map(|(rank, (worker, hops))| DownPath { rank: Rank::new(*rank), worker, hops })
                .collect(),
        }
    })
}

fn config() -> impl Strategy<Value = JobConfig> {
    btree_set(0..u16::MAX, 1..20).prop_flat_map(|ranks| {
        let ranks: Vec<u16> = ranks.into_iter().collect();
        let role = prop_oneof![worker(ranks.clone()).boxed(), server(ranks.clone()).boxed()];
        let joined = proptest::sample::subsequence(ranks.clone(), 0..=ranks.len());
        let adopted = (0..u16::MAX).prop_filter("not one of them", {
            let ranks = ranks.clone();
            move |rank| !ranks.contains(rank)
        });
        let processes = vec(1..9_u32, 0..4);
        let change = (joined, any::<bool>(), vec(adopted, 0..=1), "[a-z ]{0,9}", processes);
        let numbers = (1..=u16::MAX, (1..=u32::MAX, any::<u64>(), change), any::<u32>(), any::<bool>());
        ("[a-z]{0,9}", numbers, host(), host(), group(), role).prop_map(
            move |(name, (job, version, seq, multicast_down), own, server, multicast, role)| JobConfig {
                name,
                job: JobId::new(job).unwrap(),
                width: SliceWidth::ETHERNET,
                window: WINDOW,
                generation: version.0,
                begun: version.1,
                joined: version.2.0.into_iter().map(Rank::new).collect(),
                regroup: version.2.1,
                adopted: version.2.2.into_iter().map(Rank::new).collect(),
                processes: ProcessCounts::new(version.2.4).unwrap(),
                reason: version.2.3,
                start_seqs: (0..1 << (seq % 3)).map(|stripe| Seq(seq).plus(stripe)).collect(),
                slice_time: Duration::from_nanos(seq.into()),
                switches: seq,
                downlink: if multicast_down { Downlink::Multicast } else { Downlink::Unicast },
                ranks: ranks.iter().copied().map(Rank::new).collect(),
                own,
                server,
                multicast,
                role,
            },
        )
    })
}

fn wild_hop() -> impl Strategy<Value = v1::Hop> {
    (any::<u32>(), any::<u32>(), any::<bool>(), any::<u32>(), any::<u32>()).prop_map(
        |(node, egress_port, aggregate, child, fan_in)| v1::Hop {
            node: node >> 14,
            egress_port: egress_port >> 14,
            aggregate,
            child: child >> 25,
            fan_in: fan_in >> 23,
        },
    )
}

proptest! {
    #[test]
    fn a_config_survives_the_way(config in config()) {
        prop_assert_eq!(JobConfig::try_from(v1::JobConfig::from(&config)), Ok(config));
    }

    /// An accepted value means what it says: no number was cut to fit.
    #[test]
    fn a_hop_is_kept_or_refused(message in wild_hop()) {
        if let Ok(hop) = Hop::try_from(&message) {
            prop_assert_eq!(v1::Hop::from(&hop), message);
            prop_assert_eq!(Hop::parse(&hop.to_bytes()), Ok(hop));
        }
    }

    #[test]
    fn an_endpoint_is_kept_or_refused(mac in vec(any::<u8>(), 0..9), ipv4 in vec(any::<u8>(), 0..7)) {
        let message = v1::Endpoint { mac, ipv4 };
        match Endpoint::try_from(&message) {
            Ok(endpoint) => prop_assert_eq!(v1::Endpoint::from(endpoint), message),
            Err(error) => {
                let length = matches!(error, ConfigError::AddressLength { .. });
                prop_assert!(length, "{}", error);
            }
        }
    }

    #[test]
    fn a_window_is_a_power_of_two(config in config(), window in any::<u32>()) {
        let message = v1::JobConfig { window, take_over: None, ..v1::JobConfig::from(&config) };
        prop_assert_eq!(JobConfig::try_from(message).is_ok(), window.is_power_of_two());
    }
}

fn sample() -> v1::JobConfig {
    let hop = v1::Hop { node: 9, egress_port: 0, aggregate: true, child: 1, fan_in: 2 };
    let endpoint = |last| v1::Endpoint { mac: vec![2, 0, 0, 0, 0, last], ipv4: vec![10, 0, 0, last] };
    let group = v1::Endpoint { mac: vec![1, 0, 0x5e, 0, 0, 7], ipv4: vec![239, 0, 0, 7] };
    v1::JobConfig {
        job: "digits".into(),
        job_id: 7,
        window: 64,
        values_per_slice: 256,
        start_seqs: vec![1, 2],
        downlink: v1::Downlink::Multicast.into(),
        slice_nanoseconds: 180_000,
        switches: 3,
        ranks: vec![0, 1],
        own: Some(endpoint(1)),
        server: Some(endpoint(9)),
        multicast: Some(group),
        role: Some(v1::job_config::Role::Worker(v1::WorkerRole { rank: 1, up: vec![hop] })),
        generation: 1,
        begun: 0,
        joined: vec![],
        take_over: None,
        regroup: true,
        adopted: vec![2, 5],
        processes: vec![4, 1, 8],
        reason: "w1 is gone".into(),
        secret: vec![7; JobSecret::BYTES],
        confidential: false,
    }
}

#[test]
fn ranks_of_processes_follow_one_another_host_by_host() {
    let counts = JobConfig::try_from(sample()).unwrap().processes;
    let ranks = [0, 1, 2, 3, 4, 65534].map(|worker| counts.ranks_of(Rank::new(worker)));
    assert_eq!(ranks, [0..4, 4..5, 5..13, 13..14, 14..15, 65544..65545]);
    assert_eq!(ProcessCounts::default().ranks_of(Rank::new(7)), 7..8);
}

#[test]
fn each_broken_promise_is_named() {
    type Break = fn(&mut v1::JobConfig);
    let worker = |rank, up| Some(v1::job_config::Role::Worker(v1::WorkerRole { rank, up }));
    assert!(JobConfig::try_from(sample()).is_ok());
    let cases: &[(Break, &str)] = &[
        (|c| c.job_id = 0, "job_id is 0: must be 1 to 65535"),
        (|c| c.secret.clear(), "secret is missing"),
        (|c| c.secret.push(0), "secret: 33 bytes, and a secret has 32"),
        (|c| c.job_id = 65536, "job_id is 65536: must be 1 to 65535"),
        (
            |c| c.values_per_slice = 48,
            "values_per_slice is 48: must be 32, or that times a power of two, up to 2048",
        ),
        (|c| c.downlink = 9, "downlink is 9: unknown"),
        (|c| c.downlink = 0, "downlink is 0: unknown"),
        (|c| c.ranks.clear(), "ranks is missing"),
        (|c| c.ranks = vec![1, 1], "ranks: must ascend, but 1 comes before 1"),
        (|c| c.ranks = vec![0, 65535], "rank is 65535: must be 0 to 65534"),
        (|c| c.own = None, "own is missing"),
        (|c| c.own = c.multicast.clone(), "own is 01:00:5e:00:00:07, not a unicast address"),
        (|c| c.multicast = c.own.clone(), "multicast is 02:00:00:00:00:01, not a multicast address"),
        (|c| c.role = None, "role is missing"),
        (|c| c.generation = 0, "generation is missing"),
        (|c| c.joined = vec![2], "joined: rank 2 is not one of the job's"),
        (|c| c.adopted = vec![1, 2], "adopted: rank 1 is one of the job's, and has its data itself"),
        (|c| c.adopted = vec![5, 2], "adopted: must ascend, but 5 comes before 2"),
        (|c| c.processes = vec![4, 0], "processes is 0: must be 1 to 65535"),
        (|c| c.processes = vec![65536], "processes is 65536: must be 1 to 65535"),
    ];
    for (break_it, expected) in cases {
        let mut config = sample();
        break_it(&mut config);
        assert_eq!(JobConfig::try_from(config).unwrap_err().to_string(), *expected);
    }
    let refused = |role| JobConfig::try_from(v1::JobConfig { role, ..sample() }).unwrap_err().to_string();
    assert_eq!(refused(worker(2, vec![])), "worker.rank: rank 2 is not one of the job's");
    assert_eq!(refused(worker(1, vec![])), "worker.up is missing");
    let hop = v1::Hop { node: 1, ..v1::Hop::default() };
    assert_eq!(refused(worker(1, vec![hop; 9])), "worker.up: 9 hops: a packet carries at most 8");
    let down = [0, 1].map(|rank| v1::DownPath { rank, worker: sample().own, hops: vec![] }).to_vec();
    let server = v1::ServerRole { node: 9, fan_in: 2, down, vouching_key: vec![8; JobSecret::BYTES] };
    for (server, expected) in [
        (
            v1::ServerRole { down: vec![], ..server.clone() },
            "server_role.down: must have one path for each rank of the job, in their order",
        ),
        (v1::ServerRole { vouching_key: vec![], ..server.clone() }, "server_role.vouching_key is missing"),
        (
            v1::ServerRole { vouching_key: vec![8; 31], ..server.clone() },
            "server_role.vouching_key: 31 bytes, and a secret has 32",
        ),
    ] {
        assert_eq!(refused(Some(v1::job_config::Role::ServerRole(server))), expected);
    }
    let refused = |take_over| {
        let role = Some(v1::job_config::Role::ServerRole(server.clone()));
        let config = v1::JobConfig { role, take_over: Some(take_over), ..sample() };
        JobConfig::try_from(config).unwrap_err().to_string()
    };
    let slice = v1::FinishedSlice { values: vec![0; 4], ..v1::FinishedSlice::default() };
    let narrow = v1::FinishedSlice { values: vec![0; 128], job_id: 1, ..v1::FinishedSlice::default() };
    assert_eq!(
        refused(v1::TakeOver { dues: vec![1; 64], finished: vec![narrow] }),
        "take_over.finished: 32 values, and the job's slices have 256"
    );
    assert_eq!(
        refused(v1::TakeOver { dues: vec![1; 3], finished: vec![] }),
        "take_over.dues: 3 slots, and the window has 64"
    );
    assert_eq!(
        refused(v1::TakeOver { dues: vec![1; 64], finished: vec![slice] }),
        "values: 4 bytes, which no slice has"
    );
}

#[test]
fn a_host_has_unicast_addresses_and_a_group_multicast_ones() {
    let endpoint = |mac: [u8; 6], ipv4: [u8; 4]| Some(v1::Endpoint { mac: mac.into(), ipv4: ipv4.into() });
    let (host, group) = ([2, 0, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0, 7]);
    let hosts = [
        ([0; 6], [10, 0, 0, 1], "00:00:00:00:00:00"),
        ([0xff; 6], [10, 0, 0, 1], "ff:ff:ff:ff:ff:ff"),
        (group, [10, 0, 0, 1], "01:00:5e:00:00:07"),
        (host, [0, 0, 0, 0], "0.0.0.0"),
        (host, [255, 255, 255, 255], "255.255.255.255"),
        (host, [239, 0, 0, 7], "239.0.0.7"),
    ];
    for (mac, ip, address) in hosts {
        for (field, config) in [
            ("own", v1::JobConfig { own: endpoint(mac, ip), ..sample() }),
            ("server", v1::JobConfig { server: endpoint(mac, ip), ..sample() }),
        ] {
            let refused = JobConfig::try_from(config).unwrap_err().to_string();
            assert_eq!(refused, format!("{field} is {address}, not a unicast address"));
        }
    }
    let groups = [
        (host, [239, 0, 0, 7], "02:00:00:00:00:01"),
        ([0xff; 6], [239, 0, 0, 7], "ff:ff:ff:ff:ff:ff"),
        (group, [10, 0, 0, 1], "10.0.0.1"),
        (group, [255, 255, 255, 255], "255.255.255.255"),
    ];
    for (mac, ip, address) in groups {
        let config = v1::JobConfig { multicast: endpoint(mac, ip), ..sample() };
        let refused = JobConfig::try_from(config).unwrap_err().to_string();
        assert_eq!(refused, format!("multicast is {address}, not a multicast address"));
    }
}

#[test]
fn numbers_at_the_limits_of_a_hop_are_accepted_and_the_next_ones_are_not() {
    let most = v1::Hop { node: 65_535, egress_port: 65_535, aggregate: true, child: 63, fan_in: 255 };
    let least = v1::Hop { node: 1, ..v1::Hop::default() };
    for message in [&most, &least] {
        assert_eq!(v1::Hop::from(&Hop::try_from(message).unwrap()), *message);
    }
    for (message, expected) in [
        (v1::Hop { node: 0, ..most }, "node is 0: must be 1 to 65535"),
        (v1::Hop { node: 65_536, ..most }, "node is 65536: must be 1 to 65535"),
        (v1::Hop { egress_port: 65_536, ..most }, "egress_port is 65536: at most 65535"),
        (v1::Hop { child: 64, ..most }, "child is 64: a node tells 64 children apart"),
        (v1::Hop { child: 256, ..most }, "child is 256: a node tells 64 children apart"),
        (v1::Hop { fan_in: 256, ..most }, "fan_in is 256: at most 255"),
    ] {
        assert_eq!(Hop::try_from(&message).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_server_waits_for_1_to_64_children() {
    let with = |fan_in| {
        let down = [0, 1].map(|rank| v1::DownPath { rank, worker: sample().own, hops: vec![] }).to_vec();
        let server = v1::ServerRole { node: 9, fan_in, down, vouching_key: vec![8; JobSecret::BYTES] };
        let role = Some(v1::job_config::Role::ServerRole(server));
        JobConfig::try_from(v1::JobConfig { role, ..sample() }).map(|config| config.role)
    };
    for number in [1, 64] {
        let is_kept = matches!(with(number), Ok(Role::Server { fan_in, .. }) if u32::from(fan_in) == number);
        assert!(is_kept, "{number}");
    }
    for number in [0, 65, 257] {
        let expected = format!("server_role.fan_in is {number}: must be 1 to 64");
        assert_eq!(with(number).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_finished_slice_has_the_values_of_a_width() {
    let slice = |bytes: usize| v1::FinishedSlice { job_id: 1, values: vec![0; bytes], ..Default::default() };
    for width in SliceWidth::all() {
        let finished = FinishedSlice::try_from(&slice(width.bytes())).unwrap();
        assert_eq!((finished.values.len(), finished.operator), (width.values(), Operator::Sum));
    }
    for bytes in [0, 127, 129, 384, 16_384] {
        let refused = FinishedSlice::try_from(&slice(bytes)).unwrap_err().to_string();
        assert_eq!(refused, format!("values: {bytes} bytes, which no slice has"));
    }
}
