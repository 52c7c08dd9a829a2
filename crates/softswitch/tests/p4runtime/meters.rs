//! Meters and registers, with `programs/externs.p4`.

use tributary_p4runtime::Code;
use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::p4_data::Data;
use tributary_p4runtime::p4::v1::table_action::Type::Action;
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, MeterConfig, MeterEntry};

use crate::externs::{Answer, BYTES, Request, ask, call, entry, id, start, table};
use crate::fixture::{code, read_raw, update};

/// Returns rates for `green` green packets, then `yellow` yellow packets, then only red packets.
fn rates(green: i64, yellow: i64) -> MeterConfig {
    MeterConfig { cir: 0, cburst: green, pir: 0, pburst: green + yellow, eburst: 0 }
}

fn cell(index: Option<i64>, config: Option<MeterConfig>) -> MeterEntry {
    let index = index.map(|index| message::Index { index });
    MeterEntry { meter_id: id("packet_meters"), index, config, counter_data: None }
}

fn meter(entry: &MeterEntry) -> Entity {
    Entity::MeterEntry(*entry)
}

#[tokio::test]
async fn packets_go_from_green_to_yellow_to_red() {
    let (mut rig, session) = start().await;
    session.write(vec![update(Update::Modify, meter(&cell(Some(1), Some(rates(2, 1)))))]).await.unwrap();
    let mut colours = Vec::new();
    let request = |meter| Request { meter, ..Request::default() };
    for _ in 0..5 {
        let answer;
        (rig, answer) = ask(rig, request(1)).await;
        colours.push(answer.colour);
    }
    assert_eq!(colours, [0, 0, 1, 2, 2]);
    // Other cells, and cells behind the end, mark packets green.
    let (rig, other) = ask(rig, request(2)).await;
    let (rig, beyond) = ask(rig, request(200)).await;
    assert_eq!((other.colour, beyond.colour), (0, 0));
    session.write(vec![update(Update::Modify, meter(&cell(Some(1), None)))]).await.unwrap();
    assert_eq!(ask(rig, request(1)).await.1.colour, 0);
}

#[tokio::test]
async fn packets_are_counted_by_colour() {
    let (mut rig, session) = start().await;
    session.write(vec![update(Update::Modify, meter(&cell(Some(1), Some(rates(2, 1)))))]).await.unwrap();
    for _ in 0..5 {
        (rig, _) = ask(rig, Request { meter: 1, ..Request::default() }).await;
    }
    let count = |packets: i64| {
        Some(message::CounterData { packet_count: packets, byte_count: packets * BYTES as i64 })
    };
    let colours = |green, yellow, red| {
        let [green, yellow, red] = [green, yellow, red].map(count);
        Some(message::MeterCounterData { green, yellow, red })
    };
    let asking = MeterEntry { counter_data: colours(0, 0, 0), ..cell(Some(1), None) };
    let expected = MeterEntry { counter_data: colours(2, 1, 2), ..cell(Some(1), Some(rates(2, 1))) };
    assert_eq!(read_raw(&session, meter(&asking)).await, [meter(&expected)]);
    // The counts by colour stay when the rates change, and are cleared when an update names them.
    session.write(vec![update(Update::Modify, meter(&cell(Some(1), None)))]).await.unwrap();
    let kept = MeterEntry { config: None, ..expected };
    assert_eq!(read_raw(&session, meter(&asking)).await, [meter(&kept)]);
    session.write(vec![update(Update::Modify, meter(&asking))]).await.unwrap();
    assert_eq!(read_raw(&session, meter(&asking)).await, [meter(&asking)]);
}

