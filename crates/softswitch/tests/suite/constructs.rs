//! Constructs that the project's program does not use, with `programs/constructs.p4` as p4c
//! compiled it.
//! The tests compute the results that P4 defines a second time.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use tributary_p4runtime::p4info::MatchType;
use tributary_softswitch::control::{
    ActionCall, CounterValue, EntryAction, EntryKey, EntryRef, FieldMatch, KeyMatch, TableEntry,
};
use tributary_softswitch::{ControlError, Outputs, Pipeline, Switch};

const MASK_96: u128 = (1 << 96) - 1;
/// An IPv6 address, of which the tests also use prefixes.
const ADDRESS: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0042;

/// The fields of a request packet.
#[derive(Debug, Clone, Default)]
struct Request {
    test: u8,
    flags: u8,
    a: u16,
    b: u16,
    c: u32,
    w: u128,
    x: u128,
    address: u128,
    /// The bytes behind the request's header.
    rest: Vec<u8>,
}

impl Request {
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![self.test, self.flags];
        frame.extend(self.a.to_be_bytes());
        frame.extend(self.b.to_be_bytes());
        frame.extend(self.c.to_be_bytes());
        frame.extend(&self.w.to_be_bytes()[4..]);
        frame.extend(&self.x.to_be_bytes()[4..]);
        frame.extend(self.address.to_be_bytes());
        frame.extend(&self.rest);
        frame
    }
}

/// The fields of the answer.
#[derive(Debug, Clone, Default, PartialEq)]
struct Answer {
    r0: u16,
    r1: u16,
    r2: u32,
    r3: u128,
    r4: u128,
    r5: u8,
    r6: u8,
    r7: u8,
    rest: Vec<u8>,
}

impl Answer {
    fn read(frame: &[u8]) -> Self {
        let number = |from: usize, to: usize| {
            frame[from..to].iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
        };
        Self {
            r0: number(0, 2) as u16,
            r1: number(2, 4) as u16,
            r2: number(4, 8) as u32,
            r3: number(8, 20),
            r4: number(20, 32),
            r5: frame[32],
            r6: frame[33] >> 5,
            r7: frame[33] & 31,
            rest: frame[34..].to_vec(),
        }
    }
}

struct Rig {
    switch: Switch,
    outputs: Outputs,
}

impl Rig {
    fn new() -> Self {
        static PIPELINE: LazyLock<Arc<Pipeline>> = LazyLock::new(|| Arc::new(test_program!("constructs")));
        Self { switch: Switch::new(PIPELINE.clone()), outputs: Outputs::new() }
    }

    /// Sends a request to port 3, and returns the answer that leaves by port 4.
    fn ask(&mut self, request: &Request) -> Answer {
        self.outputs.clear();
        self.switch.process(3, &request.frame(), &mut self.outputs);
        let out: Vec<_> = self.outputs.iter().collect();
        let [(4, frame)] = out.as_slice() else { panic!("{out:?}") };
        Answer::read(frame)
    }

    fn entry(
        &self,
        table: &str,
        keys: &[Option<KeyMatch>],
        priority: i32,
        action: &str,
        values: &[u128],
    ) -> TableEntry {
        let info = self.switch.pipeline().info();
        let table = info.table(table).unwrap();
        let action = info.action(action).unwrap();
        let matches = table
            .key
            .iter()
            .zip(keys)
            .filter_map(|(field, key)| Some(FieldMatch { field_id: field.id, key: key.clone()? }));
        let ids = action.parameters.iter().map(|parameter| parameter.id);
        let params = ids.zip(values.iter().map(|value| bytes(*value))).collect();
        let key = EntryKey { table_id: table.name.id, matches: matches.collect(), priority };
        let action = ActionCall { action_id: action.name.id, params };
        TableEntry { metadata: vec![1, 2, 3], ..TableEntry::new(key, action) }
    }

