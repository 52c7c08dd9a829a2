use crate::numbers::Collective;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_wire::{Seq, Totals, values};

use super::*;

const WIDTH: SliceWidth = SliceWidth::ETHERNET;

/// The identity of a slice in the view of one member.
#[derive(Debug, Clone, Copy)]
struct Said {
    subject: Subject,
    operator: Operator,
    seq: Seq,
    scale: u64,
}

/// Lanes of bounds that rank 0 owns.
const LANES: [i32; 6] = [5 << 16, 9 << 16, 2 << 16, 7 << 16, 8 << 16, 0];
const SUBJECT: Subject =
    Subject { operation: 7, first: Seq(70), name: 9, len: 1000, element_type: 1, root: None };
const SAID: Said = Said { subject: SUBJECT, operator: Operator::Sum, seq: Seq(77), scale: 53 };

impl Said {
    fn lanes(self) -> &'static [i32] {
        match self.operator {
            Operator::Sum => &LANES,
            Operator::Max | Operator::Relay => &[],
        }
    }

    fn by(self, members: &Membership) -> Meaning {
        let Self { subject, operator, seq, scale } = self;
        Meaning { subject: members.digests(subject), operator, seq, scale }
    }
}

fn secret() -> JobSecret {
    JobSecret::new([7; JobSecret::BYTES])
}

fn job(number: u16) -> JobId {
    JobId::new(number).unwrap()
}

fn ranks(count: u16) -> Vec<Rank> {
    (0..count).map(Rank::new).collect()
}

fn membership(count: u16) -> Membership {
    Membership::new((&secret(), WIDTH), job(1), &ranks(count))
}

/// A sum of contributions, as switches compute it.
#[derive(Clone)]
struct Sum {
    values: [i32; WIDTH.values()],
    totals: Totals,
}

/// Makes one member's contribution, with values small enough that the sum of all members does not
/// overflow.
fn contribution(members: &Membership, said: Said, rank: u16, random: &mut ChaCha8Rng) -> Sum {
    let most = i32::MAX / members.row.len() as i32;
    let values = std::array::from_fn(|_| random.random_range(-most..=most));
    let share = Share { rank: Rank::new(rank), weight: 1 + u32::from(rank) };
    let (tag, _) = members.tag(&said.by(members), share, said.lanes(), &values);
    Sum { values, totals: Totals { contributors: 1, weight: share.weight, tag } }
}

impl Sum {
    fn of(contributions: impl IntoIterator<Item = Self>) -> Self {
        let add = |mut sum: Self, other: Self| {
            sum.values.iter_mut().zip(other.values).for_each(|(to, from)| *to = to.wrapping_add(from));
            sum.totals.add(other.totals);
            sum
        };
        contributions.into_iter().reduce(add).unwrap()
    }

    fn is_believed(&self, members: &Membership, said: Said) -> bool {
        let mut bytes = [0; WIDTH.bytes()];
        values::write(&self.values, &mut bytes);
        let totals = (self.totals.weight, self.totals.tag);
        let pads = members.pad_sum(&said.by(members)).unwrap();
        members.verifies(&pads, totals, said.lanes(), ValuesView::new(&bytes))
    }
}

fn right_sum(members: &Membership, seed: u64) -> Sum {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    Sum::of((0..members.row.len() as u16).map(|rank| contribution(members, SAID, rank, &mut random)))
}

#[test]
fn a_right_sum_is_believed_with_any_number_of_members() {
    for count in [1, 2, 3, 8, 9, 64, 300] {
        let members = membership(count);
        assert!(right_sum(&members, count.into()).is_believed(&members, SAID), "{count} members");
    }
}

