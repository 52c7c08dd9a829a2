//! Tests of a single server: the slices that it completes, answers and rejects.

use std::time::Duration;

use tributary_protocol::{
    Collective, ConfigError, Downlink, ElementType, FinishedSlice, OperationEvent, OperationId, Recipient,
    Server, ServerConfig, StartError, Stripe, Tensor, Time, vouching_key,
};
use tributary_wire::{
    Header, Hop, JobId, JobSecret, Kind, NodeId, Operator, Rank, Seq, SliceWidth, Tag, Totals, ValuesView,
};

use crate::alone::{ME, served};

const WINDOW: u32 = 4;
const RANKS: [Rank; 3] = [Rank::new(0), Rank::new(1), Rank::new(2)];
/// Longer than the time for which an answer can count as on its way.
const LATER: Duration = Duration::from_millis(10);

fn job(id: u16) -> JobId {
    JobId::new(id).unwrap()
}

fn config(members: &[Rank], window: u32, fan_in: u8) -> ServerConfig {
    ServerConfig {
        job: job(5),
        members: members.to_vec(),
        width: SliceWidth::ETHERNET,
        stripe: Stripe::WHOLE,
        window,
        start: Seq::FIRST,
        fan_in,
        downlink: Downlink::Multicast,
        vouching_key: vouching_key(&secret()),
        reads: None,
        confidential: false,
    }
}

fn server(downlink: Downlink, fan_in: u8) -> Server {
    Server::new(ServerConfig { downlink, ..config(&RANKS, WINDOW, fan_in) }).unwrap()
}

fn secret() -> JobSecret {
    JobSecret::new([1; JobSecret::BYTES])
}

fn header(seq: u32, rank: u16) -> Header {
    Header {
        kind: Kind::Gradient,
        operator: Operator::Sum,
        retransmit: false,
        job: job(5),
        rank: Rank::new(rank),
        seq: Seq(seq),
        totals: Totals { contributors: 1, weight: 2, tag: Tag { high: 3, low: u32::MAX } },
    }
}

fn hop(child: u8, fan_in: u8) -> Hop {
    Hop { node: NodeId::new(9).unwrap(), egress_port: 0, aggregate: true, child, fan_in }
}

/// Sends a slice to the server. All of its values are `value`.
fn contribute(server: &mut Server, now: Time, header: &Header, hop: Hop, value: i32) {
    let mut bytes = [0; SliceWidth::ETHERNET.bytes()];
    bytes.as_chunks_mut().0.fill(value.to_be_bytes());
    server.handle_gradient(now, header, &hop, Some(ValuesView::new(&bytes)));
}

/// Returns all results that the server sends: the receivers, the slice, its first value and its totals.
/// The totals do not include the server's voucher.
fn sent(server: &mut Server) -> Vec<(Recipient, u32, i32, Totals)> {
    let next = |server: &mut Server| {
        let out = server.poll_transmit()?;
        let Header { seq, totals, .. } = out.header;
        let (word, tag) = (word(seq), totals.tag);
        let tag = Tag { high: tag.high ^ word.high, low: tag.low ^ word.low };
        Some((out.to, seq.0, out.values.unwrap()[0], Totals { tag, ..totals }))
    };
    std::iter::from_fn(|| next(server)).collect()
}

/// Returns the server's voucher for this slice in the first generation.
/// It is the tag with which the server serves a slice whose own tag is 0.
fn word(seq: Seq) -> Tag {
    let finished = Header { rank: ME, totals: Totals::default(), ..header(seq.0, 0) };
    served(&(finished, vec![0; SliceWidth::ETHERNET.values()]), finished.job).0.totals.tag
}

fn recipients(server: &mut Server) -> Vec<Recipient> {
    sent(server).into_iter().map(|(to, ..)| to).collect()
}

#[test]
fn aggregates_each_child_once_and_tells_everyone() {
    let mut server = server(Downlink::Multicast, 2);
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(0, 2), 7);
    contribute(&mut server, Time::ZERO, &header(1, 1), hop(0, 2), 100);
    assert_eq!(sent(&mut server), []);
    contribute(&mut server, Time::ZERO, &header(1, 2), hop(1, 2), i32::MAX);
    let totals = Totals { contributors: 2, weight: 4, tag: Tag { high: 6, low: u32::MAX - 1 } };
    assert_eq!(sent(&mut server), [(Recipient::All, 1, i32::MAX.wrapping_add(7), totals)]);
    assert_eq!((server.stats().duplicates, server.stats().completed), (1, 1));
}

