//! Reading frames from captures of both formats, and from damaged or malicious files.

use std::time::Duration;

use proptest::prelude::*;
use tributary_capture::{CaptureError, CaptureReader, CaptureWriter, Problem, Resolution};

type Frames = Vec<(Duration, Vec<u8>)>;

fn read(file: &[u8]) -> Result<Frames, CaptureError> {
    let mut reader = CaptureReader::new("a.pcap", file)?;
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        frames.push((frame.at, frame.bytes.to_vec()));
    }
    Ok(frames)
}

fn said(file: &[u8]) -> String {
    read(file).unwrap_err().to_string()
}

fn written(resolution: Resolution, frames: &Frames) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = CaptureWriter::new("a.pcap", &mut file, resolution).unwrap();
    for (at, bytes) in frames {
        writer.write(*at, bytes).unwrap();
    }
    writer.flush().unwrap();
    file
}

/// Returns a big-endian pcap header with times in microseconds.
fn header(snaplen: u32, link_type: u32) -> Vec<u8> {
    let words = [0xa1b2_c3d4, 2 << 16 | 4, 0, 0, snaplen, link_type];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

fn record(seconds: u32, fraction: u32, captured: u32, original: u32, bytes: &[u8]) -> Vec<u8> {
    let words = [seconds, fraction, captured, original];
    words.iter().flat_map(|word| word.to_be_bytes()).chain(bytes.iter().copied()).collect()
}

/// Returns a little-endian block of a pcapng file.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (12 + padded as u32).to_le_bytes();
    let padding = vec![0; padded - body.len()];
    [&kind.to_le_bytes()[..], &length, body, &padding, &length].concat()
}

fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat())
}

/// Returns the block of an interface with times in units of 10^-`resolution` s.
fn interface(link_type: u16, resolution: u8) -> Vec<u8> {
    let options = [&9_u16.to_le_bytes()[..], &1_u16.to_le_bytes(), &[resolution, 0, 0, 0], &[0; 4]].concat();
    block(1, &[&link_type.to_le_bytes()[..], &[0; 2], &[0; 4], &options].concat())
}