#[test]
fn what_members_do_not_give_alike_is_noticed() {
    let members = membership(3);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut sum = |said: [Said; 3], ranks: [u16; 3]| {
        Sum::of(
            said.into_iter().zip(ranks).map(|(said, rank)| contribution(&members, said, rank, &mut random)),
        )
    };
    assert!(sum([SAID; 3], [0, 1, 2]).is_believed(&members, SAID));
    assert!(!sum([SAID; 3], [0, 1, 1]).is_believed(&members, SAID), "one twice, another not at all");
    let of = |subject| Said { subject, ..SAID };
    let others = [
        Said { seq: Seq(78), ..SAID },
        of(Subject { operation: 8, ..SUBJECT }),
        of(Subject { operation: 7 + (1 << 32), ..SUBJECT }),
        of(Subject { first: Seq(71), ..SUBJECT }),
        of(Subject { name: name_hash("layer 2", &Collective::AllReduce), ..SUBJECT }),
        of(Subject { len: 1001, ..SUBJECT }),
        of(Subject { len: 1000 + (1 << 32), ..SUBJECT }),
        of(Subject { element_type: 2, ..SUBJECT }),
        Said { scale: 54, ..SAID },
        Said { operator: Operator::Max, ..SAID },
    ];
    for other in others {
        assert!(!sum([SAID, other, SAID], [0, 1, 2]).is_believed(&members, SAID), "{other:?}");
        assert!(!sum([SAID; 3], [0, 1, 2]).is_believed(&members, other), "{other:?} is awaited");
    }
}

/// Pads are differences that cancel out.
/// Only the pads of all members, each once, have the sum that a receiver expects.
#[test]
fn no_choice_of_contributions_but_each_once_is_believed() {
    let members = membership(4);
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let each: Vec<_> = (0..4).map(|rank| contribution(&members, SAID, rank, &mut random)).collect();
    let choices = (0..3_usize.pow(4)).map(|number| [27, 9, 3, 1].map(|place| number / place % 3));
    for times in choices.filter(|times| times.iter().any(|times| *times > 0)) {
        let chosen = each.iter().zip(times).flat_map(|(one, times)| std::iter::repeat_n(one.clone(), times));
        assert_eq!(Sum::of(chosen).is_believed(&members, SAID), times == [1; 4], "{times:?} times");
    }
}

#[test]
fn a_sum_of_another_generation_of_other_members_or_with_another_secret_is_not_believed() {
    let sum = right_sum(&membership(4), 2);
    let others = [
        Membership::new((&secret(), WIDTH), job(2), &ranks(4)),
        Membership::new((&secret(), WIDTH), job(1), &ranks(5)[1..]),
        membership(3),
        membership(4).next(job(2), &ranks(4)),
        membership(4).next(job(1), &ranks(2)),
        Membership::new((&JobSecret::new([8; JobSecret::BYTES]), WIDTH), job(1), &ranks(4)),
    ];
    for other in others {
        assert!(!sum.is_believed(&other, SAID), "{other:?}");
    }
}

#[test]
fn each_bound_is_confirmed_by_its_owner_as_long_as_that_is_a_member() {
    let members = membership(3);
    let sum = |lanes: &[[i32; 3]; 3]| {
        let mut totals = Totals::default();
        for (rank, lanes) in (0..).zip(lanes) {
            let share = Share { rank: Rank::new(rank), weight: 1 };
            let (tag, _) = members.tag(&SAID.by(&members), share, lanes, &[1; WIDTH.values()]);
            totals.add(Totals { contributors: 1, weight: 1, tag });
        }
        totals
    };
    let mut bytes = [0; WIDTH.bytes()];
    values::write(&[3; WIDTH.values()], &mut bytes);
    let verifies = |totals: Totals, lanes: [i32; 3]| {
        let pads = members.pad_sum(&SAID.by(&members)).unwrap();
        members.verifies(&pads, (3, totals.tag), &lanes, ValuesView::new(&bytes))
    };
    let by = |rank: i32| [4 << 16 | rank, 0, 0];
    assert!(verifies(sum(&[by(1); 3]), by(1)));
    assert!(verifies(sum(&[by(7); 3]), by(7)), "its owner has left");
    assert!(!verifies(sum(&[by(7); 3]), by(1)), "none has confirmed it");
    assert!(!verifies(sum(&[by(0), by(1), by(1)]), by(1)), "two have");
    let digest = |lanes: &[i32], first_lane, weight| members.digest(&Agreed { lanes, first_lane, weight });
    let digests = [
        digest(&by(1), 0, 3),
        digest(&by(2), 0, 3),
        digest(&by(1), 1, 3),
        digest(&by(1), 0, 4),
        digest(&LANES, 0, 3),
    ];
    assert!(digests.iter().enumerate().all(|(at, one)| !digests[..at].contains(one)), "{digests:?}");
}

