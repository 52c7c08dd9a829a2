//! Tests of identifiers, of slice numbers, of totals and of the job's secret.

use std::cmp::Ordering;

use tributary_wire::{JobId, JobSecret, NodeId, Rank, Seq, Tag, Totals};

#[test]
fn zero_names_no_job_and_no_node() {
    assert_eq!(JobId::new(0), None);
    assert_eq!(NodeId::new(0), None);
    assert_eq!(JobId::new(1).unwrap().get(), 1);
    assert_eq!(NodeId::new(u16::MAX).unwrap().get(), u16::MAX);
    assert_eq!(Rank::new(3).get(), 3);
    assert_eq!(Rank::ALL.get(), 0xffff);
}

#[test]
fn messages_to_users_have_the_numbers() {
    assert_eq!(JobId::new(12).unwrap().to_string(), "12");
    assert_eq!(NodeId::new(1001).unwrap().to_string(), "1001");
    assert_eq!([Rank::new(0), Rank::ALL].map(|rank| rank.to_string()), ["0", "all"]);
    assert_eq!(Seq(4_000_000_000).to_string(), "4000000000");
}

/// Section 3.2 of the specification: a is newer than b if 0 < (a − b) mod 2^32 < 2^31.
#[test]
fn slice_numbers_compare_as_serial_numbers() {
    const HALF: u32 = 1 << 31;
    for base in [0, 1, HALF - 1, HALF, u32::MAX].map(Seq) {
        let ahead = [(0, Ordering::Equal), (1, Ordering::Greater), (HALF - 1, Ordering::Greater)];
        let behind = [(HALF, Ordering::Less), (HALF + 1, Ordering::Less), (u32::MAX, Ordering::Less)];
        for (distance, order) in ahead.into_iter().chain(behind) {
            let other = base.plus(distance);
            assert_eq!(other.compare(base), order, "{base} plus {distance}");
            assert_eq!(other.is_newer_than(base), order == Ordering::Greater, "{base} plus {distance}");
            assert_eq!(other.minus(distance), base);
        }
    }
    assert_eq!(Seq(2).distance(Seq(5)), -3);
    assert_eq!(Seq(1).distance(Seq(u32::MAX)), 2);
}

#[test]
fn totals_are_added_modulo_2_to_the_32() {
    let mut totals = Totals { contributors: 1, weight: 10, tag: Tag { high: 100, low: 1_000 } };
    totals.add(Totals { contributors: 2, weight: 20, tag: Tag { high: 200, low: 2_000 } });
    assert_eq!(totals, Totals { contributors: 3, weight: 30, tag: Tag { high: 300, low: 3_000 } });

    let most =
        Totals { contributors: u32::MAX, weight: u32::MAX, tag: Tag { high: u32::MAX, low: u32::MAX } };
    totals.add(most);
    assert_eq!(totals, Totals { contributors: 2, weight: 29, tag: Tag { high: 299, low: 2_999 } });
}

#[test]
fn logs_do_not_contain_the_secret() {
    let secret = JobSecret::new(std::array::from_fn(|at| 100 + at as u8));
    assert_eq!(secret.bytes()[..3], [100, 101, 102]);
    assert_eq!(secret.bytes()[31], 131);
    assert_eq!(format!("{secret:?}"), "JobSecret(…)");
}
