//! Agents and their callers: wrong configurations, foreign frames, and all causes that end an agent.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::job::{Structure, configs};
use crate::star::{Meddle, Star};
use tributary_api::{Downlink, JobConfig, Role};
use tributary_host_agent::{AgentError, ServerAgent, WorkerAgent};
use tributary_link::{FramePort, InProcessPort, LinkConfig, link};
use tributary_protocol::{AllReduce, GradientData, Sums, Timers};
use tributary_wire::constants::{INA_HEADER_BYTES, MAX_HOPS};
use tributary_wire::frame::ENCAPSULATION_BYTES;

fn ports() -> (InProcessPort, InProcessPort) {
    let (a, b, _) = link(&LinkConfig { loss: 0.0, seed: 0, queue_frames: 64 }).unwrap();
    (a, b)
}

fn start_worker(config: &JobConfig) -> Result<WorkerAgent, AgentError> {
    WorkerAgent::start(config, Timers::default(), Box::new(ports().0))
}

fn ones(len: usize) -> AllReduce {
    AllReduce { name: "ones".into(), data: GradientData::F32(vec![1.0; len]), weight: 1 }
}

fn reason_of(error: AgentError) -> String {
    let AgentError::Ended { agent, reason } = error else { panic!("{error:?}") };
    assert!(agent.contains("job \"star\""), "{agent}");
    reason
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let (workers, server) = configs(2, Downlink::Multicast);
    let worker = &workers[0];
    let Role::Worker { rank, up, secret, .. } = &worker.role else { panic!() };

    let error = ServerAgent::start(worker, Box::new(ports().0)).err().unwrap();
    assert!(
        matches!(&error, AgentError::OtherRole { job, started_as: "server" } if job == "star"),
        "{error}"
    );
    let error = start_worker(&server).err().unwrap();
    assert!(matches!(error, AgentError::OtherRole { started_as: "worker", .. }), "{error}");

    let error = start_worker(&JobConfig { window: 3, ..worker.clone() }).err().unwrap();
    assert!(matches!(error, AgentError::Config(_)), "{error}");
    let error = start_worker(&JobConfig { ranks: Vec::new(), ..worker.clone() }).err().unwrap();
    assert!(matches!(error, AgentError::Config(_)), "{error}");

    let with = |up| Role::Worker { rank: *rank, up, secret: secret.clone(), confidential: false };
    let too_deep = with(vec![up[0]; usize::from(MAX_HOPS) + 1]);
    let error = start_worker(&JobConfig { role: too_deep, ..worker.clone() }).err().unwrap();
    assert!(matches!(error, AgentError::Frame(_)), "{error}");
    let no_such_child = with(vec![tributary_wire::Hop { child: 64, ..up[0] }]);
    let error = start_worker(&JobConfig { role: no_such_child, ..worker.clone() }).err().unwrap();
    assert!(matches!(error, AgentError::Frame(_)), "{error}");
}

#[test]
fn a_job_name_from_outside_may_hold_anything() {
    let (workers, server) = configs(1, Downlink::Multicast);
    let name = "\0\u{1f525}".repeat(100);
    let agent = start_worker(&JobConfig { name: name.clone(), ..workers[0].clone() }).unwrap();
    agent.stop().unwrap();
    let agent = ServerAgent::start(&JobConfig { name, ..server }, Box::new(ports().0)).unwrap();
    agent.stop().unwrap();
}

/// Damages every eighth frame of each link in one of several ways, and forwards it to its
/// destination.
fn garbage() -> Meddle {
    let mut seen = [0_usize; 4];
    Box::new(move |from, frame| {
        seen[from] += 1;
        let ina = ENCAPSULATION_BYTES;
        match seen[from] % 40 {
            // The frame is cut off, each time at another place.
            0 => frame.truncate(14 + seen[from] * 31 % (frame.len() - 14)),
            // The frame is not IPv4.
            8 => frame[12..14].copy_from_slice(&[0x86, 0xdd]),
            // The IPv4 header is damaged.
            16 => frame[22] ^= 0xff,
            // The INA header has another version.
            24 => frame[ina] ^= 0x70,
            // The frame belongs to another job.
            32 => frame[ina + 3] ^= 0xff,
            _ => {}
        }
    })
}

