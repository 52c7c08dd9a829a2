//! Tests of in-process links: the received frames, the counters, and the wake-ups of receivers.

use std::thread;
use std::time::Duration;

use mio::{Events, Poll, Token};
use tributary_link::{
    Carried, FramePort, InProcessPort, LinkConfig, LinkError, MAX_FRAME_BYTES, MIN_FRAME_BYTES, link,
};

/// Much longer than any step of these tests takes on any machine. A receiver that sleeps for this
/// time was not woken up.
const PATIENCE: Duration = Duration::from_secs(120);

const LOSSLESS: LinkConfig = LinkConfig { loss: 0.0, seed: 1, queue_frames: 8 };

/// Returns a frame that contains a number.
fn numbered(number: u32) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

fn receive_all(port: &mut InProcessPort) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(frame) = port.receive().unwrap() {
        numbers.push(number_of(frame));
    }
    numbers
}

/// Sends `count` numbered frames, each after the previous one was received. Returns the numbers that
/// arrived.
fn survivors(from: &mut InProcessPort, to: &mut InProcessPort, count: u32) -> Vec<u32> {
    let mut arrived = Vec::new();
    for number in 0..count {
        from.send(&numbered(number)).unwrap();
        arrived.extend(receive_all(to));
    }
    arrived
}

#[test]
fn frames_arrive_whole_and_in_order_both_ways() {
    let (mut a, mut b, meter) = link(&LOSSLESS).unwrap();
    for len in [MIN_FRAME_BYTES, 1_114, 64, MAX_FRAME_BYTES] {
        let frame: Vec<u8> = (0..len).map(|at| at as u8).collect();
        a.send(&frame).unwrap();
        b.send(&frame[..MIN_FRAME_BYTES]).unwrap();
        assert_eq!(b.receive().unwrap(), Some(&frame[..]));
        assert_eq!(a.receive().unwrap(), Some(&frame[..MIN_FRAME_BYTES]));
    }
    assert_eq!(b.receive().unwrap(), None);
    let bytes = (MIN_FRAME_BYTES + 1_114 + 64 + MAX_FRAME_BYTES) as u64;
    assert_eq!(meter.a_to_b.read(), Carried { frames: 4, bytes, lost: 0, dropped: 0 });
    assert_eq!(meter.b_to_a.read(), Carried { frames: 4, bytes: 56, lost: 0, dropped: 0 });
}

#[test]
fn frames_that_no_wire_carries_are_refused() {
    let (mut a, mut b, meter) = link(&LOSSLESS).unwrap();
    for len in [0, MIN_FRAME_BYTES - 1, MAX_FRAME_BYTES + 1] {
        let error = a.send(&vec![0; len]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{len} bytes");
    }
    assert_eq!(survivors(&mut a, &mut b, 1), [0], "the port works on");
    assert_eq!(meter.a_to_b.read().frames, 1);
}

#[test]
fn a_full_queue_drops_the_newest_and_counts() {
    let (mut a, mut b, meter) = link(&LOSSLESS).unwrap();
    for number in 0..11 {
        a.send(&numbered(number)).unwrap();
    }
    assert_eq!(receive_all(&mut b), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(meter.a_to_b.read(), Carried { frames: 8, bytes: 8 * 64, lost: 0, dropped: 3 });
    assert_eq!(survivors(&mut a, &mut b, 3), [0, 1, 2], "there is room again");
}

#[test]
fn the_seed_alone_decides_what_is_lost() {
    let lossy = |seed| link(&LinkConfig { loss: 0.3, seed, queue_frames: 8 }).unwrap();
    let fates = |seed| {
        let (mut a, mut b, meter) = lossy(seed);
        let (there, back) = (survivors(&mut a, &mut b, 10_000), survivors(&mut b, &mut a, 10_000));
        let carried = meter.a_to_b.read();
        assert_eq!((carried.frames, carried.bytes), (10_000, 640_000), "lost frames were carried");
        assert_eq!(carried.lost, 10_000 - there.len() as u64);
        (there, back)
    };
    let (there, back) = fates(42);
    assert!((2_700..3_300).contains(&(10_000 - there.len())), "{} of 10,000 lost", 10_000 - there.len());
    assert_ne!(there, back, "the directions lose different frames");
    assert_eq!(fates(42), (there.clone(), back));
    assert_ne!(fates(43).0, there);

    // The same frames are lost when the receiver is slow and the queue overflows.
    let (mut a, mut b, _) = lossy(42);
    for number in 0..100 {
        a.send(&numbered(number)).unwrap();
    }
    let early = receive_all(&mut b);
    assert_eq!(early, there[..early.len()]);
    assert_eq!(early.len(), 8);
}

#[test]
fn nonsense_is_refused() {
    for loss in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(link(&LinkConfig { loss, ..LOSSLESS }), Err(LinkError::BadLoss(_))), "{loss}");
    }
    assert!(matches!(link(&LinkConfig { queue_frames: 0, ..LOSSLESS }), Err(LinkError::EmptyQueue)));
    let (mut a, mut b, meter) = link(&LinkConfig { loss: 1.0, ..LOSSLESS }).unwrap();
    assert!(survivors(&mut a, &mut b, 100).is_empty());
    assert_eq!(meter.a_to_b.read().lost, 100);
}