#[test]
fn the_tag_of_a_max_slice_covers_the_weight_and_not_the_values() {
    let members = membership(3);
    let said = Said { operator: Operator::Max, ..SAID };
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut sum = Sum::of((0..3).map(|rank| contribution(&members, said, rank, &mut random)));
    assert!(sum.is_believed(&members, said));
    sum.values[9] ^= 5;
    assert!(sum.is_believed(&members, said));
    sum.totals.weight -= 1;
    assert!(!sum.is_believed(&members, said));
}

#[test]
fn names_are_told_apart() {
    let names = ["", "\0", "a", "a\0", "b", "layer 1", "layer 2", "1 layer", "layer 10"];
    let hashes: std::collections::BTreeSet<_> =
        names.iter().map(|name| name_hash(name, &Collective::AllReduce)).collect();
    assert_eq!(hashes.len(), names.len());
}

/// A function that changes a sum. It also gets the sum of another slice.
type Tampering = fn(&mut Sum, &Sum, &Membership, &mut ChaCha8Rng);

/// Manipulations of a sum by an attacker who knows everything except the secret.
const TAMPERINGS: [(&str, Tampering); 9] = [
    ("one bit", |sum, _, _, random| {
        sum.values[random.random_range(0..WIDTH.values())] ^= 1 << random.random_range(0..32);
    }),
    ("two top bits", |sum, _, _, random| {
        let [a, b] = two_lanes(random);
        sum.values[a] ^= i32::MIN;
        sum.values[b] ^= i32::MIN;
    }),
    ("two values exchanged", |sum, _, _, random| {
        let [a, b] = two_lanes(random);
        sum.values.swap(a, b);
        sum.values[a] = sum.values[a].wrapping_add(i32::from(sum.values[a] == sum.values[b]));
    }),
    ("+x here, -x there", |sum, _, _, random| {
        let ([a, b], x) = (two_lanes(random), random.random_range(1..i32::MAX));
        sum.values[a] = sum.values[a].wrapping_add(x);
        sum.values[b] = sum.values[b].wrapping_sub(x);
    }),
    ("what one digit counts to, added", |sum, _, members, random| {
        let value = &mut sum.values[random.random_range(0..WIDTH.values())];
        *value = value.wrapping_add(members.keys.field.join(Tag { high: 1, low: 0 }) as i32);
    }),
    ("a bit of the tag", |sum, _, _, random| {
        let digits = [&mut sum.totals.tag.high, &mut sum.totals.tag.low];
        *digits[random.random_range(0..2)] ^= 1 << random.random_range(0..32);
    }),
    ("any tag", |sum, _, _, random| {
        sum.values[0] ^= 1;
        sum.totals.tag = Tag { high: random.random(), low: random.random() };
    }),
    ("the weight", |sum, _, _, random| sum.totals.weight ^= 1 << random.random_range(0..32)),
    ("another slice's values", |sum, other, _, _| sum.values = other.values),
];

fn two_lanes(random: &mut ChaCha8Rng) -> [usize; 2] {
    let a = random.random_range(0..WIDTH.values());
    [a, (a + random.random_range(1..WIDTH.values())) % WIDTH.values()]
}

/// The environment variable `TRIBUTARY_TAMPERINGS` sets the number of tries of each kind; the default
/// is 2,000.
#[test]
fn whoever_has_not_got_the_secret_changes_no_sum_unnoticed() {
    let tries = std::env::var("TRIBUTARY_TAMPERINGS").map_or(2000, |tries| tries.parse().unwrap());
    let members = membership(8);
    let [right, other] = [10, 11].map(|seed| right_sum(&members, seed));
    for (what, tamper) in TAMPERINGS {
        let mut random = ChaCha8Rng::seed_from_u64(12);
        let believed = (0..tries).filter(|_| {
            let mut sum = right.clone();
            tamper(&mut sum, &other, &members, &mut random);
            sum.is_believed(&members, SAID)
        });
        let believed = believed.count();
        println!("{what}: {tries} tries, {believed} believed");
        assert_eq!(believed, 0, "{what}");
    }
}

#[test]
fn logs_contain_neither_coefficients_nor_pads() {
    let members = membership(3);
    let pads = members.pad_sum(&SAID.by(&members)).unwrap();
    let logged = format!("{:?} {pads:?}", members.keys.coefficients);
    assert_eq!(logged, "Coefficients(…) PadSum(…)");
}
