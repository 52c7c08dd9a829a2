//! Compares the embedded switch with BMv2 for every construct of the language and of v1model.
//!
//! The programs are in `tests/programs`. The entries for all objects of their P4Info are random,
//! and the packets are random packets for their parsers. Both switches must send the same frames,
//! and must have the same entries, counters and digests afterwards.
//!
//! Entries and packets are made from a seed, which the variable `TRIBUTARY_SEED` changes.

mod controller;
mod coverage;
mod entities;
mod packet_outs;
mod packets;
mod program;
mod reads;
mod run;
mod values;

use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::{DigestEntry, Update};
use tributary_testkit::simple_switch;

use crate::packet_stream::PacketStream;
use crate::pair::Pair;
use controller::Controller;
use packets::Packets;
use program::Program;
use run::{Bmv2, Frame, Left};
use values::Values;

/// Number of packets with which each program is compared.
const PACKETS: usize = 10_000;

/// A program, and the parameters of its comparison.
#[derive(Clone, Copy)]
struct Subject {
    name: &'static str,
    /// The maximum number of packets in flight on BMv2.
    /// BMv2 has one thread for ingress and several for egress. The number is 1 if the order of two
    /// packets matters.
    burst: usize,
    /// Shorter frames are padded to this length.
    /// A program may read headers that a packet lacks. On BMv2 it then reads the values of an
    /// earlier packet, which the specification leaves undefined.
    shortest: usize,
    /// True if a packet leaves by one port more than once.
    ///
    /// BMv2's P4Runtime keeps replicas in a hash map, so their order depends on its standard
    /// library.
    copies: bool,
    /// Changes packets that crash BMv2, or whose outcome depends on chance or a clock.
    spare: fn(&mut [u8]),
    /// The points that no packet reaches, by their names in `coverage`, with the reasons.
    unreached: &'static [&'static str],
}

const PLAIN: Subject =
    Subject { name: "", burst: 16, shortest: 1, copies: false, spare: |_| {}, unreached: &[] };

/// The default seed of entries and packets.
const SEED: u64 = 3;

/// Returns the seed of entries and packets.
fn seed() -> u64 {
    std::env::var("TRIBUTARY_SEED").map_or(SEED, |seed| seed.parse().expect("TRIBUTARY_SEED is a number"))
}

impl Subject {
    fn packets(&self, program: &Program, values: &Values) -> Vec<Frame> {
        let mut packets: Vec<Frame> = Packets::new(program, values, seed()).take(PACKETS).collect();
        for (_, frame) in &mut packets {
            frame.resize(frame.len().max(self.shortest), 0);
            (self.spare)(frame);
        }
        packets
    }

    fn updates(&self, program: &Program, values: &Values) -> Vec<Update> {
        entities::updates(program, values, seed())
    }

    /// Sorts the frames whose order is not specified.
    fn ordered(&self, mut all: Vec<Left>) -> Vec<Left> {
        if self.copies {
            all.iter_mut().flat_map(Left::values_mut).for_each(|frames| frames.sort());
        }
        all
    }