#[test]
fn frames_that_are_damaged_or_not_ours_are_counted_and_do_no_harm() {
    let star = Star::start(3, Downlink::Multicast, 0.0, garbage());
    for result in star.on_every_worker(|_, worker| worker.all_reduce(ones(20_000)).unwrap()) {
        assert_eq!(result.sums, Sums::F32(vec![3.0; 20_000]));
    }
    let server = star.server.stats().unwrap();
    assert!(server.traffic.malformed > 0 && server.traffic.not_ours > 0, "{server:?}");
    assert!(server.protocol.rejected > 0, "{server:?}");
    let workers: Vec<_> = star.workers.iter().map(|worker| worker.stats().unwrap()).collect();
    for traffic in [&server.traffic].into_iter().chain(workers.iter().map(|worker| &worker.traffic)) {
        assert!(traffic.received > traffic.malformed + traffic.not_ours, "{traffic:?}");
    }
    assert!(workers.iter().map(|worker| worker.protocol.foreign).sum::<u64>() > 0, "{workers:?}");
}

#[test]
fn frames_for_another_host_are_not_ours() {
    let mut seen = [0_usize; 3];
    let flip_destination: Meddle = Box::new(move |from, frame| {
        seen[from] += 1;
        // A result that has no receiver in this job goes to all ports of the hub. A gradient for the wrong node reaches
        // the server.
        match (from, seen[from] % 16) {
            (2, 0) => frame[4] ^= 0xff,
            (0 | 1, 0) => frame[ENCAPSULATION_BYTES + INA_HEADER_BYTES + 1] ^= 0xff,
            _ => {}
        }
    });
    let star = Star::start(2, Downlink::Unicast, 0.0, flip_destination);
    star.on_every_worker(|_, worker| worker.all_reduce(ones(20_000)).unwrap());
    assert!(star.server.stats().unwrap().traffic.not_ours > 0);
    assert!(star.workers.iter().all(|worker| worker.stats().unwrap().traffic.not_ours > 0));
}

#[test]
fn frames_from_another_host_are_not_ours() {
    let mut seen = [0_usize; 3];
    let forge_source: Meddle = Box::new(move |from, frame| {
        seen[from] += 1;
        match seen[from] % 16 {
            // The frame has another source MAC address, or the halves of its source IP address are exchanged, which
            // keeps the checksum correct.
            0 => frame[7] ^= 0xff,
            8 => frame[26..30].rotate_left(2),
            _ => {}
        }
    });
    let star = Star::start(2, Downlink::Multicast, 0.0, forge_source);
    for result in star.on_every_worker(|_, worker| worker.all_reduce(ones(20_000)).unwrap()) {
        assert_eq!(result.sums, Sums::F32(vec![2.0; 20_000]));
    }
    let server = star.server.stats().unwrap();
    assert!(server.traffic.not_ours > 0 && server.traffic.malformed == 0, "{server:?}");
    assert_eq!(server.traffic.received, server.traffic.not_ours + server.protocol.received);
    assert!(star.workers.iter().all(|worker| worker.stats().unwrap().traffic.not_ours > 0));
}

#[test]
fn a_gradient_of_another_members_rank_is_not_ours() {
    let mut seen = [0_usize; 3];
    let forge_rank: Meddle = Box::new(move |from, frame| {
        seen[from] += 1;
        if from < 2 && seen[from] % 16 == 0 {
            // The lower byte of the rank changes, so that one worker's frame claims to be the other worker's frame.
            frame[ENCAPSULATION_BYTES + 5] ^= 1;
        }
    });
    let star = Star::start(2, Downlink::Unicast, 0.0, forge_rank);
    for result in star.on_every_worker(|_, worker| worker.all_reduce(ones(20_000)).unwrap()) {
        assert_eq!(result.sums, Sums::F32(vec![2.0; 20_000]));
    }
    assert!(star.server.stats().unwrap().traffic.not_ours > 0);
}