    fn insert(
        &mut self,
        table: &str,
        keys: &[Option<KeyMatch>],
        priority: i32,
        action: &str,
        values: &[u128],
    ) -> TableEntry {
        let entry = self.entry(table, keys, priority, action, values);
        self.switch.insert(&entry).unwrap();
        entry
    }
}

/// Returns a value as a canonical byte string.
fn bytes(value: u128) -> Vec<u8> {
    tributary_p4runtime::canonical::encode(value)
}

fn exact(value: u128) -> Option<KeyMatch> {
    Some(KeyMatch::Exact(bytes(value)))
}

fn ternary(value: u128, mask: u128) -> Option<KeyMatch> {
    Some(KeyMatch::Ternary { value: bytes(value), mask: bytes(mask) })
}

fn prefix(value: u128, prefix_len: u32) -> Option<KeyMatch> {
    Some(KeyMatch::Lpm { value: bytes(value), prefix_len })
}

/// Generates numbers, which include the ends of the range.
fn word() -> impl Strategy<Value = u16> {
    prop_oneof![any::<u16>(), Just(0), Just(1), Just(0x7fff), Just(0x8000), Just(0xffff)]
}

fn wide() -> impl Strategy<Value = u128> {
    prop_oneof![
        any::<u128>().prop_map(|w| w & MASK_96),
        Just(0),
        Just(MASK_96),
        any::<u64>().prop_map(u128::from)
    ]
}

prop_compose! {
    fn request(test: u8)(a in word(), b in word(), c in any::<u32>(), w in wide(), x in wide()) -> Request {
        Request { test, a, b, c, w, x, ..Request::default() }
    }
}

proptest! {
    #[test]
    fn narrow_arithmetic_wraps_saturates_and_slices(request in request(1)) {
        let Request { a, b, c, .. } = request;
        let shifted = if a as u8 >= 96 { 0 } else { (u128::from(c) << (a as u8)) & MASK_96 };
        let expected = Answer {
            r0: a.wrapping_sub(b),
            r1: a.saturating_add(b),
            r2: (u32::from(a) << 16 | u32::from(b)).wrapping_add(1),
            r3: u128::from(c.wrapping_mul(3)),
            r4: shifted,
            r5: (a >> 4) as u8,
            r6: (!a >> 2) as u8 & 7,
            r7: a.saturating_sub(b) as u8 & 31,
            rest: vec![],
        };
        prop_assert_eq!(Rig::new().ask(&request), expected);
    }

    #[test]
    fn wide_arithmetic_wraps_and_slices(request in request(2)) {
        let Request { a, w, x, .. } = request;
        let by = u32::from(a as u8);
        let expected = Answer {
            r0: (w >> 24) as u16,
            r1: if by < 128 { (w >> by) as u16 } else { 0 },
            r2: ((!w ^ x) as u32 | 1).wrapping_add(1),
            r3: w.wrapping_add(x) & MASK_96,
            r4: w.wrapping_sub(x) & MASK_96,
            ..Answer::default()
        };
        prop_assert_eq!(Rig::new().ask(&request), expected);
    }

    #[test]
    fn comparisons_know_signs_and_widths(mut request in request(3), same in any::<bool>()) {
        if same {
            request.x = request.w;
        }
        let Request { a, b, c, w, x, .. } = request;
        let expected = Answer {
            r0: if a.cast_signed() < b.cast_signed() { 1 } else { 2 },
            r1: (a.cast_signed() >> 3).cast_unsigned(),
            r2: if w < x { c } else { 0 }.wrapping_add(1),
            r3: x,
            r5: u8::from(w >= x && a != b),
            ..Answer::default()
        };
        prop_assert_eq!(Rig::new().ask(&request), expected);
    }
}

