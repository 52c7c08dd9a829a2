//! Plants bugs in the program for Tofino, and checks that the comparison with v1model's program
//! finds them.
//!
//! The test takes minutes: run `cargo test -p tributary-softswitch --test tna -- --ignored` after a
//! change of `p4/tna` or of the comparison. It needs `p4c-bm2-ss` and `make`; without them it
//! reports this and passes.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::against_v1model::{packets, run};
use crate::support::{FILES, program_in};

const COMPILER: &str = "p4c-bm2-ss";
/// Number of packets, which is enough to detect the rarest bug.
const PACKETS: usize = 20_000;

/// A file of `p4/tna`, a text that occurs in it once, and the replacement.
const BUGS: [(&str, &str, &str); 26] = [
    // The owner of the slot, and the slice that the slot holds.
    (
        "slot.p4",
        "            result = 1;\n        }\n        value = hdr.ina.job;",
        "            result = 1;\n        }",
    ),
    ("slot.p4", "((int<32>)(a - b) > 0)", "(a > b)"),
    ("slot.p4", "((int<32>)(a - b) > 0)", "((int<32>)(a - b) >= 0)"),
    ("slot.p4", "((int<32>)(a - b) < 0)", "((int<32>)(a - b) <= 0)"),
    (
        "slot.p4",
        "value.children = value.children | meta.bridge.operand;",
        "value.children = meta.bridge.operand;",
    ),
    // The release of the slot, in each of the three registers that must agree.
    ("slot.p4", "            value.seq = meta.bridge.operand;\n", ""),
    (
        "slot.p4",
        "            value.seq = meta.bridge.operand;\n            value.children = 0;\n",
        "            value.seq = meta.bridge.operand;\n",
    ),
    (
        "slot.p4",
        "            value = meta.bridge.operand;\n            result = 1;\n",
        "            result = 1;\n",
    ),
    (
        "slot.p4",
        "            value = meta.bridge.operand;\n        }\n    )\n\n    //",
        "        }\n    )\n\n    //",
    ),
    ("ingress.p4", "meta.seq_in_next_window + 1", "meta.seq_in_next_window"),
    // The rows of the truth table.
    ("slot.p4", "(KIND_RESULT, 0): release_##word();", ""),
    ("slot.p4", "            (1, _, _, _): first();\n", ""),
    ("slot.p4", "            (_, 1, _, _): stale();\n", ""),
    ("slot.p4", "            (_, _, 0, _): first();\n", ""),
    ("slot.p4", "            CHILDREN(SEEN)\n", ""),
    // Sums and maxima.
    ("values.p4", "(VALUES_ADD, 1): do_maximum_values_##lane()", "(VALUES_ADD, 1): do_add_values_##lane()"),
    ("values.p4", "[31:31] = 0", "[30:30] = 0"),
    ("values.p4", "            VALUES_LOAD: do_load_##part(); \\\n", ""),
    // The outcome for the packet.
    (
        "outcome.p4",
        "meta.values == VALUES_KEEP || (hdr.ina.flags & FLAG_RETRANSMIT) != 0",
        "meta.values == VALUES_KEEP",
    ),
    ("departure.p4", "        hdr.ina.tag_low = 0;\n", ""),
    (
        "departure.p4",
        "(hdr.ina.kind == KIND_GRADIENT && (hdr.ina.flags & FLAG_PROBE) != 0)",
        "(hdr.ina.flags & FLAG_PROBE) != 0",
    ),
    (
        "ingress.p4",
        "(hdr.ina.kind == KIND_RESULT || (hdr.ina.flags & FLAG_PROBE) == 0)",
        "(hdr.ina.flags & FLAG_PROBE) == 0",
    ),
    // The admission of senders.
    ("admission.p4", "true, 1, 1, _, _, 0, 0): hold();", "true, 1, 1, _, _, _, 0): hold();"),
    ("admission.p4", "true, 1, 1, _, RANK_ALL, _, 0): hold();", "true, 1, 1, _, RANK_ALL, _, _): hold();"),
    ("admission.p4", "(0 &&& 0xfe, _, _, _, _, true,", "(0, _, _, _, _, true,"),
    ("admission.p4", "(_, KIND_GRADIENT, _, _, _, true, _, _, 0, _, _, _): reject_in_job();", ""),
];

/// Compiles the program with a bug in a copy of `p4`.
fn compiled(copy: &Path, (file, from, to): (&str, &str, &str)) -> [String; 2] {
    let source = copy.join("tna").join(file);
    let sound = fs::read_to_string(&source).unwrap();
    assert_eq!(sound.matches(from).count(), 1, "{file} has not got once: {from}");
    fs::write(&source, sound.replace(from, to)).unwrap();
    let made = Command::new("make")
        .arg("-C")
        .arg(copy)
        .args(["-B", "build/tna-32/tributary.json"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::write(&source, sound).unwrap();
    FILES.map(|file| fs::read_to_string(copy.join("build/tna-32").join(file)).unwrap())
}

#[tokio::test]
#[ignore = "compiles the program once for each bug, which takes minutes"]
async fn each_bug_that_is_planted_is_noticed() {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        println!("skipped: {COMPILER} is not on the PATH");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let p4 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4");
    assert!(Command::new("cp").arg("-r").arg(p4).arg(folder.path()).status().unwrap().success());
    let packets = packets(PACKETS);
    let expected = run(&program_in("32"), &packets).await;
    for bug in BUGS {
        let (left, counted) = run(&compiled(&folder.path().join("p4"), bug), &packets).await;
        assert!(left != expected.0 || counted != expected.1, "nobody notifications {bug:?}");
    }
}
