//! Measures the cost of tags, by the number of members.
//! The costs are the nanoseconds to make the tag of one slice, and to verify a sum. With `--json` it prints a list for
//! programs.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    reason = "the benchmark uses a part of this module"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tributary_wire::{JobId, JobSecret, Operator, Rank, Seq, SliceWidth, Tag, ValuesView, values};

// Tags and bounds are private.
#[path = "../src/numbers"]
mod numbers {
    pub mod bound;
    pub mod data;
    pub mod fixed_point;
    pub mod lanes;
    mod prefetch;
    pub mod vectors;
    pub use data::{Collective, OwnedPart};
}
#[path = "../src/tags/mod.rs"]
mod tags;
use tags::{Agreed, Meaning, Membership, Share, Subject};

/// The number of measurements of each operation; `ROUND` is the duration of each.
const ROUNDS: usize = 21;
const ROUND: Duration = Duration::from_millis(10);

/// Returns the median time over all rounds, in nanoseconds.
fn nanoseconds(mut slice: impl FnMut()) -> f64 {
    let mut rounds = [(); ROUNDS].map(|()| {
        let (mut slices, begin) = (0_u32, Instant::now());
        while begin.elapsed() < ROUND {
            (0..64).for_each(|_| slice());
            slices += 64;
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(slices)
    });
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() {
    let Some(job) = JobId::new(1) else { return };
    let secret = JobSecret::new([7; JobSecret::BYTES]);
    let subject = Subject { operation: 1, first: Seq(1), name: 9, len: 1 << 20, element_type: 1, root: None };
    let numbers: [i32; SliceWidth::ETHERNET.values()] =
        std::array::from_fn(|lane| (lane as i32 - 128) * 7_654_321);
    let mut bytes = [0; SliceWidth::ETHERNET.bytes()];
    values::write(&numbers, &mut bytes);
    let json = std::env::args().any(|argument| argument == "--json");
    let mut rows = Vec::new();
    if !json {
        println!("{:>8} {:>10} {:>10}", "members", "make, ns", "verify, ns");
    }
    for count in [2, 8, 64, 512] {
        let ranks: Vec<_> = (0..count).map(Rank::new).collect();
        let members = Membership::new((&secret, SliceWidth::ETHERNET), job, &ranks);
        let (subject, operator) = (members.digests(subject), Operator::Sum);
        // The first member owns all bounds.
        let lanes = [5 << 16, 9 << 16, 0, 5 << 16, 9 << 16, 0];
        let weight = u32::from(count);
        let meaning = || Meaning {
            subject,
            operator,
            seq: Seq(7),
            scale: members.digest(&Agreed { lanes: black_box(&lanes), first_lane: 0, weight }),
        };
        // All members except the first contribute zeros.
        let share = |rank| Share { rank, weight: 1 };
        let first = share(Rank::new(0));
        let make = nanoseconds(|| {
            black_box(members.tag(&meaning(), first, &lanes, black_box(&numbers)));
        });
        let zeros = [0; SliceWidth::ETHERNET.values()];
        let others = ranks.iter().skip(1).map(|rank| members.tag(&meaning(), share(*rank), &lanes, &zeros).0);
        let (Tag { high, low }, _) = members.tag(&meaning(), first, &lanes, &numbers);
        let add = |sum: Tag, tag: Tag| Tag { high: sum.high + tag.high, low: sum.low + tag.low };
        let sum = black_box((u32::from(count), others.fold(Tag { high, low }, add)));
        let mut is_right = false;
        let verify = nanoseconds(|| {
            let pads = members.pad_sum(&meaning());
            is_right = pads
                .is_some_and(|pads| members.verifies(&pads, black_box(sum), &lanes, ValuesView::new(&bytes)));
        });
        assert!(is_right);
        match json {
            false => println!("{count:>8} {make:>10.0} {verify:>10.0}"),
            true => rows.push(format!(
                r#"{{"members": {count}, "make_nanoseconds": {make}, "verify_nanoseconds": {verify}}}"#
            )),
        }
    }
    if json {
        println!("[{}]", rows.join(", "));
    }
}