/// Tests meters with a single rate. The P4Info names their kind, because p4c has no annotation for
/// it yet.
#[tokio::test]
async fn meters_with_a_single_rate_are_marked_by_it() {
    use crate::control::{Request, ask, id, start_with};
    let single = MeterConfig { cir: 0, cburst: 2, pir: 0, pburst: 2, eburst: 0 };
    let with_excess = MeterConfig { eburst: 1, ..single };
    let unequal = MeterConfig { pburst: 3, ..single };
    for (kind, good, bad, expected) in [
        ("SINGLE_RATE_THREE_COLOR", with_excess, unequal, [0, 0, 1, 2]),
        ("SINGLE_RATE_TWO_COLOR", single, with_excess, [0, 0, 2, 2]),
        ("TWO_RATE_THREE_COLOR", unequal, with_excess, [0, 0, 1, 2]),
    ] {
        let (mut rig, session) = start_with("unit: PACKETS", &format!("unit: PACKETS type: {kind}")).await;
        let cell = |config| {
            let (meter_id, index) = (id("cells"), Some(message::Index { index: 0 }));
            meter(&MeterEntry { meter_id, index, config: Some(config), counter_data: None })
        };
        assert_eq!(code(&session, update(Update::Modify, cell(bad))).await, Code::InvalidArgument, "{kind}");
        session.write(vec![update(Update::Modify, cell(good))]).await.unwrap();
        let mut colours = Vec::new();
        for _ in 0..4 {
            let answer;
            (rig, answer) = ask(rig, Request::default()).await;
            colours.push(answer.cell_colour);
        }
        assert_eq!(colours, expected, "{kind}");
        let asking = MeterEntry {
            meter_id: id("cells"),
            index: Some(message::Index { index: 0 }),
            ..MeterEntry::default()
        };
        assert_eq!(read_raw(&session, meter(&asking)).await, [cell(good)]);
    }
}

#[tokio::test]
async fn cells_are_read_as_they_were_written() {
    let (_rig, session) = start().await;
    let one = cell(Some(1), Some(MeterConfig { cir: 5, cburst: 6, pir: 7, pburst: 8, eburst: 0 }));
    session.write(vec![update(Update::Modify, meter(&one))]).await.unwrap();
    assert_eq!(read_raw(&session, meter(&cell(Some(1), None))).await, [meter(&one)]);
    let all = [None, one.config, None, None];
    let all: Vec<_> = (0..).zip(all).map(|(index, config)| meter(&cell(Some(index), config))).collect();
    assert_eq!(read_raw(&session, meter(&cell(None, None))).await, all);
    assert_eq!(read_raw(&session, meter(&MeterEntry::default())).await, all);
    let everywhere = cell(None, Some(rates(1, 1)));
    session.write(vec![update(Update::Modify, meter(&everywhere))]).await.unwrap();
    assert_eq!(
        read_raw(&session, meter(&cell(Some(3), None))).await,
        [meter(&cell(Some(3), Some(rates(1, 1))))]
    );
}