fn enhanced(interface: u32, time: u64, original: u32, bytes: &[u8]) -> Vec<u8> {
    let words = [interface, (time >> 32) as u32, time as u32, bytes.len() as u32, original];
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    block(6, &[&words[..], bytes].concat())
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        frames in prop::collection::vec((0..=u32::MAX, 0u32..1_000_000_000, prop::collection::vec(any::<u8>(), 0..200)), 0..20),
        fine: bool,
    ) {
        let unit = if fine { 1 } else { 1000 };
        let frames: Frames =
            frames.into_iter().map(|(s, ns, bytes)| (Duration::new(s.into(), ns / unit * unit), bytes)).collect();
        let resolution = if fine { Resolution::Nanoseconds } else { Resolution::Microseconds };
        let file = written(resolution, &frames);
        prop_assert_eq!(CaptureReader::new("a.pcap", &file[..]).unwrap().is_fine(), fine);
        prop_assert_eq!(read(&file).unwrap(), frames);
    }

    #[test]
    fn wherever_a_file_ends_the_whole_frames_before_are_read(end in 0usize..140) {
        let frame = |number: u8| (Duration::from_secs(number.into()), vec![number; 20]);
        let file = written(Resolution::Microseconds, &vec![frame(1), frame(2), frame(3)]);
        let file = &file[..end.min(file.len())];
        let Ok(mut reader) = CaptureReader::new("a.pcap", file) else {
            prop_assert!(file.len() < 24);
            return Ok(());
        };
        let whole = (file.len() - 24) / 36;
        for number in 1..=whole {
            prop_assert_eq!(reader.next_frame().unwrap().unwrap().bytes, &[number as u8; 20]);
        }
        let begin = 24 + 36 * whole;
        match reader.next_frame() {
            Ok(None) => prop_assert_eq!(file.len(), begin),
            Err(CaptureError { problem: Problem::Cut { at, frames }, .. }) => {
                prop_assert_eq!((at, frames), (begin as u64, whole as u64));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn both_formats_and_byte_orders_are_read() {
    let big_endian = [header(0, 1), record(7, 5, 3, 3, b"abc")].concat();
    assert_eq!(read(&big_endian).unwrap(), [(Duration::new(7, 5000), b"abc".to_vec())]);
    let file = [
        section(),
        interface(1, 6),
        interface(1, 9),
        enhanced(1, 3_000_000_001, 4, b"fine"),
        block(0x0bad, &[0; 8]),
        enhanced(0, 4_000_002, 5, b"micro"),
        block(3, &[&6_u32.to_le_bytes()[..], b"simple"].concat()),
        section(),
        interface(1, 6),
        enhanced(0, 1, 5, b"other"),
    ];
    let expected: Frames = vec![
        (Duration::new(3, 1), b"fine".to_vec()),
        (Duration::new(4, 2000), b"micro".to_vec()),
        (Duration::new(4, 2000), b"simple".to_vec()),
        (Duration::new(0, 1000), b"other".to_vec()),
    ];
    assert_eq!(read(&file.concat()).unwrap(), expected);
}

#[test]
fn what_is_no_capture_of_ethernet_frames_is_named() {
    assert_eq!(said(b""), "a.pcap: it is empty: not even a capture's header is there");
    assert!(said(b"{ \"a\": 1 }").contains("it begins with [7b, 20, 22, 61]"));
    assert!(said(&[0x1f, 0x8b, 8, 0]).contains("decompress it"));
    assert!(said(&header(0, 101)).contains("link type 101"));
    assert!(
        said(&[section(), interface(113, 6), enhanced(0, 0, 1, b"a")].concat()).contains("link type 113")
    );
    let mut version = header(0, 1);
    version[5] = 3;
    assert!(said(&version).contains("no pcap of version 3.4"));
}

#[test]
fn frames_that_are_not_whole_or_too_long_are_named() {
    let one = |record: Vec<u8>| said(&[header(0, 1), record].concat());
    let partly = one(record(0, 0, 96, 1500, &[0; 96]));
    assert!(partly.contains("frame 1 has only the first 96 of its 1500 bytes"), "{partly}");
    let partly = said(&[section(), interface(1, 6), enhanced(0, 0, 1500, &[0; 96])].concat());
    assert!(partly.contains("frame 1 has only the first 96 of its 1500 bytes"), "{partly}");
    let long = one(record(0, 0, u32::MAX, u32::MAX, &[0; 96]));
    assert!(long.contains("frame 1, at byte 24, would have 4294967295 bytes: 65549 are the most"), "{long}");
    let long = one(record(0, 0, 65_550, 65_550, &[0; 65_550]));
    assert!(long.contains("would have 65550 bytes"), "{long}");
    let short = one(record(0, 0, 10, 9, &[0; 10]));
    assert!(short.contains("a frame of 9 bytes cannot have 10 captured ones"), "{short}");
    let promised = said(&[header(64, 1), record(0, 0, 65, 65, &[0; 65])].concat());
    assert!(promised.contains("65 bytes, and by the header 64 at most"), "{promised}");
    let time = one(record(0, 1_000_000, 1, 1, &[0]));
    assert!(time.contains("damaged at byte 24, after 0 whole frames: a frame's time"), "{time}");
}

#[test]
fn damaged_blocks_are_named_and_take_no_memory() {
    let after = |bytes: &[u8]| said(&[&section(), &interface(1, 6), bytes].concat());
    let mut enormous = enhanced(0, 0, 4, b"abcd");
    enormous[4..8].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    assert!(after(&enormous).contains("16777216 are the most"), "{}", after(&enormous));
    let mut odd = enhanced(0, 0, 4, b"abcd");
    odd[4] += 1;
    assert!(after(&odd).contains("damaged at byte 60"), "{}", after(&odd));
    let mut data = enhanced(0, 0, 4, b"abcd");
    data[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(after(&data).contains("damaged at byte 60"), "{}", after(&data));
    assert!(after(&enhanced(7, 0, 4, b"abcd")).contains("damaged"), "{}", after(&enhanced(7, 0, 4, b"abcd")));
    let cut = enhanced(0, 0, 4, b"abcd");
    assert!(after(&cut[..cut.len() - 3]).contains("in the middle of what begins at byte 60, after 0"));
    let late = [section(), interface(1, 0), enhanced(0, 1 << 40, 4, b"abcd")].concat();
    assert!(said(&late).contains("seconds after 1970"), "{}", said(&late));
    let many = interface(1, 6).repeat(5000);
    assert!(after(&many).contains("more than 4096 interfaces"));
}
