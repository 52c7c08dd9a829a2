//! P4 features that the project's program does not use, with `programs/language.p4` as p4c compiled
//! it.
//! The tests compute the results that P4 defines a second time.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use tributary_softswitch::control::{ActionCall, EntryKey, FieldMatch, KeyMatch, TableEntry};
use tributary_softswitch::{Outputs, Pipeline, Switch};

/// Length of the answer in bytes. It leaves in front of the request.
const ANSWER: usize = 29;
/// Length of a request in bytes.
const REQUEST: usize = 19;

static PIPELINE: LazyLock<Arc<Pipeline>> = LazyLock::new(|| Arc::new(test_program!("language")));

/// The fields of a request packet.
#[derive(Debug, Clone, Default)]
struct Request {
    test: u8,
    index: u8,
    a: i16,
    b: i16,
    /// A signed number of 100 bits.
    w: i128,
    flag: bool,
    /// A number of three bits.
    rest: u8,
    /// The bytes behind the request's header.
    behind: Vec<u8>,
}

impl Request {
    fn new(test: u8) -> Self {
        Self { test, ..Self::default() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.test, self.index];
        bytes.extend(self.a.to_be_bytes());
        bytes.extend(self.b.to_be_bytes());
        let tail = (self.w as u128) << 4 | u128::from(self.flag) << 3 | u128::from(self.rest);
        bytes.extend(&tail.to_be_bytes()[3..]);
        bytes.extend(&self.behind);
        bytes
    }

    /// Sends the request, and returns the frame that comes back.
    fn sent(&self) -> Vec<u8> {
        let mut switch = Switch::new(PIPELINE.clone());
        sent(&mut switch, &self.bytes())
    }

    /// Returns the answer, and the bytes that follow it.
    fn answer(&self) -> (Answer, Vec<u8>) {
        let frame = self.sent();
        (Answer::read(&frame), frame[ANSWER..].to_vec())
    }
}

/// The fields of the answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    r0: u16,
    r1: u16,
    r2: u32,
    r3: u64,
    w: u128,
    r4: u8,
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
            r3: number(8, 16) as u64,
            w: number(16, 29) >> 4,
            r4: (number(16, 29) & 15) as u8,
        }
    }
}

fn sent(switch: &mut Switch, frame: &[u8]) -> Vec<u8> {
    let mut outputs = Outputs::new();
    switch.process(1, frame, &mut outputs);
    let (port, frame) = outputs.iter().next().expect("a frame has to leave");
    assert_eq!(port, 2);
    frame.to_vec()
}

/// Returns the lowest 100 bits.
fn low_100(value: i128) -> u128 {
    value as u128 & ((1 << 100) - 1)
}

proptest! {
    #[test]
    fn numbers_with_a_sign_are_computed_as_such(
        a in any::<i16>(), b in any::<i16>(), w in -(1_i128 << 99)..1 << 99, by in 0..120_u8, flag in any::<bool>(),
    ) {
        let request = Request { a, b, w, index: by, flag, ..Request::new(0) };
        let (answer, rest) = request.answer();
        prop_assert_eq!(answer.r0, a.wrapping_add(b) as u16);
        prop_assert_eq!(answer.r1, a.saturating_add(b) as u16);
        prop_assert_eq!(answer.r2, i32::from(a) as u32);
        prop_assert_eq!(answer.w, low_100(w >> by));
        prop_assert_eq!(answer.r4, u8::from(a < b));
        // The packet has fields that begin inside a byte, and a truth value.
        prop_assert_eq!(rest, Request { flag: !flag, ..request }.bytes());
    }

    #[test]
    fn an_index_known_at_run_time_chooses_a_header(index in 0..6_u8, value in any::<i16>()) {
        let items = [0x1111, 0x2222, 0x3333, 0x4444_u16];
        let behind = items.iter().flat_map(|item| item.to_be_bytes()).collect();
        let request = Request { index, a: value, behind, ..Request::new(1) };
        let (answer, rest) = request.answer();
        prop_assert_eq!(answer.r0, items.get(usize::from(index)).copied().unwrap_or(0));
        let mut changed = items;
        if let Some(item) = changed.get_mut(usize::from(index)) {
            *item = value as u16;
        }
        let changed: Vec<u8> = changed.iter().flat_map(|item| item.to_be_bytes()).collect();
        prop_assert_eq!(&rest[REQUEST..], &changed[..]);
    }

    #[test]
    fn random_numbers_stay_within_their_bounds(a in 0..1000_i16, b in 0..1000_i16) {
        let (low, high) = (a.min(b), a.max(b));
        let (answer, _) = Request { a: low, b: high, index: 255, ..Request::new(7) }.answer();
        prop_assert!((low as u32..=high as u32).contains(&answer.r2));
    }
}

#[test]
fn a_header_union_has_one_valid_header_at_most() {
    // A small header is valid; the large header replaces it.
    let (answer, rest) = Request { behind: vec![0x55, 9, 9], ..Request::new(2) }.answer();
    assert_eq!(answer.r0, 0x55);
    assert_eq!(rest[REQUEST..], [0, 0x12, 0x34, 9, 9]);
    let (_, rest) = Request { behind: vec![0, 0xaa, 0xbb, 9], ..Request::new(2) }.answer();
    assert_eq!(rest[REQUEST..], [0x77, 9]);
}