#[tokio::test]
async fn meters_that_can_not_be_are_refused() {
    let (_rig, session) = start().await;
    let modify = |entry: MeterEntry| update(Update::Modify, meter(&entry));
    let good = rates(1, 1);
    for kind in [Update::Insert, Update::Delete] {
        assert_eq!(
            code(&session, update(kind, meter(&cell(Some(1), Some(good))))).await,
            Code::InvalidArgument
        );
    }
    assert_eq!(code(&session, modify(cell(Some(-1), Some(good)))).await, Code::InvalidArgument);
    assert_eq!(code(&session, modify(cell(Some(4), Some(good)))).await, Code::OutOfRange);
    for bad in [
        MeterConfig { cir: 2, pir: 1, ..good },
        MeterConfig { cburst: -1, ..good },
        MeterConfig { eburst: 1, ..good },
    ] {
        assert_eq!(code(&session, modify(cell(Some(1), Some(bad)))).await, Code::InvalidArgument);
    }
    let green = Some(message::CounterData { packet_count: 1, byte_count: 0 });
    let colours = Some(message::MeterCounterData { green, ..Default::default() });
    let counted = MeterEntry { counter_data: colours, ..cell(Some(1), Some(good)) };
    assert_eq!(code(&session, modify(counted)).await, Code::InvalidArgument);
    assert_eq!(
        code(&session, modify(MeterEntry { meter_id: 77, ..cell(None, None) })).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn the_meter_of_an_entry_comes_and_goes_with_its_updates() {
    let (rig, session) = start().await;
    let plain = entry("metered", 7, Action(call("mark", &[])));
    // The tokens are bytes: one packet is green, the next yellow, then all are red.
    let config = rates(BYTES as i64, BYTES as i64);
    let metered = message::TableEntry { meter_config: Some(config), ..plain.clone() };
    session.write(vec![update(Update::Insert, table(&metered))]).await.unwrap();
    let request = Request { key: 7, ..Request::default() };
    let (rig, first) = ask(rig, request).await;
    let (rig, second) = ask(rig, request).await;
    let (rig, third) = ask(rig, request).await;
    let answer = |entry_colour| Answer { hit: 1, entry_colour, ..Answer::default() };
    assert_eq!([first, second, third], [0, 1, 2].map(answer));

    // A read returns the rates only if the pattern requests them.
    assert_eq!(read_raw(&session, table(&plain)).await, [table(&plain)]);
    let asking = message::TableEntry { meter_config: Some(MeterConfig::default()), ..plain.clone() };
    assert_eq!(read_raw(&session, table(&asking)).await, [table(&metered)]);
    let direct = |config| {
        let table_entry = Some(message::TableEntry { action: None, ..plain.clone() });
        Entity::DirectMeterEntry(message::DirectMeterEntry { table_entry, config, counter_data: None })
    };
    assert_eq!(read_raw(&session, direct(None)).await, [direct(Some(config))]);

    // The rates can be changed separately. An update of the entry without rates removes them.
    let wider = rates(1000, 0);
    session.write(vec![update(Update::Modify, direct(Some(wider)))]).await.unwrap();
    let (rig, green) = ask(rig, request).await;
    assert_eq!(green.entry_colour, 0);
    assert_eq!(read_raw(&session, direct(None)).await, [direct(Some(wider))]);
    session.write(vec![update(Update::Modify, table(&plain))]).await.unwrap();
    assert_eq!(read_raw(&session, direct(None)).await, [direct(None)]);
    assert_eq!(code(&session, update(Update::Insert, direct(None))).await, Code::InvalidArgument);
    session.write(vec![update(Update::Delete, table(&metered))]).await.unwrap();
    assert_eq!(code(&session, update(Update::Modify, direct(None))).await, Code::NotFound);
    assert_eq!(ask(rig, request).await.1, Answer::default());
}

#[tokio::test]
async fn registers_are_read_and_written() {
    let (rig, session) = start().await;
    let register = |name: &str, index: Option<i64>, value: Option<&[u8]>| {
        let data = value.map(|value| message::P4Data { data: Some(Data::Bitstring(value.to_vec())) });
        let index = index.map(|index| message::Index { index });
        Entity::RegisterEntry(message::RegisterEntry { register_id: id(name), index, data })
    };
    let (_rig, _) = ask(rig, Request { key: 1, flow: 2, learned: 0x0304_0506, ..Request::default() }).await;
    let narrow = read_raw(&session, register("narrow_register", None, None)).await;
    assert_eq!(narrow.len(), 8);
    assert_eq!(narrow[2], register("narrow_register", Some(2), Some(&[1, 2])));
    assert_eq!(narrow[3], register("narrow_register", Some(3), Some(&[0])));
    let wide = register("wide_register", Some(1), Some(&[3, 4, 5, 6, 2]));
    assert_eq!(read_raw(&session, register("wide_register", Some(1), None)).await, [wide]);

    let new = register("wide_register", Some(7), Some(&[1, 2, 3, 4, 5, 6, 7, 8, 9]));
    session.write(vec![update(Update::Modify, new.clone())]).await.unwrap();
    assert_eq!(read_raw(&session, register("wide_register", Some(7), None)).await, [new]);
    let all = register("narrow_register", None, Some(&[9]));
    session.write(vec![update(Update::Modify, all)]).await.unwrap();
    let narrow = read_raw(&session, register("narrow_register", Some(0), None)).await;
    assert_eq!(narrow, [register("narrow_register", Some(0), Some(&[9]))]);

    let modify = |entity| update(Update::Modify, entity);
    let too_wide = modify(register("narrow_register", Some(0), Some(&[1, 0, 0])));
    assert_eq!(code(&session, too_wide).await, Code::InvalidArgument);
    let beyond = modify(register("narrow_register", Some(8), Some(&[1])));
    assert_eq!(code(&session, beyond).await, Code::OutOfRange);
    let insert = update(Update::Insert, register("narrow_register", Some(0), Some(&[1])));
    assert_eq!(code(&session, insert).await, Code::InvalidArgument);
}
