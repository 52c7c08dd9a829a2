//! A controller's operations on the tables, counters and groups of the project's program.

use tributary_softswitch::ControlError;
use tributary_softswitch::control::{
    ActionCall, CounterValue, EntryAction, KeyMatch, MulticastGroup, Replica, TableEntry,
};

use crate::support::{ANY_RANK, JOB, JOB_INDEX, Rig, Sent, UP, values};

/// Makes an entry of a table whose key and action follow from a number.
fn numbered(rig: &Rig, table: &str, number: u64) -> TableEntry {
    match table {
        "admission" => rig.entry(
            table,
            &[1 + number / 100, number % 100],
            "admit",
            &[number % 256, 0, 15, 1, 1, 1, 2, ANY_RANK],
        ),
        "sender_admission" => {
            let key = [1 + number / 100, number % 100, 0x0200_0000_0000 + number, number];
            rig.entry(table, &key, "admit", &[number % 256, 0, 15, 1, 1, 1, 2, ANY_RANK])
        }
        "egress_guard" => rig.entry(table, &[1 + number / 100, number % 100], "allow", &[]),
        "result_group" => rig.entry(table, &[1 + number], "deliver", &[number, number % 2]),
        _ => rig.entry(table, &[0x0200_0000_0000 + number], "forward", &[number % 510]),
    }
}

#[test]
fn every_table_takes_as_many_entries_as_it_says_and_lets_them_go() {
    let mut rig = Rig::new();
    for (table, size) in [
        ("admission", 4096),
        ("sender_admission", 4096),
        ("egress_guard", 4096),
        ("result_group", 256),
        ("mac_forward", 4096),
    ] {
        let id = rig.table(table);
        for number in 0..size {
            let entry = numbered(&rig, table, number);
            rig.switch.insert(&entry).unwrap();
        }
        let one_more = numbered(&rig, table, size);
        let error = rig.switch.insert(&one_more).unwrap_err();
        assert!(matches!(error, ControlError::Full { size: full, .. } if full as u64 == size), "{error}");
        let mut read = rig.switch.entries(id).unwrap();
        assert_eq!(read.len() as u64, size);
        read.reverse();
        for (entry, resources) in read {
            assert_eq!(resources.counter, None, "the program has no direct counters");
            rig.switch.delete(&entry.key).unwrap();
        }
        assert_eq!(rig.switch.entries(id).unwrap(), []);
        rig.switch.insert(&one_more).unwrap();
    }
}

#[test]
fn an_entry_is_there_once() {
    let mut rig = Rig::new();
    let entry = rig.entry("mac_forward", &[5], "forward", &[1]);
    assert!(matches!(rig.switch.modify(&entry), Err(ControlError::NotFound(_))));
    assert!(matches!(rig.switch.delete(&entry.key), Err(ControlError::NotFound(_))));
    assert!(matches!(rig.switch.entry(&entry.key), Err(ControlError::NotFound(_))));
    rig.switch.insert(&entry).unwrap();
    assert!(matches!(rig.switch.insert(&entry), Err(ControlError::AlreadyExists(_))));
    let other = rig.entry("mac_forward", &[5], "to_controller", &[]);
    assert!(matches!(rig.switch.insert(&other), Err(ControlError::AlreadyExists(_))));
    rig.switch.modify(&other).unwrap();
    let (read, _) = rig.switch.entry(&entry.key).unwrap();
    assert_eq!(read.action, other.action);
    assert_eq!(read.key.matches[0].key, KeyMatch::Exact(vec![5]), "canonical, although zeros were written");
}

