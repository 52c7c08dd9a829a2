//! Tests that recorded packets of an earlier generation of a job do not help an attacker. They need
//! root; without root, they print that they are skipped.

use std::thread;
use std::time::{Duration, Instant};

use tributary_link::{FramePort, InterfacePort};
use tributary_testkit::network::{Daemon, Network};
use tributary_wire::frame::{FrameView, emit, frame_len};
use tributary_wire::{Header, Message, Seq};

const JOB: &str = "recorded";
/// The number of frames that are sent at once. It is limited, because every ring on the path has a
/// limit.
const BURST: usize = 16;
/// The longest wait for a step; every step needs far less time on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn what_an_earlier_generation_sent_is_in_no_sum() {
    let Some(network) = Network::up("recorded", "two-leaves-4.toml") else { return };
    let _switches = network.start_switches();
    let _controller = Daemon::start(network.controller_command());
    let _agents = network.start_agents();
    let (server, mut clients) = network.start_endless_job(JOB);
    let before = record(&network, 200);
    clients.pop().unwrap().kill();
    network.wait_for_change(JOB, "w3 is gone");

    // The unchanged packets are rejected, because the switch does not know their generation any more.
    let rejected = rejected(&network) + before.len() as u64;
    send(&network, &before);
    let deadline = Instant::now() + PATIENCE;
    while self::rejected(&network) < rejected {
        assert!(Instant::now() < deadline, "an earlier generation's frames were not turned away");
    }
    let progress = network.progress(JOB);
    network.wait_for_progress(JOB, progress + 200);

    // With the present job id and the numbers of slices in flight, the packets replace the packets of w0.
    // With this ability, an attacker can stop the job, but not change its sums.
    let now = record(&network, 1).remove(0);
    let today = FrameView::parse(&now).unwrap();
    let renewed: Vec<_> = before.iter().zip(0..).map(|(frame, ahead)| renew(frame, &today, ahead)).collect();
    send(&network, &renewed);
    network.ask(&["jobs", "end", JOB, "--token-file", &network.token(JOB)]);
    for daemon in clients.into_iter().chain([server]) {
        let (_, log) = daemon.end();
        assert!(!log.contains(NOT_THE_SUM), "{log}");
    }
}

/// The message of a client that has accepted a wrong sum.
const NOT_THE_SUM: &str = "the sum of element";

/// Records frames that w0 is sending, as its switch receives them.
fn record(network: &Network, frames: usize) -> Vec<Vec<u8>> {
    let interface = format!("leaf0-eth{}", port(network));
    network.inside("leaf0", || {
        let mut port = InterfacePort::open(&interface).unwrap();
        let (mut recorded, deadline) = (Vec::new(), Instant::now() + PATIENCE);
        while recorded.len() < frames {
            match port.receive().unwrap() {
                Some(frame)
                    if FrameView::parse(frame).is_ok_and(|frame| frame.message().values().is_some()) =>
                {
                    recorded.push(frame.to_vec());
                }
                Some(_) => {}
                None => thread::yield_now(),
            }
            assert!(Instant::now() < deadline, "w0 sends nothing");
        }
        recorded
    })
}

/// Sends frames from w0's interface.
fn send(network: &Network, frames: &[Vec<u8>]) {
    network.inside("w0", || {
        let mut port = InterfacePort::open(&network.interface("w0")).unwrap();
        for burst in frames.chunks(BURST) {
            burst.iter().for_each(|frame| port.send(frame).unwrap());
            port.flush().unwrap();
        }
    });
}

/// Returns a recorded frame with the generation of `today`, and with a slice number that is `ahead`
/// slices later.
fn renew(recorded: &[u8], today: &FrameView<'_>, ahead: u32) -> Vec<u8> {
    let recorded = FrameView::parse(recorded).unwrap();
    let now = today.message().header();
    let header =
        Header { job: now.job, seq: Seq(now.seq.0.wrapping_add(ahead)), ..*recorded.message().header() };
    let hops: Vec<_> = today.message().hops().collect();
    let values: Vec<i32> = recorded.message().values().unwrap().iter().collect();
    let message = Message { header, hops: &hops, values: Some(&values) };
    let mut frame = vec![0; frame_len(&message)];
    emit(recorded.header(), &message, &mut frame).unwrap();
    frame
}

/// Returns the number of packets from w0 that its switch has rejected without counting them for a job.
fn rejected(network: &Network) -> u64 {
    let counters = network.ask(&["counters", "--switch", "leaf0"]);
    counters["switches"][0]["ports"][port(network).to_string()]["rejected"]["packets"].as_u64().unwrap()
}

/// Returns the number of the switch's port that leads to w0.
fn port(network: &Network) -> u16 {
    let [leaf, host] = ["leaf0", "w0"].map(|name| network.topology.find(name).unwrap());
    network.topology.forwarding().next(leaf, host).unwrap().port
}
