//! Runs every target on the checked-in inputs, and on mutations of them.
//!
//! The inputs are the same in each run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "all of it is a test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tributary_fuzz::{Finding, Mutator, TARGETS, Target, check, corpus_folder, corpus_of, seeds_of};

/// The largest size of the corpus in bytes.
///
/// People read it, and each clone of the repository fetches it.
const MOST_BYTES: u64 = 300_000;
/// The seed of the mutations. `TRIBUTARY_FUZZ_SEED` sets another, which tries other inputs.
const SEED: u64 = 1;

fn fail(finding: &Finding) -> ! {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("findings");
    let file = finding.save(&folder).unwrap();
    let replay = format!("make fuzz ARGS=\"--target {} --replay {file}\"", finding.target);
    panic!("{finding}\nonce more: {replay}");
}

fn try_corpus(target: &Target) {
    let corpus = corpus_of(target).unwrap();
    assert!(!corpus.is_empty(), "{}: no inputs are checked in", target.name);
    for (_, input) in &corpus {
        check(target, input).unwrap_or_else(|finding| fail(&finding));
    }
    let seed = std::env::var("TRIBUTARY_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let inputs = corpus.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(inputs, target.max_len, seed);
    let begin = Instant::now();
    for _ in 0..target.tries {
        check(target, &mutator.input()).unwrap_or_else(|finding| fail(&finding));
    }
    let each = begin.elapsed().checked_div(target.tries).unwrap_or(Duration::ZERO);
    println!("{}: {} inputs, {each:?} each", target.name, target.tries);
}

#[test]
fn every_target_keeps_its_promises() {
    // Panics are caught, and reported with the input. Their backtraces are not shown, because each takes a
    // page.
    TARGETS.iter().for_each(try_corpus);
}

#[test]
fn the_corpus_is_small_and_begins_with_what_our_encoders_make() {
    let mut bytes = 0;
    let mut folders: Vec<_> =
        std::fs::read_dir(corpus_folder()).unwrap().map(|folder| folder.unwrap().file_name()).collect();
    folders.sort();
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders, names);
    for target in &TARGETS {
        let corpus: BTreeMap<String, Vec<u8>> = corpus_of(target).unwrap().into_iter().collect();
        bytes += corpus.values().map(|input| input.len() as u64).sum::<u64>();
        for (name, seed) in seeds_of(target) {
            let same = corpus.get(&name).is_some_and(|input| *input == seed);
            assert!(same, "{}/{name} is not what is made now: run `make fuzz ARGS=--seeds`", target.name);
        }
    }
    assert!(bytes <= MOST_BYTES, "the corpus has {bytes} bytes");
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let corpus = vec![b"some bytes".to_vec(), b"other bytes, and more of them".to_vec()];
    let inputs = |seed| {
        let mut mutator = Mutator::new(corpus.clone(), 20, seed);
        (0..500).map(|_| mutator.input()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
    assert!(inputs(1).iter().all(|input| input.len() <= 20));
}