#[test]
fn compares_max_as_unsigned_31_bit_numbers() {
    let mut server = server(Downlink::Multicast, 2);
    let header = Header { operator: Operator::Max, ..header(1, 0) };
    contribute(&mut server, Time::ZERO, &header, hop(0, 2), 5);
    contribute(&mut server, Time::ZERO, &header, hop(1, 2), i32::MIN | 4);
    assert_eq!(sent(&mut server)[0].2, 5);
}

#[test]
fn unicast_sends_one_copy_to_each_member() {
    let mut server = server(Downlink::Unicast, 1);
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(0, 1), 7);
    assert_eq!(recipients(&mut server), RANKS.map(Recipient::Rank));
}

#[test]
fn answers_a_rank_at_most_once_a_round_trip_and_all_when_several_ask() {
    let mut server = server(Downlink::Multicast, 1);
    let (slice, probe) = (header(1, 0), |rank| Header { retransmit: true, ..header(1, rank) });
    contribute(&mut server, Time::ZERO, &slice, hop(0, 1), 7);
    assert_eq!(recipients(&mut server), [Recipient::All]);
    // The request has crossed the result.
    server.handle_gradient(Time::ZERO, &probe(1), &hop(0, 1), None);
    assert_eq!(recipients(&mut server), []);

    let later = Time::ZERO + LATER;
    server.handle_gradient(later, &probe(1), &hop(0, 1), None);
    server.handle_gradient(later, &probe(1), &hop(0, 1), None);
    assert_eq!(recipients(&mut server), [Recipient::Rank(RANKS[1])]);
    // A duplicate with values is a request, like a PROBE.
    contribute(&mut server, later, &probe(2), hop(0, 1), 7);
    assert_eq!(recipients(&mut server), [Recipient::All]);
    server.handle_gradient(later, &probe(0), &hop(0, 1), None);
    assert_eq!(recipients(&mut server), []);

    server.handle_gradient(later + LATER, &probe(0), &hop(0, 1), None);
    assert_eq!(recipients(&mut server), [Recipient::Rank(RANKS[0])]);
    let stats = server.stats();
    assert_eq!((stats.answers, stats.answers_to_all, stats.suppressed), (2, 1, 3));
}

#[test]
fn starts_nothing_at_or_below_its_floor_and_nothing_ahead_of_its_window() {
    let mut server = server(Downlink::Multicast, 1);
    for seq in [1, 1 + WINDOW] {
        contribute(&mut server, Time::ZERO, &header(seq, 0), hop(0, 1), 7);
    }
    assert_eq!(recipients(&mut server).len(), 1, "the first one is no use to anyone now");
    contribute(&mut server, Time::ZERO + LATER, &header(1, 0), hop(0, 1), 7);
    contribute(&mut server, Time::ZERO, &header(2 + WINDOW, 0), hop(0, 1), 7);
    contribute(&mut server, Time::ZERO, &header(0, 0), hop(0, 1), 7);
    assert_eq!(sent(&mut server), []);
    assert_eq!((server.stats().stale, server.stats().rejected), (2, 1));
}

#[test]
fn ignores_what_does_not_fit_the_job() {
    let mut server = server(Downlink::Multicast, 2);
    contribute(&mut server, Time::ZERO, &Header { job: job(6), ..header(1, 0) }, hop(0, 2), 7);
    contribute(&mut server, Time::ZERO, &Header { kind: Kind::Result, ..header(1, 0) }, hop(0, 2), 7);
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(0, 1), 7);
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(64, 2), 7);
    server.handle_gradient(Time::ZERO, &header(1, 0), &hop(0, 2), None);
    assert_eq!((server.stats().rejected, server.stats().early_probes), (4, 1));
    assert_eq!(server.stats().contributions, 0);
}

#[test]
fn a_new_generation_serves_finished_slices_and_starts_others_afresh() {
    let mut server = server(Downlink::Multicast, 2);
    for child in 0..2 {
        contribute(&mut server, Time::ZERO, &header(1, 0), hop(child, 2), 7);
    }
    contribute(&mut server, Time::ZERO, &header(2, 0), hop(0, 2), 1000);
    assert_eq!(recipients(&mut server), [Recipient::All]);
    server.change_generation(job(8), &RANKS[..2], 2).unwrap();
    let later = Time::ZERO + LATER;
    let new = |seq| Header { job: job(8), retransmit: true, ..header(seq, 1) };
    contribute(&mut server, later, &new(1), hop(0, 2), 7);
    for child in 0..2 {
        contribute(&mut server, later, &new(2), hop(child, 2), 3);
    }
    let results = sent(&mut server);
    let (to, seq, value, Totals { contributors, weight, tag }) = results[0];
    assert_eq!((to, seq, value, contributors, weight), (Recipient::Rank(RANKS[1]), 1, 14, 2, 4));
    assert_ne!(tag, Tag { high: 6, low: u32::MAX - 1 }, "without the server's word that it had finished it");
    assert_eq!((results[1].0, results[1].1, results[1].2), (Recipient::All, 2, 6));
    contribute(&mut server, later + LATER, &Header { rank: RANKS[2], ..new(1) }, hop(0, 2), 7);
    assert_eq!(sent(&mut server), [], "who has left gets no answer");
}

