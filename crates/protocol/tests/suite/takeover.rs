//! Tests of the takeover:
//! the new server's state is merged from the members' reports after the server has failed.

use tributary_protocol::{TakeOver, TakeOverError, merge};
use tributary_wire::{Rank, Seq};

const RANKS: [Rank; 3] = [Rank::new(0), Rank::new(1), Rank::new(4)];

/// Merges the due slices of three members in a window of 4.
fn merged(dues: [[u32; 4]; 3]) -> Result<TakeOver, TakeOverError> {
    let dues = dues.map(|of_member| of_member.map(Seq));
    let members: Vec<(Rank, &[Seq])> = RANKS.into_iter().zip(dues.iter().map(<[Seq; 4]>::as_slice)).collect();
    merge(4, &members)
}

#[test]
fn the_furthest_member_says_what_is_due_and_gives_what_others_lack() {
    let found = merged([[4, 5, 6, 3], [8, 5, 6, 3], [4, 5, 10, 7]]);
    let wanted = vec![(Seq(4), RANKS[1]), (Seq(6), RANKS[2]), (Seq(3), RANKS[2])];
    assert_eq!(found, Ok(TakeOver { dues: [8, 5, 10, 7].map(Seq).to_vec(), wanted }));
}

#[test]
fn members_that_are_at_the_same_place_want_nothing() {
    let dues = [4, 5, 2, 3];
    assert_eq!(merged([dues; 3]), Ok(TakeOver { dues: dues.map(Seq).to_vec(), wanted: Vec::new() }));
}

#[test]
fn the_wrap_of_the_numbers_changes_nothing() {
    let last = u32::MAX;
    let found = merged([[0, last - 6, last - 1, last], [0, 1, last - 1, 3], [0, last - 2, 2, last]]);
    // In slot 1, the first two members are two windows apart.
    let apart = TakeOverError::TooFarAhead {
        ahead: RANKS[1],
        due: Seq(1),
        behind: RANKS[0],
        due_behind: Seq(last - 6),
        window: 4,
    };
    assert_eq!(found, Err(apart));
    let found = merged([[0, 1, last - 1, last], [0, 1, last - 1, 3], [0, last - 2, 2, last]]);
    let wanted = vec![(Seq(last - 2), RANKS[0]), (Seq(last - 1), RANKS[2]), (Seq(last), RANKS[1])];
    assert_eq!(found, Ok(TakeOver { dues: [0, 1, 2, 3].map(Seq).to_vec(), wanted }));
}

#[test]
fn a_member_that_cannot_be_where_it_says_is_named() {
    let error = merged([[4, 5, 6, 3], [4, 5, 6, 11], [4, 5, 6, 3]]).unwrap_err();
    assert!(error.to_string().contains("rank 1 waits for slice 11, but rank 0 for slice 3"), "{error}");
    let error = merged([[4, 5, 6, 3], [4, 5, 6, 3], [4, 5, 7, 3]]).unwrap_err();
    assert_eq!(error, TakeOverError::Slot { rank: RANKS[2], slot: 2, due: Seq(7) });
    let error = merge(4, &[(RANKS[2], &[Seq(1)])]).unwrap_err();
    assert_eq!(error, TakeOverError::Window { rank: RANKS[2], slots: 1, window: 4 });
    assert_eq!(merge(4, &[]).unwrap_err(), TakeOverError::NoMembers);
}
