//! Action profiles and selectors, with `programs/externs.p4`.

use tributary_p4runtime::Code;
use tributary_p4runtime::p4::v1::action_profile_action::WatchKind;
use tributary_p4runtime::p4::v1::action_profile_group::{Member, member::WatchKind as MemberWatch};
use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::table_action::Type::{
    Action, ActionProfileActionSet as Set, ActionProfileGroupId as GroupId, ActionProfileMemberId as MemberId,
};
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, ActionProfileGroup, ActionProfileMember};

use crate::externs::{Request, ask, call, entry, id, start, table};
use crate::fixture::{PORT, Rig, code, read_raw, update};

/// A port without a link.
const NO_PORT: u8 = 77;

fn member(profile: &str, member_id: u32, value: u8) -> Entity {
    let (action_profile_id, action) = (id(profile), Some(call("choose", &[value])));
    Entity::ActionProfileMember(ActionProfileMember { action_profile_id, member_id, action })
}

fn group(group_id: u32, max_size: i32, members: &[(u32, i32, Option<u8>)]) -> Entity {
    let members = members.iter().map(|(member_id, weight, watch)| Member {
        member_id: *member_id,
        weight: *weight,
        watch_kind: watch.map(|port| MemberWatch::WatchPort(vec![port])),
    });
    Entity::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: id("spreader"),
        group_id,
        members: members.collect(),
        max_size,
    })
}

/// Returns the hash of one byte by the selectors with crc16.
fn crc16(byte: u8) -> usize {
    let bits = (0..8).fold(u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 });
    bits as usize
}

/// Sends packets of 12 flows, and returns the member that the switch chose for each flow.
async fn chosen(mut rig: Rig, key: u8) -> (Rig, Vec<u8>) {
    let mut chosen = Vec::new();
    for flow in 0..12 {
        let answer;
        (rig, answer) = ask(rig, Request { key, flow, ..Request::default() }).await;
        chosen.push(answer.chosen);
    }
    (rig, chosen)
}

/// Returns the member for each of the 12 flows if the hash chooses between these members.
fn expected(between: &[u8]) -> Vec<u8> {
    (0..12).map(|flow| between[crc16(flow) % between.len()]).collect()
}

#[tokio::test]
async fn entries_that_refer_to_a_member_follow_it() {
    let (rig, session) = start().await;
    let insert = |entity| update(Update::Insert, entity);
    let to_member = entry("indirect", 1, MemberId(5));
    assert_eq!(code(&session, insert(table(&to_member))).await, Code::NotFound);
    session.write(vec![insert(member("plain", 5, 50)), insert(table(&to_member))]).await.unwrap();
    let request = Request { key: 1, ..Request::default() };
    let (rig, answer) = ask(rig, request).await;
    assert_eq!(answer.chosen, 50);
    session.write(vec![update(Update::Modify, member("plain", 5, 51))]).await.unwrap();
    let (_rig, answer) = ask(rig, request).await;
    assert_eq!(answer.chosen, 51);

    assert_eq!(read_raw(&session, table(&to_member)).await, [table(&to_member)]);
    let one = Entity::ActionProfileMember(ActionProfileMember {
        action_profile_id: id("plain"),
        member_id: 5,
        action: None,
    });
    assert_eq!(read_raw(&session, one).await, [member("plain", 5, 51)]);
    let every = Entity::ActionProfileMember(ActionProfileMember::default());
    assert_eq!(read_raw(&session, every.clone()).await, [member("plain", 5, 51)]);

    assert_eq!(code(&session, update(Update::Delete, member("plain", 5, 0))).await, Code::FailedPrecondition);
    session.write(vec![update(Update::Delete, table(&to_member))]).await.unwrap();
    session.write(vec![update(Update::Delete, member("plain", 5, 0))]).await.unwrap();
    assert!(read_raw(&session, every).await.is_empty());
    assert_eq!(code(&session, update(Update::Delete, member("plain", 5, 0))).await, Code::NotFound);
}

#[tokio::test]
async fn members_and_entries_that_can_not_be_are_refused() {
    let (_rig, session) = start().await;
    let insert = |entity| update(Update::Insert, entity);
    session.write((1..=4).map(|id| insert(member("plain", id, 0))).collect()).await.unwrap();
    assert_eq!(code(&session, insert(member("plain", 5, 0))).await, Code::ResourceExhausted);
    assert_eq!(code(&session, insert(member("plain", 4, 0))).await, Code::AlreadyExists);
    assert_eq!(code(&session, insert(member("spreader", 0, 0))).await, Code::InvalidArgument);
    let foreign = Entity::ActionProfileMember(ActionProfileMember {
        action_profile_id: id("plain"),
        member_id: 1,
        action: Some(call("mark", &[])),
    });
    assert_eq!(code(&session, update(Update::Modify, foreign)).await, Code::InvalidArgument);
    let plain = table(&entry("indirect", 1, Action(call("choose", &[1]))));
    assert_eq!(code(&session, insert(plain)).await, Code::InvalidArgument);
    let to_group = table(&entry("indirect", 1, GroupId(1)));
    assert_eq!(code(&session, insert(to_group)).await, Code::InvalidArgument);
    let elsewhere = table(&entry("metered", 1, MemberId(1)));
    assert_eq!(code(&session, insert(elsewhere)).await, Code::InvalidArgument);
}

