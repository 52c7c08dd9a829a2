//! Captures as ports: the order of frames, the written files, and the errors of wrong files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;
use tributary_capture::{
    CaptureError, CaptureReader, CaptureWriter, PortFiles, Recorded, ReplayPort, Resolution, replay,
};
use tributary_link::{FramePort, LinkConfig, link};

fn write(path: &Path, resolution: Resolution, frames: &[(u64, &[u8])]) {
    let mut writer = CaptureWriter::create(path, resolution).unwrap();
    for (nanoseconds, frame) in frames {
        writer.write(Duration::from_nanos(*nanoseconds), frame).unwrap();
    }
    writer.flush().unwrap();
}

fn read(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push((u64::try_from(frame.at.as_nanos()).unwrap(), frame.bytes.to_vec()));
    }
    frames
}

fn files(input: Option<PathBuf>, output: Option<PathBuf>) -> PortFiles {
    PortFiles { input, output }
}

/// Works in rounds like a switch, and sends each frame back by the other port, until no frame
/// arrives.
fn exchange(ports: &mut [ReplayPort; 2]) -> Vec<(usize, Vec<u8>)> {
    let mut order = Vec::new();
    loop {
        let mut any = false;
        for from in [0, 1] {
            let mut taken = Vec::new();
            while let Some(frame) = ports[from].receive().unwrap() {
                taken.push(frame.to_vec());
            }
            any |= !taken.is_empty();
            let frames: Vec<_> = taken.iter().map(Vec::as_slice).collect();
            ports[1 - from].send_all(&frames).unwrap();
            order.extend(taken.into_iter().map(|frame| (from, frame)));
        }
        if !any {
            return order;
        }
    }
}

fn start(files: &[PortFiles; 2]) -> ([ReplayPort; 2], mpsc::Receiver<Option<CaptureError>>) {
    let (sender, ended) = mpsc::channel();
    let ports = replay(files, &[], move |error| sender.send(error).unwrap()).unwrap();
    (ports.try_into().unwrap(), ended)
}

#[test]
fn frames_come_in_the_order_of_their_times_and_leave_with_the_time_of_what_caused_them() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(
        &path("a"),
        Resolution::Microseconds,
        &[(1000, b"a1"), (5000, b"a5"), (5000, b"a5 again"), (9000, b"a9")],
    );
    write(&path("b"), Resolution::Microseconds, &[(2000, b"b2"), (5000, b""), (7000, b"b7")]);
    let ports = [files(Some(path("a")), Some(path("a out"))), files(Some(path("b")), Some(path("b out")))];
    let (mut ports, ended) = start(&ports);
    let order: Vec<_> = exchange(&mut ports)
        .into_iter()
        .map(|(port, frame)| (port, String::from_utf8(frame).unwrap()))
        .collect();
    let expected = [(0, "a1"), (1, "b2"), (0, "a5"), (0, "a5 again"), (1, ""), (1, "b7"), (0, "a9")];
    assert_eq!(order, expected.map(|(port, frame)| (port, frame.to_owned())));
    assert!(ended.recv().unwrap().is_none());
    // The test has closed no file, so a process that ends by a signal leaves the same files.
    let frame = |at, bytes: &[u8]| (at, bytes.to_vec());
    assert_eq!(read(&path("a out")), [frame(2000, b"b2"), frame(5000, b""), frame(7000, b"b7")]);
    assert_eq!(
        read(&path("b out")),
        [frame(1000, b"a1"), frame(5000, b"a5"), frame(5000, b"a5 again"), frame(9000, b"a9")]
    );
    let [received, sent] = [ports[0].meter().received.read(), ports[0].meter().sent.read()];
    assert_eq!((received.frames, received.bytes, sent.frames, sent.bytes), (4, 14, 3, 4));
}

#[test]
fn times_finer_than_microseconds_are_kept() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("a"), Resolution::Nanoseconds, &[(1001, b"a")]);
    let (mut ports, _ended) = start(&[files(Some(path("a")), None), files(None, Some(path("out")))]);
    exchange(&mut ports);
    assert_eq!(read(&path("out")), [(1001, b"a".to_vec())]);
}

#[test]
fn a_damaged_capture_ends_where_the_damage_is_and_the_others_go_on() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("a"), Resolution::Microseconds, &[(1000, b"a1"), (2000, b"a2")]);
    write(&path("b"), Resolution::Microseconds, &[(3000, b"b3")]);
    let file = File::options().write(true).open(path("a")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let (mut ports, ended) = start(&[files(Some(path("a")), None), files(Some(path("b")), None)]);
    assert_eq!(exchange(&mut ports), [(0, b"a1".to_vec()), (1, b"b3".to_vec())]);
    let error = ended.recv().unwrap().unwrap().to_string();
    assert!(error.contains("/a: it was cut off") && error.contains("after 1 whole frames"), "{error}");
}

#[test]
fn a_file_that_is_written_to_is_given_once_and_nothing_is_emptied_before_that_is_known() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let refused = |files: &[PortFiles]| replay(files, &[], |_| ()).map(drop).unwrap_err().to_string();
    write(&path("a"), Resolution::Microseconds, &[(1000, b"a1")]);
    fs::hard_link(path("a"), path("link")).unwrap();
    for other in ["a", "link"] {
        let error = refused(&[files(Some(path("a")), None), files(None, Some(path(other)))]);
        assert!(error.contains("given twice"), "{error}");
    }
    assert_eq!(read(&path("a")).len(), 1);
    let error = refused(&[files(None, Some(path("out"))), files(None, Some(path("out")))]);
    assert!(error.contains("out: it is given twice"), "{error}");
    // Two ports may receive the same frames.
    assert!(replay(&[files(Some(path("a")), None), files(Some(path("a")), None)], &[], |_| ()).is_ok());
    assert!(refused(&[files(Some(path("none")), None)]).contains("none: it cannot be opened"));
    assert!(refused(&[files(Some(folder.path().into()), None)]).contains("not a regular file"));
    assert!(refused(&[files(None, Some(folder.path().into()))]).contains("not a regular file"));
    assert!(refused(&[files(None, Some(path("no/folder")))]).contains("cannot be created"));
}

#[test]
fn a_recorded_port_leaves_what_it_received_and_sent() {
    let folder = TempDir::new().unwrap();
    let (port, mut peer, _) = link(&LinkConfig { loss: 0.0, seed: 1, queue_frames: 8 }).unwrap();
    let mut port = Recorded::new(port, folder.path(), "s1-eth1").unwrap();
    peer.send_all(&[&[1; 20], &[2; 20]]).unwrap();
    assert_eq!(port.receive().unwrap(), Some(&[1; 20][..]));
    assert_eq!(port.receive().unwrap(), Some(&[2; 20][..]));
    assert_eq!(port.receive().unwrap(), None);
    port.send_all(&[&[3; 20]]).unwrap();
    port.send(&[4; 20]).unwrap();
    port.flush().unwrap();
    assert_eq!(peer.receive().unwrap(), Some(&[3; 20][..]));
    let frames =
        |name: &str| read(&folder.path().join(name)).into_iter().map(|(_, frame)| frame).collect::<Vec<_>>();
    assert_eq!(frames("s1-eth1_in.pcap"), [vec![1; 20], vec![2; 20]]);
    assert_eq!(frames("s1-eth1_out.pcap"), [vec![3; 20], vec![4; 20]]);
}