#[test]
fn registers_keep_what_was_written_and_have_an_end() {
    let mut rig = Rig::new();
    let mut ask = |a, w| {
        let answer = rig.ask(&Request { test: 4, a, w, ..Request::default() });
        (answer.r3, answer.r7)
    };
    assert_eq!(ask(1, 77), (0, 0));
    assert_eq!(ask(3, MASK_96), (0, 0));
    assert_eq!(ask(1, 78), (77, 3));
    assert_eq!(ask(3, 0), (MASK_96, 3));
    // A sum in 5 bits wraps around.
    for n in 2..20 {
        assert_eq!(ask(1, 0).1, (n * 3 % 32) as u8);
    }
    // A cell behind the end cannot be read or written.
    assert_eq!(ask(4, 5), (0, 0));
    assert_eq!(ask(0xffff, 5), (0, 0));
    assert_eq!(ask(4, 5), (0, 0));
}

#[test]
fn stacks_are_parsed_pushed_popped_and_copied() {
    let mut rig = Rig::new();
    // The bytes are three items, the last of which is marked as last; two bytes that the parser
    // skips; and payload.
    let rest = vec![0x81, 0x82, 0x03, 0xaa, 0xbb, 0x11, 0x22];
    let mut ask = |test| rig.ask(&Request { test, flags: 0x80, rest: rest.clone(), ..Request::default() });
    assert_eq!(ask(0).rest, [0x81, 0x82, 0x03, 0x11, 0x22]);
    let pushed = ask(5);
    assert_eq!(pushed.rest, [0x80 | 99, 0x81, 0x82, 0x11, 0x22]);
    assert_eq!(pushed.r5, 0x81, "what the parser saw ahead");
    assert_eq!(ask(6).rest, [0x82, 0x03, 0x11, 0x22]);
    assert_eq!(ask(7).rest, [0x81, 0x82, 0x81, 0x11, 0x22]);
}

#[test]
fn the_parser_says_what_is_wrong() {
    let mut rig = Rig::new();
    let mut marked = |rest: &[u8], test| {
        let request = Request { test, flags: 0x80, rest: rest.to_vec(), ..Request::default() };
        rig.ask(&request).r2 == 0xbad + 1
    };
    assert!(!marked(&[0x01, 0, 0], 0));
    assert!(marked(&[0x01, 0], 0), "too short to leave out two bytes");
    assert!(marked(&[0x81], 0), "too short for the second item");
    assert!(marked(&[], 0), "nothing to look ahead at");
    assert!(marked(&[0x81, 0x82, 0x83, 0x04, 0, 0], 0), "more items than the stack holds");
    assert!(marked(&[0x01, 0, 0], 0xee), "not what `verify` wants");
}

#[test]
fn exit_leaves_out_the_rest_of_ingress() {
    let answer = Rig::new().ask(&Request { test: 8, ..Request::default() });
    assert_eq!((answer.r0, answer.r2), (1, 0));
}

#[test]
fn the_longest_prefix_wins() {
    let mut rig = Rig::new();
    rig.insert("prefixes", &[prefix(0x2001 << 112, 16)], 0, "answer", &[16]);
    rig.insert("prefixes", &[prefix(0x2001_0db8 << 96, 32)], 0, "answer_wide", &[MASK_96, 32]);
    let full = rig.insert("prefixes", &[prefix(ADDRESS, 128)], 0, "answer", &[128]);
    let mut ask = |address| {
        let answer = rig.ask(&Request { test: 10, address, ..Request::default() });
        (answer.r0, answer.r1, answer.r3, answer.r5)
    };
    assert_eq!(ask(ADDRESS), (128, 1, 0, 0));
    assert_eq!(ask(ADDRESS + 1), (0, 1, MASK_96, 32));
    assert_eq!(ask(0x2001_0db9 << 96), (16, 1, 0, 0));
    assert_eq!(ask(0), (0, 2, 0, 0), "a miss");
    let (entry, resources) = rig.switch.entry(&full.key).unwrap();
    assert_eq!(entry, full, "what was written, and the controller's note");
    assert_eq!(resources.counter, Some(CounterValue { packets: 1, bytes: 50 }));
    let seven = CounterValue { packets: 7, bytes: 0 };
    rig.switch.set_direct_counter(&EntryRef::Entry(full.key.clone()), Some(seven)).unwrap();
    rig.switch.delete(&full.key).unwrap();
    assert_eq!(rig.ask(&Request { test: 10, address: ADDRESS, ..Request::default() }).r5, 32);
    assert!(matches!(rig.switch.entry(&full.key), Err(ControlError::NotFound(_))));
}

