//! Sends equal requests to both P4Runtime servers.
//!
//! Their answers must be equal, unless the difference is listed in [`KNOWN`].

use std::collections::BTreeMap;

use tributary_testkit::simple_switch;

use crate::pair::Pair;
use crate::requests::Subject;
use crate::{entities, steps};

/// The known differences: the step, and the beginnings of BMv2's and the embedded switch's
/// outcomes.
#[rustfmt::skip]
const KNOWN: &[(&str, &str, &str)] = &[
    // PI accepts any device id, and writes without an election id while no controller is connected.
    // The embedded switch follows the specification.
    ("a claim for another device", "Ok, primary: 1", "closed: NotFound"),
    ("read, another device", "FailedPrecondition", "NotFound"),
    ("write, no controller, no election id, no program", "FailedPrecondition", "PermissionDenied"),
    ("version", "1.3.0", "1.4.1"),

    // PI returns Unknown if the target rejects an operation. The embedded switch returns the
    // reason.
    ("one more than a table holds", "Unknown: Unknown", "Unknown: ResourceExhausted"),
    ("entry without a key", "Unknown: Unknown", "Unknown: InvalidArgument"),
    ("update of nothing", "Unknown: Unknown", "Unknown: InvalidArgument"),
    ("counter, out of range", "Unknown: Unknown", "Unknown: OutOfRange"),
    ("counter, read out of range", "Unknown", "OutOfRange"),
    ("read an entity of no kind", "Unknown", "InvalidArgument"),
    ("read two patterns, one bad", "Unknown", "Unknown: Ok, InvalidArgument"),

    // PI accepts an empty byte string as 0, which is an error by the specification.
    ("entry, no bytes", "Ok", "Unknown: InvalidArgument"),
    ("senseless entries", "1 ", "0 "),

    // PI cannot set all cells, and does not return the counter to which a cell belongs.
    ("counter, all cells at once", "Unknown: Unimplemented", "Ok"),
    ("counter, read an index of none", "14 ", "14 "),

    // BMv2 accepts replicas with ports by which no packet can leave.
    ("group with the drop port", "Ok", "Unknown: InvalidArgument"),
    ("group with a port of 10 bits", "Ok", "Unknown: InvalidArgument"),
    ("group with a larger instance", "Ok", "Unknown: InvalidArgument"),
    ("delete group 16", "Ok", "Unknown: NotFound"),
    ("delete group 17", "Ok", "Unknown: NotFound"),
    ("delete group 19", "Ok", "Unknown: NotFound"),

    // PI gives no access to registers and value sets.
    ("write a register", "Unknown: Unimplemented", "Unknown: InvalidArgument"),
    ("read a register", "Unimplemented", "InvalidArgument"),
    ("write a value set", "Unknown: Unimplemented", "Unknown: InvalidArgument"),
    ("read a value set", "Unimplemented", "0 "),
    ("write a digest", "Unknown: NotFound", "Unknown: InvalidArgument"),
    ("read a digest", "Unimplemented", "0 "),
    ("read an extern", "Unknown", "0 "),

    // PI only checks that a P4Info can be parsed.
    ("pipeline, verify nothing", "Ok", "InvalidArgument"),
    ("pipeline, verify without a P4Info", "Ok", "InvalidArgument"),
    ("pipeline, commit with nothing saved", "Unknown", "NotFound"),
    // If PI has installed a program only in part, it refuses all others until that program is
    // committed. The project's client commits it.
    ("pipeline, commit broken JSON", "Unknown", "InvalidArgument"),
    ("pipeline, commit after broken JSON", "Unknown", "Ok"),
    ("pipeline, commit nothing after that", "Ok", "NotFound"),

    // The specification defines an empty answer for a switch that runs no program.
    ("get pipeline, no program", "FailedPrecondition", "P4Info: false, program: false"),

    // PI cannot reconcile, and the project's code never requests it.
    ("pipeline, reconcile", "Unknown", "Ok"),

    // PI does not report a packet that it did not send.
    ("packet with a wide port", "[]", "[\"refused: InvalidArgument\"]"),
    ("packet with too much metadata", "[]", "[\"refused: InvalidArgument\"]"),
    ("packet with unknown metadata", "[]", "[\"refused: InvalidArgument\"]"),
];

type Outcomes = BTreeMap<&'static str, String>;

async fn outcomes(pair: &Pair) -> [Outcomes; 2] {
    let mut outcomes = Vec::new();
    for (_, address) in pair.addresses() {
        let mut subject = Subject::connect(address).await;
        steps::before_a_program(&mut subject).await;
        let primary = steps::arbitration(&mut subject).await;
        steps::pipelines(&mut subject).await;
        entities::entries(&mut subject).await;
        entities::counters(&mut subject).await;
        entities::groups(&mut subject).await;
        entities::other_kinds(&mut subject).await;
        entities::reads(&mut subject).await;
        let _primary = steps::packet_outs(&mut subject, primary).await;
        steps::reload(&mut subject).await;
        outcomes.push(subject.outcomes);
    }
    outcomes.try_into().unwrap()
}

#[tokio::test]
async fn both_answer_the_same_requests_in_the_same_way() {
    if !simple_switch::is_installed() {
        return;
    }
    let [bmv2, embedded] = outcomes(&Pair::start().await).await;
    let mut unlike: BTreeMap<_, _> = bmv2
        .iter()
        .map(|(step, theirs)| (*step, (theirs.as_str(), embedded[step].as_str())))
        .filter(|(_, (theirs, ours))| theirs != ours)
        .collect();
    for (step, theirs, ours) in KNOWN {
        let (bmv2, embedded) =
            unlike.remove(step).unwrap_or_else(|| panic!("{step}: no difference any more"));
        assert!(bmv2.starts_with(theirs) && embedded.starts_with(ours), "{step}: {bmv2}; {embedded}");
    }
    for (step, (theirs, ours)) in &unlike {
        println!("{step}: BMv2 {theirs:.200}; embedded {ours:.200}");
    }
    assert!(unlike.is_empty(), "differences that nobody knows of: {:?}", unlike.keys());
}
