//! Compares the state of both switches over P4Runtime after the packets.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use tributary_p4runtime::p4::v1::stream_message_response::Update as Told;
use tributary_p4runtime::p4::v1::{self as message, TableEntry, Update};

use super::controller::Controller;
use super::entities::id;
use super::program::Program;

/// The maximum time to wait for notifications. BMv2 scans for idle entries once a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Compares all readable entities and all notifications.
pub(crate) async fn compare(
    name: &str,
    program: &Program,
    updates: &[Update],
    mut bmv2: Controller,
    mut embedded: Controller,
) {
    for pattern in patterns(program) {
        let mut found = Vec::new();
        for controller in [&mut bmv2, &mut embedded] {
            let read = controller.read(pattern.clone()).await.map_err(|status| status.code());
            found.push(read.map(|read| plain(read, program)));
        }
        let [theirs, ours] = found.try_into().unwrap();
        if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
            let unlike = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
            assert!(unlike.is_none(), "{name}, {pattern:?}:\nembedded, BMv2: {unlike:#?}");
        }
        assert_eq!(ours, theirs, "{name}, {pattern:?}");
    }
    let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
    // Every entry with a timeout becomes idle in the end.
    let idle = updates.iter().filter(|update| is_idle(update)).count();
    let at_least = idle + program.info.message().digests.len();
    let deadline = Instant::now() + PATIENCE;
    // The switches do not report the end of their notifications.
    loop {
        ours.extend(embedded.so_far().iter().flat_map(told));
        theirs.extend(bmv2.so_far().iter().flat_map(told));
        if (ours == theirs && ours.len() >= at_least) || Instant::now() > deadline {
            break;
        }
        bmv2.wait(Duration::from_millis(100)).await;
        embedded.wait(Duration::from_millis(1)).await;
    }
    let (only_ours, only_theirs): (Vec<_>, Vec<_>) =
        (ours.difference(&theirs).take(3).collect(), theirs.difference(&ours).take(3).collect());
    assert!(
        ours == theirs,
        "{name}: {} told, BMv2 {}: {only_ours:#?}, BMv2: {only_theirs:#?}",
        ours.len(),
        theirs.len()
    );
    println!("{name}: {} digests and idle entries", ours.len());
}

fn is_idle(update: &Update) -> bool {
    let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
    matches!(entity, Some(Kind::TableEntry(entry)) if entry.idle_timeout_ns != 0)
}

/// Removes the parts of entities that have no order, or that only one of the switches has.
fn plain(mut entities: Vec<Kind>, program: &Program) -> Vec<Kind> {
    for entity in &mut entities {
        match entity {
            Kind::PacketReplicationEngineEntry(entry) => match &mut entry.r#type {
                Some(Replication::MulticastGroupEntry(group)) => sort(&mut group.replicas),
                Some(Replication::CloneSessionEntry(session)) => sort(&mut session.replicas),
                None => {}
            },
            Kind::TableEntry(entry) => {
                // BMv2's version of P4Runtime does not mark constant entries.
                entry.is_const = false;
                // The priorities of a program's own entries are not specified; only their order is.
                if has_fixed_entries(program, entry.table_id) {
                    entry.priority = 0;
                }
            }
            Kind::ActionProfileGroup(group) => group.members.sort_by_key(|member| member.member_id),
            _ => {}
        }
    }
    // If a member has a weight above 1 in a group, BMv2 returns the member several times.
    entities.dedup_by(|one, other| one == other && matches!(one, Kind::ActionProfileMember(_)));
    sort(&mut entities);
    entities
}

fn sort<T: std::fmt::Debug>(all: &mut [T]) {
    all.sort_by_key(|one| format!("{one:?}"));
}

fn has_fixed_entries(program: &Program, table: u32) -> bool {
    let mut tables = program.info.message().tables.iter();
    tables.any(|one| id(one.preamble.as_ref()) == table && one.is_const_table)
}

/// Formats a notification: digests of packets, or entries that have been idle too long.
fn told(told: &Told) -> Vec<String> {
    match told {
        Told::Digest(list) => list.data.iter().map(|data| format!("{} {data:?}", list.digest_id)).collect(),
        Told::IdleTimeoutNotification(idle) => idle
            .table_entry
            .iter()
            .map(|entry| {
                let key = TableEntry {
                    table_id: entry.table_id,
                    r#match: entry.r#match.clone(),
                    priority: entry.priority,
                    ..Default::default()
                };
                format!("{key:?}")
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns a pattern for each kind of entity; for kinds that are read by table, one for each table.
fn patterns(program: &Program) -> Vec<Kind> {
    let info = program.info.message();
    let replication = |kind| {
        Kind::PacketReplicationEngineEntry(message::PacketReplicationEngineEntry { r#type: Some(kind) })
    };
    let mut patterns = vec![
        replication(Replication::MulticastGroupEntry(Default::default())),
        replication(Replication::CloneSessionEntry(Default::default())),
    ];
    for table in &info.tables {
        let entry = TableEntry { table_id: id(table.preamble.as_ref()), ..Default::default() };
        // BMv2 fails to read a table with entries of the program that are not constant.
        if !table.has_initial_entries || table.is_const_table {
            patterns.push(Kind::TableEntry(entry.clone()));
        }
        if table.implementation_id == 0 {
            patterns.push(Kind::TableEntry(TableEntry { is_default_action: true, ..entry.clone() }));
        }
        let table_entry = Some(entry.clone());
        if info.direct_counters.iter().any(|counter| counter.direct_table_id == entry.table_id) {
            let data = None;
            patterns.push(Kind::DirectCounterEntry(message::DirectCounterEntry {
                table_entry: table_entry.clone(),
                data,
            }));
        }
        if info.direct_meters.iter().any(|meter| meter.direct_table_id == entry.table_id) {
            let meter = message::DirectMeterEntry { table_entry, ..Default::default() };
            patterns.push(Kind::DirectMeterEntry(meter));
        }
    }
    for counter in &info.counters {
        let counter_id = id(counter.preamble.as_ref());
        patterns.push(Kind::CounterEntry(message::CounterEntry { counter_id, ..Default::default() }));
    }
    for meter in &info.meters {
        let meter_id = id(meter.preamble.as_ref());
        patterns.push(Kind::MeterEntry(message::MeterEntry { meter_id, ..Default::default() }));
    }
    for profile in &info.action_profiles {
        let action_profile_id = id(profile.preamble.as_ref());
        let member = message::ActionProfileMember { action_profile_id, ..Default::default() };
        patterns.push(Kind::ActionProfileMember(member));
        if profile.with_selector {
            let group = message::ActionProfileGroup { action_profile_id, ..Default::default() };
            patterns.push(Kind::ActionProfileGroup(group));
        }
    }
    patterns
}