#[test]
fn requests_that_contradict_the_program_say_what_is_wrong() {
    let mut rig = Rig::new();
    let good = rig.entry("admission", &[1, 2], "admit", &[0, 0, 15, 1, 1, 1, 2, ANY_RANK]);
    let mut too_wide = good.clone();
    too_wide.key.matches[1].key = KeyMatch::Exact(vec![2, 0]);
    let mut twice = good.clone();
    twice.key.matches[1].field_id = 1;
    let mut missing = good.clone();
    missing.key.matches.pop();
    let mut unknown_field = good.clone();
    unknown_field.key.matches[0].field_id = 3;
    let mut argument = good.clone();
    call(&mut argument).params[4].1 = vec![4];
    let mut no_argument = good.clone();
    call(&mut no_argument).params.remove(1);
    let mut another = good.clone();
    call(&mut another).params[0].0 = 9;
    let mut action = good.clone();
    action.action = rig.call("allow", &[]).into();
    let cases = [
        (too_wide, "ingress_port has a bad value: a value of 10 bits does not fit into bit<9>"),
        (twice, "match field 1 is there twice"),
        (missing, "ingress_port is missing"),
        (unknown_field, "no match field 3"),
        (argument, "parameter 5: a value of 3 bits does not fit into bit<2>"),
        (no_argument, "parameter 2 is missing"),
        (another, "no parameter 9"),
        (action, "no action with id"),
    ];
    for (entry, expected) in cases {
        let error = rig.switch.insert(&entry).unwrap_err();
        assert!(matches!(error, ControlError::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let mut nowhere = good;
    nowhere.key.table_id = 1;
    assert_eq!(rig.switch.insert(&nowhere), Err(ControlError::UnknownId { what: "table", id: 1 }));
}

#[test]
fn a_table_without_a_key_has_a_default_action_only() {
    let mut rig = Rig::new();
    let identity = rig.table("identity");
    let entry = rig.entry("identity", &[], "set_identity", &[1]);
    assert!(matches!(rig.switch.insert(&entry), Err(ControlError::InvalidArgument { .. })));
    let action = rig.switch.default_entry(identity).unwrap().action;
    assert_eq!(action.unwrap().params, [(1, vec![7])]);
    rig.switch.set_default(identity, None).unwrap();
    let action = rig.switch.default_entry(identity).unwrap().action;
    assert_eq!(action.unwrap().params, [(1, vec![0])]);
}

#[test]
fn a_default_action_can_be_any_of_the_tables() {
    let mut rig = Rig::new();
    let table = rig.table("mac_forward");
    let forward = rig.call("forward", &[3]);
    rig.switch.set_default(table, Some(&forward)).unwrap();
    assert_eq!(rig.send(1, &[0; 60]), [(3, vec![0; 60])]);
    rig.switch.set_default(table, None).unwrap();
    assert_eq!(rig.send(1, &[0; 60]), []);
    let allow = rig.call("allow", &[]);
    assert!(matches!(rig.switch.set_default(table, Some(&allow)), Err(ControlError::InvalidArgument { .. })));
}

#[test]
fn counters_are_read_and_written_by_index() {
    let mut rig = Rig::aggregating(1);
    rig.send(1, &Sent::gradient(0, 1, 1, values(1)).frame());
    let id = rig.switch.pipeline().info().counter("job_received").unwrap().name.id;
    let cells = rig.switch.counters(id).unwrap();
    assert_eq!(cells.len(), 256);
    assert_eq!(cells.iter().map(|cell| cell.packets).sum::<u64>(), 1);
    let value = CounterValue { packets: 10, bytes: 20 };
    rig.switch.set_counter(id, Some(JOB_INDEX as i64), Some(value)).unwrap();
    assert_eq!(rig.counter("job_received", JOB_INDEX), value);
    assert_eq!(rig.counter("job_received", JOB_INDEX + 1), CounterValue::default());
    for index in [-1, 256, i64::MAX, i64::MIN] {
        let error = rig.switch.set_counter(id, Some(index), Some(value)).unwrap_err();
        assert!(matches!(error, ControlError::OutOfRange { size: 256, .. }), "{error}");
    }
    rig.switch.set_counter(id, None, Some(CounterValue::default())).unwrap();
    assert_eq!(rig.job("job_received"), 0);
    assert_eq!(rig.switch.counters(7), Err(ControlError::UnknownId { what: "counter", id: 7 }));
}

#[test]
fn groups_are_written_whole() {
    let mut rig = Rig::new();
    let group = |id, ports: &[u16]| MulticastGroup {
        id,
        replicas: ports.iter().map(|port| Replica { port: *port, instance: 0 }).collect(),
        ..Default::default()
    };
    assert!(matches!(rig.switch.modify_group(&group(4, &[1])), Err(ControlError::NotFound(_))));
    assert!(matches!(rig.switch.delete_group(4), Err(ControlError::NotFound(_))));
    rig.switch.insert_group(&group(4, &[1, 2])).unwrap();
    rig.switch.insert_group(&group(2, &[])).unwrap();
    assert!(matches!(rig.switch.insert_group(&group(4, &[])), Err(ControlError::AlreadyExists(_))));
    rig.switch.modify_group(&group(4, &[3])).unwrap();
    assert_eq!(rig.switch.groups(), [group(2, &[]), group(4, &[3])]);
    for (bad, expected) in [
        (group(0, &[1]), "0 stands for no group"),
        (group(5, &[511]), "no port 511"),
        (group(5, &[1, 1]), "port 1 with instance 0 is there twice"),
    ] {
        let error = rig.switch.insert_group(&bad).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    rig.switch.delete_group(4).unwrap();
    assert_eq!(rig.switch.groups().len(), 1);
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut rig = Rig::aggregating(1);
    let mut entry = rig.entry("admission", &[JOB.into(), 1], "admit", &[0, 0, 15, 1, 1, 1, 2, ANY_RANK]);
    call(&mut entry).params[0].1 = vec![1, 0, 0];
    assert!(rig.switch.modify(&entry).is_err());
    let out = rig.send(1, &Sent::gradient(0, 1, 1, values(1)).frame());
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].0, UP);
}

/// Returns the action of an entry.
fn call(entry: &mut TableEntry) -> &mut ActionCall {
    match &mut entry.action {
        EntryAction::Call(call) => call,
        other => panic!("{other:?}"),
    }
}