#[test]
fn the_highest_priority_wins() {
    let mut rig = Rig::new();
    rig.insert("ternaries", &[ternary(0x10, 0xf0), None], 10, "answer", &[1]);
    let better = rig.insert("ternaries", &[None, ternary(0x42, 0xff)], 20, "answer", &[2]);
    rig.insert("ternaries", &[ternary(0x12, 0xffff), ternary(ADDRESS, u128::MAX)], 5, "answer", &[3]);
    let mut ask = |a, address| rig.ask(&Request { test: 11, a, address, ..Request::default() }).r0;
    assert_eq!(ask(0x12, 0), 1);
    assert_eq!(ask(0x12, ADDRESS), 2);
    assert_eq!(ask(0x21, ADDRESS), 2);
    assert_eq!(ask(0x21, 0), 0, "a miss does nothing");
    rig.switch.delete(&better.key).unwrap();
    assert_eq!(rig.ask(&Request { test: 11, a: 0x12, address: ADDRESS, ..Request::default() }).r0, 1);
    // An equal match with another priority is another entry.
    rig.insert("ternaries", &[ternary(0x10, 0xf0), None], 11, "answer", &[4]);
    assert_eq!(rig.ask(&Request { test: 11, a: 0x12, ..Request::default() }).r0, 4);
}

#[test]
fn ranges_and_optional_fields_match() {
    let mut rig = Rig::new();
    let range = |low, high| Some(KeyMatch::Range { low: bytes(low), high: bytes(high) });
    let optional = |value| Some(KeyMatch::Optional(bytes(value)));
    rig.insert("ranges", &[range(10, 20), None, exact(12)], 1, "answer", &[1]);
    rig.insert("ranges", &[range(15, 0xffff), optional(0), exact(12)], 2, "answer_wide", &[9, 9]);
    let mut ask = |a, b| {
        let answer = rig.ask(&Request { test: 12, a, b, ..Request::default() });
        (answer.r0, answer.r1, answer.r3)
    };
    assert_eq!(ask(9, 5), (0, 3, 0), "a miss, and no default action");
    assert_eq!(ask(10, 5), (1, 1, 0));
    assert_eq!(ask(20, 0), (0, 2, 9));
    assert_eq!(ask(20, 1), (1, 1, 0));
    assert_eq!(ask(21, 1), (0, 3, 0));
    assert_eq!(ask(0xffff, 0), (0, 2, 9));
}

#[test]
fn long_keys_match_as_a_whole() {
    let mut rig = Rig::new();
    rig.insert("long_keys", &[exact(ADDRESS), exact(5), exact(1)], 0, "answer", &[1]);
    rig.insert("long_keys", &[exact(ADDRESS), exact(1), exact(5)], 0, "answer", &[2]);
    let mut ask =
        |address, a, flags| rig.ask(&Request { test: 13, address, a, flags, ..Request::default() }).r0;
    assert_eq!(ask(ADDRESS, 5, 1), 1);
    assert_eq!(ask(ADDRESS, 1, 5), 2);
    assert_eq!(ask(ADDRESS ^ 1 << 127, 1, 5), 0);
    assert_eq!(ask(ADDRESS, 5, 5), 0);
}