#[test]
fn ending_an_agent_releases_whoever_waits() {
    let (workers, _) = configs(2, Downlink::Multicast);
    let (port, mut peer) = ports();
    let agent = WorkerAgent::start(&workers[0], Timers::default(), Box::new(port)).unwrap();
    let (mut poll, mut events) = (mio::Poll::new().unwrap(), mio::Events::with_capacity(1));
    peer.register(poll.registry(), mio::Token(0)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| agent.all_reduce(ones(100)));
        // The other worker and the server never answer. Once the first slice has arrived, the worker waits for its
        // result.
        while peer.receive().unwrap().is_none() {
            poll.poll(&mut events, None).unwrap();
        }
        agent.end("the job failed: host w1 has left");
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(reason_of(error), "the job failed: host w1 has left");
    });
    assert_eq!(reason_of(agent.all_reduce(ones(1)).unwrap_err()), "the job failed: host w1 has left");
    assert_eq!(reason_of(agent.stats().unwrap_err()), "the job failed: host w1 has left");
    agent.stop().unwrap();
}

#[test]
fn threads_share_a_worker_and_their_operations_run_in_turn() {
    let star = Star::start(2, Downlink::Multicast, 0.0, Box::new(|_, _| {}));
    let sums = star.on_every_worker(|_, worker| {
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| worker.all_reduce(ones(1_000)).unwrap().sums)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    });
    assert_eq!(sums, vec![vec![Sums::F32(vec![2.0; 1_000]); 4]; 2]);
}

/// A port whose interface disappears after the agent has opened it.
struct BreakingPort {
    port: InProcessPort,
    dropped: mpsc::Sender<()>,
}

impl FramePort for BreakingPort {
    fn send(&mut self, _frame: &[u8]) -> io::Result<()> {
        Err(io::Error::other("cannot send on network interface eth7: gone"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        self.port.receive()
    }

    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()> {
        self.port.register(registry, token)
    }
}

impl Drop for BreakingPort {
    fn drop(&mut self) {
        self.dropped.send(()).unwrap();
    }
}

#[test]
fn an_agent_whose_port_breaks_says_so() {
    let (workers, _) = configs(2, Downlink::Multicast);
    let (dropped, _gone) = mpsc::channel();
    let port = BreakingPort { port: ports().0, dropped };
    let agent = WorkerAgent::start(&workers[0], Timers::default(), Box::new(port)).unwrap();
    let reason = reason_of(agent.all_reduce(ones(100)).unwrap_err());
    assert!(reason.contains("eth7"), "{reason}");
    assert!(reason_of(agent.stats().unwrap_err()).contains("eth7"));
    assert!(reason_of(agent.stop().unwrap_err()).contains("eth7"), "stopping tells, too");
}

#[tokio::test]
async fn how_long_no_result_has_come_counts_over_changes_of_the_job() {
    let (first, (port, _line)) = (Structure::first(2, Downlink::Multicast), ports());
    let worker = WorkerAgent::start(&first.worker(0), Timers::default(), Box::new(port)).unwrap();
    let worker = Arc::new(worker);
    let reducing = Arc::clone(&worker);
    let reducing = tokio::task::spawn_blocking(move || reducing.all_reduce(ones(100)));
    let wait = async |least| loop {
        match worker.situation().await.unwrap().wait {
            Some(wait) if wait.silent >= least => break wait,
            _ => tokio::task::yield_now().await,
        }
    };
    let before = wait(Duration::from_millis(50)).await;
    assert_eq!(before.silent, before.unmoved);
    worker.change(&first.next().worker(0)).await.unwrap();
    let after = wait(before.silent).await;
    assert!(after.silent - after.unmoved >= before.silent, "{before:?} {after:?}");
    worker.end("enough");
    assert_eq!(reason_of(reducing.await.unwrap().unwrap_err()), "enough");
}

#[test]
fn dropping_an_agent_ends_its_thread_and_frees_its_port() {
    let (workers, server) = configs(2, Downlink::Multicast);
    let (dropped, gone) = mpsc::channel();
    let breaking = || Box::new(BreakingPort { port: ports().0, dropped: dropped.clone() });
    drop(WorkerAgent::start(&workers[0], Timers::default(), breaking()).unwrap());
    gone.try_recv().unwrap();
    drop(ServerAgent::start(&server, breaking()).unwrap());
    gone.try_recv().unwrap();
    let agent = ServerAgent::start(&server, breaking()).unwrap();
    agent.end("enough");
    agent.stop().unwrap();
    gone.try_recv().unwrap();
}
