//! Captures that users give to a switch in place of links: pcap and pcapng.
//!
//! The target checks these properties: frames do not change when they are written and read again; memory is
//! used in proportion to the bytes, for any claimed lengths; and no frame is longer than a link's longest
//! frame.

use std::io;
use std::time::Duration;

use tributary_capture::{CaptureError, CaptureReader, CaptureWriter, Resolution};

use crate::bounded::within;
use crate::finding::sound;
use crate::{Seed, Target};

/// Memory in addition to the memory for the bytes: two buffers for reading from a file.
const PIECES: usize = 1 << 19;
/// The most memory for a byte.
///
/// An interface's description takes twenty bytes, and some hundreds of bytes in memory.
const EACH: usize = 64;
/// The longest frame of a link.
const LONGEST: usize = 65_549;

pub(super) const TARGET: Target = Target {
    name: "captures",
    about: "captures that are a switch's ports: pcap and pcapng",
    max_len: 4096,
    tries: 3000,
    run,
    seeds,
};

type Frames = Vec<(Duration, Vec<u8>)>;

fn run(bytes: &[u8]) {
    within(PIECES + EACH * bytes.len(), "a capture", || {
        if let Ok(mut reader) = CaptureReader::new("input", bytes) {
            while let Ok(Some(_)) = reader.next_frame() {}
        }
    });
    let mut frames = Frames::new();
    // Frames before a damaged part count, too, so the error is ignored.
    let _ = read(bytes, &mut frames);
    let mut again = Frames::new();
    sound(read(&written(&frames, Resolution::Nanoseconds), &mut again));
    assert_eq!(again, frames);
}

fn read(bytes: &[u8], frames: &mut Frames) -> Result<(), CaptureError> {
    let mut reader = CaptureReader::new("input", bytes)?;
    while let Some(frame) = reader.next_frame()? {
        assert!(frame.bytes.len() <= LONGEST);
        frames.push((frame.at, frame.bytes.to_vec()));
    }
    Ok(())
}

fn written(frames: &Frames, resolution: Resolution) -> Vec<u8> {
    let mut file = io::Cursor::new(Vec::new());
    let mut writer = sound(CaptureWriter::new("again", &mut file, resolution));
    for (at, frame) in frames {
        sound(writer.write(*at, frame));
    }
    drop(writer);
    file.into_inner()
}

fn seeds() -> Vec<Seed> {
    let frame = |nanoseconds, byte, length| (Duration::from_nanos(nanoseconds), vec![byte; length]);
    let frames = vec![frame(1_700_000_000_000_001_000, 1, 14), frame(1_700_000_001_000_000_500, 2, 60)];
    vec![
        ("microseconds".to_owned(), written(&frames, Resolution::Microseconds)),
        ("nanoseconds".to_owned(), written(&frames, Resolution::Nanoseconds)),
        ("next-generation".to_owned(), next_generation()),
    ]
}

/// Makes a section with an interface, and frames in blocks of both kinds.
fn next_generation() -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let block = |kind: u32, body: Vec<u8>| {
        let length = 12 + u32::try_from(body.len()).unwrap_or(u32::MAX);
        [words(&[kind, length]), body, words(&[length])].concat()
    };
    let section = block(0x0a0d_0d0a, words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    // The interface has link type 1, and times in nanoseconds.
    let interface = block(1, words(&[1, 0, 9 | 1 << 16, 9, 0]));
    let enhanced = block(6, [words(&[0, 1, 2, 16, 16]), vec![7; 16]].concat());
    let simple = block(3, [words(&[14]), vec![8; 16]].concat());
    [section, interface, enhanced, simple].concat()
}