#[tokio::test]
async fn a_group_spreads_flows_as_the_hash_says_and_leaves_out_dead_ports() {
    let (rig, session) = start().await;
    let insert = |entity| update(Update::Insert, entity);
    // Members are placed in the order of their insertion, whatever their ids.
    let members = [(30, 3), (10, 1), (20, 2)];
    session.write(members.map(|(id, value)| insert(member("spreader", id, value))).into()).await.unwrap();
    let live = Some(PORT as u8);
    let all = group(8, 6, &[(10, 1, None), (20, 2, live), (30, 1, None)]);
    let to_group = entry("spread", 1, GroupId(8));
    session.write(vec![insert(all.clone()), insert(table(&to_group))]).await.unwrap();
    let (rig, spread) = chosen(rig, 1).await;
    assert_eq!(spread, expected(&[3, 1, 2, 2]));
    let pattern = Entity::ActionProfileGroup(ActionProfileGroup::default());
    assert_eq!(read_raw(&session, pattern).await, [all]);
    assert_eq!(read_raw(&session, table(&to_group)).await, [table(&to_group)]);

    let dead = group(8, 6, &[(10, 1, Some(NO_PORT)), (20, 1, None), (30, 1, None)]);
    session.write(vec![update(Update::Modify, dead)]).await.unwrap();
    let (rig, spread) = chosen(rig, 1).await;
    assert_eq!(spread, expected(&[3, 2]));
    let empty = group(8, 6, &[(10, 1, Some(NO_PORT))]);
    session.write(vec![update(Update::Modify, empty)]).await.unwrap();
    let (_rig, spread) = chosen(rig, 1).await;
    assert_eq!(spread, [0; 12], "nothing is done");
    assert_eq!(code(&session, update(Update::Delete, group(8, 0, &[]))).await, Code::FailedPrecondition);
    assert_eq!(
        code(&session, update(Update::Delete, member("spreader", 10, 0))).await,
        Code::FailedPrecondition
    );
    session.write(vec![update(Update::Delete, member("spreader", 20, 0))]).await.unwrap();
    let away = vec![update(Update::Delete, table(&to_group)), update(Update::Delete, group(8, 0, &[]))];
    session.write(away).await.unwrap();
    session.write(vec![update(Update::Delete, member("spreader", 10, 0))]).await.unwrap();
}

#[tokio::test]
async fn ports_to_watch_are_read_as_they_were_written_and_have_to_be_ports() {
    let (_rig, session) = start().await;
    let insert = |entity| update(Update::Insert, entity);
    session.write(vec![insert(member("spreader", 1, 0)), insert(member("spreader", 2, 0))]).await.unwrap();
    let watching = |group_id: u32, kinds: [MemberWatch; 2]| {
        let members =
            (1..).zip(kinds).map(|(member_id, kind)| Member { member_id, weight: 1, watch_kind: Some(kind) });
        Entity::ActionProfileGroup(ActionProfileGroup {
            action_profile_id: id("spreader"),
            group_id,
            members: members.collect(),
            max_size: 2,
        })
    };
    let both = watching(1, [MemberWatch::Watch(3), MemberWatch::WatchPort(vec![1, 0])]);
    session.write(vec![insert(both.clone())]).await.unwrap();
    let pattern = Entity::ActionProfileGroup(ActionProfileGroup::default());
    assert_eq!(read_raw(&session, pattern).await, [both]);
    for bad in [MemberWatch::Watch(-1), MemberWatch::Watch(511), MemberWatch::WatchPort(vec![2, 0])] {
        let bad = watching(2, [bad, MemberWatch::Watch(1)]);
        assert_eq!(code(&session, insert(bad.clone())).await, Code::InvalidArgument, "{bad:?}");
    }
}