/// Waits for an edge, then returns all frames that have arrived.
struct Sleeper {
    poll: Poll,
    events: Events,
    port: InProcessPort,
}

impl Sleeper {
    fn new(mut port: InProcessPort) -> Self {
        let poll = Poll::new().unwrap();
        port.register(poll.registry(), Token(3)).unwrap();
        Self { poll, events: Events::with_capacity(8), port }
    }

    /// Panics if a wake-up is lost, that is, if no frame arrives within `PATIENCE`.
    fn wait(&mut self) -> Vec<u32> {
        loop {
            self.poll.poll(&mut self.events, Some(PATIENCE)).unwrap();
            assert!(!self.events.is_empty(), "a wake-up was lost");
            let numbers = receive_all(&mut self.port);
            if !numbers.is_empty() {
                return numbers;
            }
        }
    }
}

#[test]
fn frames_sent_before_registration_are_reported() {
    let (mut a, b, _) = link(&LOSSLESS).unwrap();
    a.send(&numbered(5)).unwrap();
    a.flush().unwrap();
    assert_eq!(Sleeper::new(b).wait(), [5]);
}

#[test]
fn a_busy_receiver_is_not_rung() {
    let (mut a, b, _) = link(&LOSSLESS).unwrap();
    let mut b = Sleeper::new(b);
    a.send(&numbered(0)).unwrap();
    a.flush().unwrap();
    assert_eq!(b.wait(), [0]);
    // The first flush rings. The second finds the bell disarmed, so both cause only one edge.
    for number in [1, 2] {
        a.send(&numbered(number)).unwrap();
        a.flush().unwrap();
    }
    assert_eq!(b.wait(), [1, 2]);
    b.poll.poll(&mut b.events, Some(Duration::ZERO)).unwrap();
    assert!(b.events.is_empty());
}

/// Answers each frame on arrival before it checks for the next frame.
fn echo(mut b: Sleeper, count: u32) {
    let mut next = 0;
    while next < count {
        while let Some(frame) = b.port.receive().unwrap() {
            assert_eq!(number_of(frame), next);
            b.port.send(&numbered(next)).unwrap();
            b.port.flush().unwrap();
            next += 1;
        }
        if next < count {
            b.poll.poll(&mut b.events, Some(PATIENCE)).unwrap();
            assert!(!b.events.is_empty(), "a wake-up was lost");
        }
    }
}

/// One side never sleeps. Its next frame arrives just when the other side has found no frame and is
/// about to sleep.
#[test]
fn no_wakeup_is_lost_on_the_way_to_sleep() {
    const ROUNDS: u32 = 100_000;
    let (mut a, b, _) = link(&LOSSLESS).unwrap();
    let b = Sleeper::new(b);
    let echo = thread::spawn(move || echo(b, ROUNDS));
    for number in 0..ROUNDS {
        a.send(&numbered(number)).unwrap();
        a.flush().unwrap();
        // A varying pause lets the frame arrive at every instruction of the other side's way to sleep.
        (0..number % 64).for_each(|_| std::hint::spin_loop());
        for look in 1_u32.. {
            if let Some(frame) = a.receive().unwrap() {
                assert_eq!(number_of(frame), number);
                break;
            }
            if look.is_multiple_of(256) {
                assert!(!echo.is_finished(), "the other side has given up");
                thread::yield_now();
            }
        }
    }
    echo.join().unwrap();
}

/// Both sides sleep until the other side has sent a frame.
#[test]
fn no_wakeup_is_lost_between_two_sleepers() {
    const ROUNDS: u32 = 20_000;
    let (a, b, _) = link(&LOSSLESS).unwrap();
    let b = Sleeper::new(b);
    let echo = thread::spawn(move || echo(b, ROUNDS));
    let mut a = Sleeper::new(a);
    for number in 0..ROUNDS {
        a.port.send(&numbered(number)).unwrap();
        a.port.flush().unwrap();
        assert_eq!(a.wait(), [number]);
    }
    echo.join().unwrap();
}

/// The sender sends bursts of every size, and the receiver sleeps whenever it is faster.
#[test]
fn no_wakeup_is_lost_in_bursts() {
    const FRAMES: u32 = 200_000;
    let (mut a, b, meter) = link(&LinkConfig { queue_frames: FRAMES as usize, ..LOSSLESS }).unwrap();
    let receiver = thread::spawn(move || {
        let mut b = Sleeper::new(b);
        let mut received = 0;
        while received < FRAMES {
            for number in b.wait() {
                assert_eq!(number, received);
                received += 1;
            }
        }
    });
    let (mut sent, mut burst) = (0, 0);
    while sent < FRAMES {
        burst = (burst + 1) % 100;
        for number in sent..(sent + burst).min(FRAMES) {
            a.send(&numbered(number)).unwrap();
        }
        a.flush().unwrap();
        sent += burst;
        thread::yield_now();
    }
    receiver.join().unwrap();
    assert_eq!(meter.a_to_b.read().dropped, 0);
}
