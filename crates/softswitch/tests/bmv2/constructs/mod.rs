//! Every construct of the language and of v1model: programs of ours (`tests/programs`), random entries
//! for all that their P4Info describes, and random packets that find their ways through their parsers. Both switches
//! have to let the same frames leave, and to show the same entries, counters and digests afterwards.
//!
//! All is made from a seed, which `TRIBUTARY_SEED` changes.

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

/// Packets that are compared, of each program.
const PACKETS: usize = 10_000;

/// A program, and what has to be known of it.
#[derive(Clone, Copy)]
struct Subject {
    name: &'static str,
    /// The most packets under way at once on BMv2.
    /// It has a thread for ingress and several for egress: one at a time where it matters which of two packets is the
    /// first.
    burst: usize,
    /// Shorter frames are padded to this length.
    /// A program may read headers that a packet lacks: on BMv2 it then sees the values of an earlier packet, which the
    /// specification leaves undefined.
    shortest: usize,
    /// True if a packet leaves by one port more than once: BMv2's P4Runtime keeps replicas in a hash map,
    /// so that which is the first of them depends on its standard library.
    copies: bool,
    /// Changes packets that BMv2 does not survive, or whose outcome depends on chance or a clock.
    spare: fn(&mut [u8]),
    /// The points that no packet reaches, as `coverage` names them, with the reasons.
    unreached: &'static [&'static str],
}

const PLAIN: Subject =
    Subject { name: "", burst: 16, shortest: 1, copies: false, spare: |_| {}, unreached: &[] };

/// The seed of entries and packets unless another one is wanted.
const SEED: u64 = 3;

/// The seed of entries and packets.
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

    /// The frames in the order in which they left, if that is specified.
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
            // A few at a time, so that the switch's messages reach the controller in between: nearly all of them arrive
            // before the answer to a read, also on a busy machine.
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

/// The tests of a program: on both switches, and that packets reach all of it.
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
        // What always holds.
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
        // Two ways on from a table that few packets meet; `matching` has such a table, too.
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
    // What a table with an action profile does without an entry is not in p4c's JSON.
    selectors: Subject { unreached: &["action NoAction"], ..PLAIN };
    stacks: PLAIN;
    state: Subject { burst: 1, ..PLAIN };
    timeouts: PLAIN;
    unions: PLAIN;
}

/// Copies that are copied again in each round soon are more than BMv2's queues hold.
fn spare_copies(frame: &mut [u8]) {
    match frame {
        [_, egress_order, passes, ..] if *egress_order & 0x40 != 0 => *passes &= !2,
        _ => {}
    }
}

fn spare_language(frame: &mut [u8]) {
    match frame {
        // An index beyond the stack.
        [1, index, ..] => *index &= 3,
        // A random number: from a number to the same one.
        [7, _, a, b, c, d, ..] => [*a, *b] = [*c, *d],
        // A time.
        [test @ 8, ..] => *test = 0,
        // An assertion that fails.
        [9, _, a, b, c, d, ..] if [*a, *b] == [*c, *d] => *a ^= 1,
        // A loop that never ends.
        [13, rounds, ..] => *rounds &= 15,
        _ => {}
    }
}

/// BMv2 accepts a packet for which a parser's state knows no way on; the specification has an error for
/// it, and so does the embedded switch.
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
        // Copies that are copied again in each round soon are more than BMv2's queues hold.
        *rounds &= if *in_egress == RECIRCULATE { 1 } else { 7 };
        // A packet that goes round forever.
        if *session == 0xff {
            *session = 0;
        }
    }
}