/// Tests sizes that are numbers of members, which need the annotation `@selector_size_semantics`.
///
/// p4c does not support the annotation yet.
#[tokio::test]
async fn sizes_may_be_of_members_whatever_they_weigh() {
    let info = crate::externs::INFO_TEXT
        .replace("max_group_size: 6", "max_group_size: 6 sum_of_members { max_member_weight: 9 }");
    assert_ne!(info, crate::externs::INFO_TEXT);
    let info = tributary_p4runtime::P4Info::parse(&info).unwrap();
    let (_rig, session) = Rig::running(crate::externs::JSON, &info).await;
    let insert = |entity| update(Update::Insert, entity);
    session.write((1..=3).map(|id| insert(member("spreader", id, 0))).collect()).await.unwrap();
    for (group, expected) in [
        (group(1, 2, &[(1, 9, None), (2, 9, None)]), Code::Ok),
        (group(2, 2, &[(1, 10, None)]), Code::InvalidArgument),
        (group(2, 2, &[(1, 1, None), (2, 1, None), (3, 1, None)]), Code::ResourceExhausted),
    ] {
        assert_eq!(code(&session, insert(group.clone())).await, expected, "{group:?}");
    }
}

#[tokio::test]
async fn groups_that_can_not_be_are_refused() {
    let (_rig, session) = start().await;
    let insert = |entity| update(Update::Insert, entity);
    session.write((1..=3).map(|id| insert(member("spreader", id, 0))).collect()).await.unwrap();
    for (bad, expected) in [
        (group(1, 7, &[(1, 1, None)]), Code::InvalidArgument),
        (group(1, 0, &[(1, 1, None)]), Code::InvalidArgument),
        (group(0, 6, &[(1, 1, None)]), Code::InvalidArgument),
        (group(1, 6, &[(1, 0, None)]), Code::InvalidArgument),
        (group(1, 6, &[(1, -1, None)]), Code::InvalidArgument),
        (group(1, 6, &[(1, 1, None), (1, 1, None)]), Code::InvalidArgument),
        (group(1, 6, &[(9, 1, None)]), Code::NotFound),
        (group(1, 2, &[(1, 2, None), (2, 1, None)]), Code::ResourceExhausted),
    ] {
        assert_eq!(code(&session, insert(bad.clone())).await, expected, "{bad:?}");
    }
    // Twelve members fill the selector.
    session
        .write(vec![insert(group(1, 6, &[(1, 6, None)])), insert(group(2, 6, &[(2, 5, None)]))])
        .await
        .unwrap();
    assert_eq!(code(&session, insert(group(3, 6, &[(3, 2, None)]))).await, Code::ResourceExhausted);
    session.write(vec![insert(group(3, 6, &[(3, 1, None)]))]).await.unwrap();
    assert_eq!(code(&session, insert(group(3, 6, &[]))).await, Code::AlreadyExists);
    assert_eq!(code(&session, update(Update::Modify, group(3, 5, &[]))).await, Code::InvalidArgument);
    assert_eq!(code(&session, update(Update::Modify, group(4, 6, &[]))).await, Code::NotFound);
}

#[tokio::test]
async fn a_set_of_actions_is_a_group_of_its_own_and_goes_with_no_other() {
    let (rig, session) = start().await;
    let insert = |entity| update(Update::Insert, entity);
    let set = |actions: &[(u8, i32, Option<u8>)]| {
        let action = |(value, weight, watch): &(u8, i32, Option<u8>)| message::ActionProfileAction {
            action: Some(call("choose", &[*value])),
            weight: *weight,
            watch_kind: watch.map(|port| WatchKind::WatchPort(vec![port])),
        };
        let action_profile_actions = actions.iter().map(action).collect();
        Set(message::ActionProfileActionSet { action_profile_actions, ..Default::default() })
    };
    let one_shot = entry("spread", 1, set(&[(7, 1, None), (8, 2, Some(PORT as u8)), (7, 1, Some(NO_PORT))]));
    session.write(vec![insert(table(&one_shot))]).await.unwrap();
    let (rig, spread) = chosen(rig, 1).await;
    assert_eq!(spread, expected(&[7, 8, 8]));
    assert_eq!(read_raw(&session, table(&one_shot)).await, [table(&one_shot)]);
    assert_eq!(code(&session, insert(member("spreader", 1, 1))).await, Code::InvalidArgument);
    for bad in [set(&[(7, 0, None)]), set(&[(7, 4, None), (8, 3, None)])] {
        let bad = table(&entry("spread", 2, bad));
        assert_eq!(code(&session, insert(bad)).await, Code::InvalidArgument);
    }
    let no_selector = table(&entry("indirect", 2, set(&[(7, 1, None)])));
    assert_eq!(code(&session, insert(no_selector)).await, Code::InvalidArgument);
    session.write(vec![update(Update::Delete, table(&one_shot))]).await.unwrap();
    session.write(vec![insert(member("spreader", 1, 1))]).await.unwrap();
    assert_eq!(code(&session, insert(table(&one_shot))).await, Code::InvalidArgument);
    let (_rig, spread) = chosen(rig, 1).await;
    assert_eq!(spread, [0; 12]);
}