#[test]
fn entries_that_make_no_sense_are_refused_by_field() {
    let mut rig = Rig::new();
    let range = |low, high| Some(KeyMatch::Range { low: bytes(low), high: bytes(high) });
    let cases = [
        ("prefixes", vec![prefix(1, 16)], 0, "behind its prefix"),
        ("prefixes", vec![prefix(0, 0)], 0, "a prefix of 0 of 128 bits"),
        ("prefixes", vec![prefix(0, 129)], 0, "a prefix of 129 of 128 bits"),
        ("prefixes", vec![prefix(0x2001 << 112, 16)], 1, "have no priority"),
        ("prefixes", vec![exact(1)], 0, "of another kind"),
        ("ternaries", vec![ternary(1, 2), None], 1, "where its mask has none"),
        ("ternaries", vec![ternary(0, 0), None], 1, "an empty mask"),
        ("ternaries", vec![ternary(1, 1), None], 0, "need a priority"),
        ("ternaries", vec![ternary(0x1_0000, 0x1_0000), None], 1, "does not fit"),
        ("ranges", vec![range(2, 1), None, exact(12)], 1, "low end is above"),
        ("ranges", vec![range(0, 0xffff), None, exact(12)], 1, "a range of everything"),
        ("ranges", vec![range(0, 1), None, None], 1, "test is missing"),
        ("long_keys", vec![exact(1), exact(2)], 0, "flags is missing"),
        ("long_keys", vec![exact(1), exact(2), Some(KeyMatch::Exact(vec![]))], 0, "an empty byte string"),
    ];
    for (table, keys, priority, expected) in cases {
        let entry = rig.entry(table, &keys, priority, "answer", &[1]);
        let error = rig.switch.insert(&entry).unwrap_err();
        assert!(matches!(error, ControlError::InvalidArgument { .. }), "{table}: {error:?}");
        assert!(error.to_string().contains(expected), "{table}: {error}");
    }
}

#[test]
fn actions_stay_where_the_program_allows_them() {
    let mut rig = Rig::new();
    let entry = rig.entry("ternaries", &[ternary(1, 1), None], 1, "NoAction", &[]);
    let error = rig.switch.insert(&entry).unwrap_err();
    assert!(error.to_string().contains("only for its default action"), "{error}");
    let entry = rig.entry("ternaries", &[ternary(1, 1), None], 1, "answer_wide", &[1, 1]);
    assert!(matches!(rig.switch.insert(&entry), Err(ControlError::InvalidArgument { .. })));
}

#[test]
fn entries_of_the_program_itself_cannot_be_changed() {
    let mut rig = Rig::new();
    let entry = rig.entry("arithmetic", &[exact(99)], 0, "stop", &[]);
    let known = rig.entry("arithmetic", &[exact(8)], 0, "stop", &[]);
    let table = entry.key.table_id;
    assert!(matches!(rig.switch.insert(&entry), Err(ControlError::Constant(_))));
    assert!(matches!(rig.switch.modify(&known), Err(ControlError::Constant(_))));
    assert!(matches!(rig.switch.delete(&known.key), Err(ControlError::Constant(_))));
    let EntryAction::Call(action) = &known.action else { panic!("{known:?}") };
    assert!(matches!(rig.switch.set_default(table, Some(action)), Err(ControlError::Constant(_))));
    assert_eq!(rig.switch.entries(table).unwrap().len(), 8);
}

#[test]
fn what_is_read_is_what_was_written() {
    let mut rig = Rig::new();
    let written = [
        rig.insert("ternaries", &[ternary(0x10, 0xf0), None], 10, "answer", &[1]),
        rig.insert("ternaries", &[None, ternary(ADDRESS, u128::MAX)], 3, "answer", &[0xffff]),
        rig.insert("ternaries", &[None, None], 1, "answer", &[0]),
    ];
    let table = written[0].key.table_id;
    let mut read: Vec<_> = rig.switch.entries(table).unwrap().into_iter().map(|(entry, _)| entry).collect();
    read.sort_by_key(|entry| -entry.key.priority);
    assert_eq!(read, written);
    let kinds = |table: &str| {
        let info = rig.switch.pipeline().info();
        info.table(table).unwrap().key.iter().map(|field| field.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("ranges"), [MatchType::Range, MatchType::Optional, MatchType::Exact]);
}