#[test]
fn fields_of_variable_length_are_kept_and_copied() {
    for words in 0..=15_u8 {
        let options: Vec<u8> = [words << 4 | 3].into_iter().chain((0..words).map(|at| at + 100)).collect();
        let behind: Vec<u8> = options.iter().copied().chain([1, 2, 3]).collect();
        let (_, rest) = Request { behind, ..Request::new(3) }.answer();
        let mut copy = options.clone();
        copy[0] |= 15;
        assert_eq!(rest[REQUEST..], [options, copy, vec![1, 2, 3]].concat());
    }
    // The frame ends before its options, so no part of them is a header.
    let (_, rest) = Request { behind: vec![0x50, 1, 2], ..Request::new(3) }.answer();
    assert_eq!(rest[REQUEST..], [0x50, 1, 2]);
}

#[test]
fn more_than_64_bits_are_looked_ahead_at_and_compared() {
    let behind: Vec<u8> = (1..=16).collect();
    let (answer, _) = Request { behind: behind.clone(), ..Request::new(4) }.answer();
    let ahead = u128::from_be_bytes(behind.clone().try_into().unwrap());
    assert_eq!((answer.w, answer.r2), (ahead >> 28, ahead as u32));
    // The parser chooses states by 8 + 100 bits: w = 1 leads to the items, a w that ends with 7f to
    // the small header.
    for (w, items, small) in [(1, 1, 0), (2, 0, 0), (0x7f, 0, 1), (1 << 90 | 0x7f, 0, 1), (1 << 90 | 1, 0, 0)]
    {
        let (answer, _) = Request { w, behind: behind.clone(), ..Request::new(6) }.answer();
        assert_eq!((answer.r0, answer.r1), (items, small), "{w:#x}");
    }
}

#[test]
fn hashes_are_those_of_their_algorithms() {
    let request = Request { a: 0x3132, b: 0x3334, rest: 5, ..Request::new(5) };
    let (answer, _) = request.answer();
    // These are the hash values of the text "1234".
    assert_eq!(answer.r2, 0x9be3_e0a3);
    assert_eq!(answer.r0, 0x14ba);
    assert_eq!(answer.r1, !(0x3132 + 0x3334));
    // The input is three bits in front of 16 bits, padded to whole bytes; the result is modulo 256.
    let bits = (5_u32 << 16 | 0x3132) << 5;
    assert_eq!(answer.r3, 5 + u64::from(bits & 0xff));
    assert_eq!(answer.w, 0x3132 ^ 0x3334 ^ 0xff00);
}

#[test]
fn checksums_cover_payloads_and_leave_out_headers_that_are_not_there() {
    let (answer, _) =
        Request { a: 0x0102, b: 0x0304, behind: vec![0x10, 0x20, 0x30], ..Request::new(12) }.answer();
    assert_eq!(answer.r0, !(0x0102 + 0x0304 + 0x1020 + 0x3000));
    assert_ne!(answer.r2, 0);
}

#[test]
fn a_truncated_frame_keeps_its_beginning() {
    let whole = Request { index: 255, behind: vec![7; 40], ..Request::new(7) };
    let short = Request { index: 60, ..whole.clone() };
    assert_eq!(whole.sent().len(), ANSWER + REQUEST + 40);
    assert_eq!(short.sent().len(), 60);
}

#[test]
fn times_go_on_and_queues_are_empty() {
    let mut switch = Switch::new(PIPELINE.clone());
    let frame = Request::new(8).bytes();
    let [first, second] = [(); 2].map(|()| Answer::read(&sent(&mut switch, &frame)));
    assert!(first.r3 <= second.r3);
    assert_eq!(first.r0, 0);
}

#[test]
fn what_a_program_logs_or_asserts_changes_nothing() {
    for (a, b) in [(1, 2), (3, 3)] {
        let request = Request { a, b, ..Request::new(9) };
        assert_eq!(request.answer().1, request.bytes());
    }
}

#[test]
fn a_mask_in_a_key_leaves_the_other_bits_out() {
    let info = PIPELINE.p4info();
    let id = |name: &str| {
        let action = info.actions.iter().find_map(|action| {
            action.preamble.as_ref().filter(|preamble| preamble.alias == name).map(|preamble| preamble.id)
        });
        action.unwrap()
    };
    let table_id = info.tables[0].preamble.as_ref().unwrap().id;
    let mut switch = Switch::new(PIPELINE.clone());
    let matches = vec![FieldMatch { field_id: 1, key: KeyMatch::Exact(vec![7]) }];
    let action = ActionCall { action_id: id("low_digit"), params: vec![(1, vec![0xab, 0xcd])] };
    let key = EntryKey { table_id, matches, priority: 0 };
    switch.insert(&TableEntry::new(key, action)).unwrap();
    for (index, expected) in [(0x07, 0xabcd), (0xf7, 0xabcd), (0x08, 0)] {
        let frame = sent(&mut switch, &Request { index, ..Request::new(10) }.bytes());
        assert_eq!(Answer::read(&frame).r0, expected, "{index:#x}");
    }
}

#[test]
fn loops_go_round_and_one_without_an_end_is_stopped() {
    let (answer, _) = Request { index: 99, ..Request::new(13) }.answer();
    assert_eq!((answer.r0, answer.r2), (1, 300));
    // A number of eight bits is never above 255.
    let (answer, _) = Request { index: 255, ..Request::new(13) }.answer();
    assert_eq!(answer.r0, 0);
}

#[test]
fn the_length_in_egress_counts_headers_that_ingress_adds() {
    let (answer, _) = Request { behind: vec![0; 10], ..Request::new(11) }.answer();
    assert_eq!(answer.r2 as usize, ANSWER + REQUEST + 10);
}