    async fn is_the_same(&self) {
        if !simple_switch::is_installed() {
            return;
        }
        let program = Program::read(self.name);
        let values = Values::of(&program);
        let pair = Pair::start().await;
        let mut controllers = Vec::new();
        let updates = self.updates(&program, &values);
        let mut failures = Vec::new();
        for (name, address) in pair.addresses() {
            let mut controller = Controller::connect(name, address, &program).await;
            failures.push(controller.write(&updates).await);
            controllers.push(controller);
        }
        for (failed, (name, _)) in failures.into_iter().zip(pair.addresses()) {
            let first = failed.first().map(|(index, code)| (*code, &updates[*index]));
            assert!(
                failed.is_empty(),
                "{}, seed {}: {name} refuses {failed:?}: {first:#?}",
                self.name,
                seed()
            );
        }

        let [mut bmv2, mut embedded] = controllers.try_into().ok().unwrap();
        let packets = self.packets(&program, &values);
        let mut ours = Vec::new();
        for some in packets.chunks(16) {
            // The embedded switch processes a few packets at a time, so that its messages reach the
            // controller in between. Nearly all of them arrive before the answer to a read, also on
            // a busy machine.
            let some = some.to_vec();
            ours.extend(
                pair.embedded.control().run(move |switch| run::embedded(switch, &some)).await.unwrap(),
            );
            embedded.read(Kind::DigestEntry(DigestEntry::default())).await.unwrap();
            embedded.keep();
        }
        let to_controller = run::to_controller(&mut ours);
        let stream = PacketStream::open(pair.packets, pair.bmv2.device_id()).await;
        let mut switch = Bmv2 { program: &program, stream, controller: &mut bmv2, burst: self.burst };
        let (theirs, told) = switch.process(&packets, &ours, &to_controller).await;
        let [ours, theirs] = [ours, theirs].map(|all| self.ordered(all));
        let all_theirs = &theirs;
        for (number, ((ours, theirs), (port, frame))) in ours.iter().zip(all_theirs).zip(&packets).enumerate()
        {
            assert!(
                ours == theirs,
                "{}, seed {}, packet {number}, which came in by port {port}: {}\nembedded: {}\nBMv2:     {}\n\
                 and of those behind it {} left BMv2",
                self.name,
                seed(),
                hex(frame),
                frames(ours),
                frames(theirs),
                all_theirs[number + 1..].iter().filter(|left| !left.is_empty()).count()
            );
        }
        assert_eq!(to_controller.concat(), told, "{}, seed {}: to the controller", self.name, seed());
        let left = ours.iter().filter(|left| !left.is_empty()).count();
        println!("{}: {left} of {} packets left", self.name, packets.len());
        reads::compare(self.name, &program, &updates, bmv2, embedded).await;
    }
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn frames(left: &Left) -> String {
    let one = |(port, frames): (&u16, &Vec<Vec<u8>>)| {
        let frames: Vec<_> = frames.iter().map(|frame| hex(frame)).collect();
        format!("\n  port {port}: {}", frames.join(", "))
    };
    left.iter().map(one).collect()
}

/// Makes the tests of each program: the comparison of both switches, and the check that packets
/// reach all of it.
macro_rules! subjects {
    ($($name:ident: $subject:expr;)*) => {
        $(mod $name {
            use super::*;

            const SUBJECT: Subject = Subject { name: stringify!($name), ..$subject };

            #[tokio::test]
            async fn is_the_same_on_both() {
                SUBJECT.is_the_same().await;
            }

            #[tokio::test]
            async fn packets_reach_all_of_it() {
                coverage::check(SUBJECT).await;
            }
        })*
    };
}

subjects! {
    arithmetic: PLAIN;
    checksums: PLAIN;
    clocks: Subject {
        burst: 1,
        // These conditions always hold.
        unreached: &[
            "action clocks54_0",
            "action clocks55_0",
            "action clocks60_0",
            "line 54: sm.ingress_global_timestamp >= before: false",
            "line 55: sm.ingress_global_timestamp != 0: false",
            "line 60: number >= hdr.request.low && number <= hdr.request.high: false",
        ],
        ..PLAIN
    };
    constructs: Subject {
        burst: 1,
        shortest: 50,
        // These are outcomes of a table that few packets match; `matching` has such a table, too.
        unreached: &["action constructs224", "action constructs225"],
        ..PLAIN
    };

    copies: Subject { burst: 1, copies: true, spare: spare_copies, ..PLAIN };
    drops: PLAIN;
    hashing: PLAIN;
    language: Subject {
        shortest: 40,
        spare: spare_language,
        unreached: &["action LanguageIngress.time", "line 184: hdr.request.test == 8: true"],
        ..PLAIN
    };
    matching: PLAIN;
    packet_io: PLAIN;
    parsing: Subject {
        spare: spare_parsing,
        unreached: &["action parsing192", "line 191: sm.parser_error == error.NoMatch: true"],
        ..PLAIN
    };
    paths: Subject {
        burst: 1,
        shortest: 6,
        copies: true,
        spare: spare_paths,
        unreached: &[
            "action paths108",
            "line 106: hdr.order.in_egress == RECIRCULATE && hdr.order.session == 0xff: true",
        ],
        ..PLAIN
    };
    // p4c's JSON does not name the action that a table with an action profile runs without an
    // entry.
    selectors: Subject { unreached: &["action NoAction"], ..PLAIN };
    stacks: PLAIN;
    state: Subject { burst: 1, ..PLAIN };
    timeouts: PLAIN;
    unions: PLAIN;
}

/// Removes repeated copies of copies, because they soon exceed BMv2's queues.
fn spare_copies(frame: &mut [u8]) {
    match frame {
        [_, egress_order, passes, ..] if *egress_order & 0x40 != 0 => *passes &= !2,
        _ => {}
    }
}

fn spare_language(frame: &mut [u8]) {
    match frame {
        // Limits an index that would be beyond the stack.
        [1, index, ..] => *index &= 3,
        // Sets both ends of a random number's range to the same number.
        [7, _, a, b, c, d, ..] => [*a, *b] = [*c, *d],
        // Removes a test that reads the time.
        [test @ 8, ..] => *test = 0,
        // Avoids an assertion that fails.
        [9, _, a, b, c, d, ..] if [*a, *b] == [*c, *d] => *a ^= 1,
        // Limits a loop that would never end.
        [13, rounds, ..] => *rounds &= 15,
        _ => {}
    }
}

/// Removes packets for which a parser's state has no transition.
///
/// BMv2 accepts such packets. The specification defines an error for them, which the embedded
/// switch sets.
fn spare_parsing(frame: &mut [u8]) {
    match frame {
        [way @ 6, _, _, 2..=255, ..] => *way = 0,
        [6, _, _, high @ 0, low, ..] if *low != 0 => *high = 1,
        _ => {}
    }
}

fn spare_paths(frame: &mut [u8]) {
    const RECIRCULATE: u8 = 6;
    if let [_, in_egress, rounds, session, ..] = frame {
        // Repeated copies of copies soon exceed BMv2's queues.
        *rounds &= if *in_egress == RECIRCULATE { 1 } else { 7 };
        // Such a packet would be recirculated forever.
        if *session == 0xff {
            *session = 0;
        }
    }
}