fn integers(len: usize) -> Tensor {
    Tensor {
        name: "counts".to_owned(),
        element_type: ElementType::I32,
        len,
        collective: Collective::AllReduce,
    }
}

#[test]
fn a_server_that_reads_takes_no_slice_a_window_ahead_of_what_it_knows_of() {
    let config = ServerConfig { reads: Some(secret()), ..config(&RANKS, WINDOW, 1) };
    let mut server = Server::new(config).unwrap();
    for seq in 1..=1 + WINDOW {
        contribute(&mut server, Time::ZERO, &header(seq, 0), hop(0, 1), 7);
    }
    assert_eq!(recipients(&mut server).len(), 4);
    assert_eq!((server.stats().completed, server.stats().put_off), (4, 1));
    assert_eq!(server.expect(integers(0)), Ok(OperationId(0)));
    // The server has kept and read the slice. A contribution is missing, so the operation fails.
    assert!(matches!(server.poll_event(), Some(OperationEvent::Failed { operation: OperationId(0), .. })));
    contribute(&mut server, Time::ZERO, &header(1 + WINDOW, 0), hop(0, 1), 7);
    assert_eq!((server.stats().completed, server.stats().put_off), (5, 1));
}

#[test]
fn what_was_sent_in_the_old_generation_is_no_answer_in_the_new_one() {
    let mut server = server(Downlink::Multicast, 1);
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(0, 1), 7);
    assert_eq!(recipients(&mut server), [Recipient::All]);
    server.change_generation(job(8), &RANKS, 1).unwrap();
    let question = Header { job: job(8), retransmit: true, ..header(1, 0) };
    contribute(&mut server, Time::ZERO, &question, hop(0, 1), 7);
    assert_eq!(recipients(&mut server), [Recipient::Rank(RANKS[0])]);
}

#[test]
fn knows_who_has_asked_lately_in_this_generation() {
    let mut server = server(Downlink::Multicast, 2);
    let asking = |server: &Server, now| server.asking(now, LATER).collect::<Vec<_>>();
    let again = |rank| Header { retransmit: true, ..header(1, rank) };
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(0, 2), 7);
    assert_eq!(asking(&server, Time::ZERO), [], "it may be waiting for its own next slice");
    contribute(&mut server, Time::ZERO, &again(0), hop(0, 2), 7);
    let later = Time::ZERO + LATER;
    server.handle_gradient(later, &again(2), &hop(1, 2), None);
    server.handle_gradient(later, &Header { job: job(8), ..again(1) }, &hop(1, 2), None);
    server.handle_gradient(later, &again(9), &hop(1, 2), None);
    assert_eq!(asking(&server, later), [RANKS[0], RANKS[2]]);
    assert_eq!(asking(&server, later + Duration::from_nanos(1)), [RANKS[2]]);
    server.change_generation(job(8), &RANKS, 2).unwrap();
    assert_eq!(asking(&server, later), []);
}

#[test]
fn members_join_only_when_no_slice_is_begun() {
    let mut server = Server::new(config(&RANKS[..2], WINDOW, 2)).unwrap();
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(0, 2), 7);
    let joined = server.change_generation(job(6), &RANKS, 2);
    assert_eq!(joined, Err(ConfigError::JoinInside(RANKS[2])));
    contribute(&mut server, Time::ZERO, &header(1, 1), hop(1, 2), 7);
    assert_eq!(server.change_generation(job(5), &RANKS, 2), Err(ConfigError::SameJob(job(5))));
    server.change_generation(job(6), &RANKS, 2).unwrap();
    contribute(&mut server, Time::ZERO, &Header { job: job(6), ..header(2, 2) }, hop(0, 2), 7);
    assert_eq!(server.stats().contributions, 3);
}

#[test]
fn a_server_that_takes_over_serves_what_is_finished_and_sums_what_is_due() {
    let values = Box::new([1; SliceWidth::ETHERNET.bytes()]);
    let finished = FinishedSlice {
        seq: Seq(2),
        job: job(5),
        operator: Operator::Max,
        totals: header(2, 0).totals,
        values,
    };
    let dues = [8, 5, 6, 3].map(Seq);
    let mut server =
        Server::take_over(config(&RANKS, WINDOW, 1), &dues, std::slice::from_ref(&finished)).unwrap();
    // Finished and provided; finished, but no member needs it; due; too far ahead; older than every member's slices.
    for seq in [2, 4, 3, 12, u32::MAX - 1] {
        contribute(&mut server, Time::ZERO, &header(seq, 1), hop(0, 1), 7);
    }
    let copy = (Recipient::Rank(RANKS[1]), 2, 0x0101_0101, finished.totals);
    let sum = (Recipient::All, 3, 7, header(3, 1).totals);
    assert_eq!(sent(&mut server), [copy, sum]);
    let stats = server.stats();
    assert_eq!((stats.completed, stats.answers, stats.stale, stats.rejected), (1, 1, 2, 1));
    // The copy is deleted once the slot's next slice is finished.
    contribute(&mut server, Time::ZERO, &header(6, 1), hop(0, 1), 7);
    contribute(&mut server, Time::ZERO + LATER, &header(2, 1), hop(0, 1), 7);
    assert_eq!(recipients(&mut server), [Recipient::All]);
}

#[test]
fn a_server_takes_over_only_what_fits_together() {
    let dues = [8, 5, 6, 3].map(Seq);
    let error = |config, dues: &[Seq], finished: &[FinishedSlice]| {
        Server::take_over(config, dues, finished).unwrap_err()
    };
    let ours = || config(&RANKS, WINDOW, 1);
    assert_eq!(error(ours(), &dues[..3], &[]), ConfigError::Dues { due: 3, window: WINDOW });
    let shifted = [5, 6, 3, 8].map(Seq);
    assert_eq!(error(ours(), &shifted, &[]), ConfigError::Due { slot: 0, due: Seq(5), window: WINDOW });
    let values = Box::new([1; SliceWidth::ETHERNET.bytes()]);
    let slice = FinishedSlice {
        seq: Seq(6),
        job: job(5),
        operator: Operator::Sum,
        totals: Totals::default(),
        values,
    };
    assert_eq!(error(ours(), &dues, &[slice]), ConfigError::NotTheLast { finished: Seq(6), due: Seq(6) });
    let reads = ServerConfig { reads: Some(secret()), ..ours() };
    assert_eq!(error(reads, &dues, &[]), ConfigError::ReadsAfterTakeOver);
    assert_eq!(error(config(&RANKS, 3, 1), &dues[..3], &[]), ConfigError::Window(3));
    assert_eq!(error(config(&[], WINDOW, 1), &dues, &[]), ConfigError::NoMembers);
}

#[test]
fn what_there_is_no_memory_for_is_refused_and_changes_nothing() {
    let config = ServerConfig { reads: Some(secret()), ..config(&RANKS, WINDOW, 1) };
    let mut server = Server::new(config).unwrap();
    let error = server.expect(integers(1 << 60)).unwrap_err();
    assert!(matches!(&error, StartError::NoMemory { tensor, .. } if *tensor == integers(0).name), "{error}");
    assert!(error.to_string().contains("smaller pieces"), "{error}");
    assert_eq!(server.expect(integers(0)), Ok(OperationId(0)));
}

#[test]
fn a_server_that_does_not_read_can_expect_nothing() {
    let mut server = server(Downlink::Multicast, 1);
    assert!(matches!(server.expect(integers(3)), Err(StartError::ReadsNothing { .. })));
    assert_eq!(server.poll_event(), None);
}

#[test]
fn a_bad_configuration_is_refused() {
    let error = |config| Server::new(config).unwrap_err();
    assert_eq!(error(config(&RANKS, 3, 1)), ConfigError::Window(3));
    assert_eq!(error(config(&RANKS, 0, 1)), ConfigError::Window(0));
    assert_eq!(error(config(&RANKS, 4, 0)), ConfigError::FanIn(0));
    assert_eq!(error(config(&RANKS, 4, 65)), ConfigError::FanIn(65));
    assert_eq!(error(config(&[], 4, 1)), ConfigError::NoMembers);
    assert_eq!(error(config(&[RANKS[0], RANKS[0]], 4, 1)), ConfigError::DuplicateMember(RANKS[0]));
    assert_eq!(error(config(&[Rank::ALL], 4, 1)), ConfigError::ReservedRank(0xffff));
}

#[test]
fn a_server_of_a_stripe_takes_no_slice_of_another() {
    let stripe = Stripe::all(2, WINDOW).unwrap().nth(1).unwrap();
    let mut server = Server::new(ServerConfig { stripe, ..config(&RANKS, WINDOW, 1) }).unwrap();
    contribute(&mut server, Time::ZERO, &header(1, 0), hop(0, 1), 7);
    assert_eq!((server.stats().rejected, server.stats().completed), (1, 0));
    contribute(&mut server, Time::ZERO, &header(2, 0), hop(0, 1), 7);
    assert_eq!((server.stats().rejected, server.stats().completed), (1, 1));
}
