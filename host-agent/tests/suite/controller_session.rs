//! Sessions of daemons with a controller over loopback TCP. The cables are in-process links.

use std::sync::Arc;
use std::time::Duration;

use crate::directory::{Directory, LONG_PROBE_BYTES, NODE, TOKEN};
use crate::fabric::Fabric;
use crate::hosts::reduce;
use crate::line::{Condition, Line};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tributary_api::v1::{self, host_order::Order, job_event::Event};
use tributary_client::{Job, JoinOptions, Operation};
use tributary_host_agent::{Cable, ControllerSession, ControllerSessionConfig, OpenPort, Servers, open_once};
use tributary_link::{FramePort, LinkConfig, link};
use tributary_transport::Remote;
use tributary_wire::{MacAddr, NodeId, Probe};

fn config(host: &str, controller: &Remote) -> ControllerSessionConfig {
    ControllerSessionConfig {
        host: host.into(),
        controller: controller.clone(),
        version: "1.2.3".into(),
        serves: true,
        works: false,
        interface: None,
        cable: None,
    }
}

/// Returns the servers of a host that has no ports.
fn servers(host: &str, controller: &Remote) -> Servers {
    let none: OpenPort = Arc::new(|| panic!("nobody has asked for a port"));
    Servers::new(host.into(), controller.clone(), none)
}

fn open_session(config: ControllerSessionConfig) -> ControllerSession {
    let servers = servers(&config.host, &config.controller);
    ControllerSession::of_servers(config, servers)
}

#[tokio::test]
async fn a_daemon_says_who_it_is_and_is_missed_when_it_is_gone() {
    let mut directory = Directory::start(Vec::new()).await;
    let session = open_session(config("w0", &directory.remote()));
    session.welcomed().await.unwrap();
    assert_eq!(directory.heard(), ["w0 connected: version 1.2.3, [], serves true, works false"]);
    drop(session);
    directory.wait_for("w0 disconnected").await;
}

#[tokio::test]
async fn a_controller_that_does_not_want_a_daemon_says_why() {
    let directory = Directory::start(Vec::new()).await;
    let error = open_session(config("stranger", &directory.remote())).welcomed().await.unwrap_err();
    let said = "the controller refuses this host: there is no host \"stranger\"";
    assert_eq!(error.to_string(), said);
}

#[tokio::test]
async fn a_controller_that_is_away_is_waited_for() {
    let mut directory = Directory::start(Vec::new()).await;
    let mut line = Line::to(directory.address()).await;
    line.set(Condition::Cut);
    let session = open_session(config("w0", &line.remote()));
    tokio::select! {
        welcomed = session.welcomed() => panic!("{welcomed:?} by nobody"),
        () = sleep(Duration::from_millis(300)) => {}
    }
    // The daemon treats a controller that hangs like a controller that has gone.
    for condition in [Condition::Cut, Condition::Stopped] {
        line.set(Condition::Whole);
        directory.wait_for("w0 connected: version").await;
        session.welcomed().await.unwrap();
        line.set_and_wait(condition).await;
    }
    line.set(Condition::Whole);
    directory.wait_for("w0 connected: version").await;
}

/// Returns the two ends of a cable between hosts with these addresses.
fn cables(addresses: [MacAddr; 2]) -> [Cable; 2] {
    let (a, b, _) = link(&LinkConfig { loss: 0.0, seed: 0, queue_frames: 64 }).unwrap();
    let cable = |address, port| Cable { address, open: open_once(port) };
    [cable(addresses[0], a), cable(addresses[1], b)]
}

async fn next_frame(end: &mut dyn FramePort) -> Vec<u8> {
    loop {
        if let Some(frame) = end.receive().unwrap() {
            return frame.to_vec();
        }
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn probes_that_come_out_of_a_cable_are_told() {
    let directory = Directory::start(Vec::new()).await;
    directory.probe_every(5);
    let own = MacAddr::new(2, 0, 0, 0, 0, 9);
    let [cable, end] = cables([own, MacAddr::zero()]);
    let mut end = (end.open)().unwrap();
    let session =
        open_session(ControllerSessionConfig { cable: Some(cable), ..config("w0", &directory.remote()) });
    session.welcomed().await.unwrap();
    assert!(directory.heard()[0].contains("[2, 0, 0, 0, 0, 9]"), "the controller compares its address");

    let node = |id| NodeId::new(id).unwrap();
    for bytes in [60, LONG_PROBE_BYTES, 60] {
        let frame = next_frame(&mut *end).await;
        assert_eq!(Probe::parse(&frame), Ok(Probe { node: node(NODE as u16), port: 1 }));
        assert_eq!((&frame[6..12], frame.len()), (&own.octets()[..], bytes as usize));
    }

    let probe = Probe { node: node(7), port: 3 };
    let [short, long] = [60, 900].map(|bytes| probe.to_long_frame(MacAddr::zero(), bytes));
    for frame in [&short[..], &long, &[0xff; 60], &short] {
        end.send(frame).unwrap();
    }
    end.flush().unwrap();
    // A heartbeat may leave before the long probe has arrived.
    let heard = loop {
        match directory.heartbeat("w0").and_then(|heartbeat| heartbeat.probes.into_iter().next()) {
            Some(heard) if heard.bytes > 60 => break heard,
            _ => sleep(Duration::from_millis(1)).await,
        }
    };
    assert_eq!(heard, v1::HeardProbe { node: 7, port: 3, bytes: 900 });
}

#[tokio::test]
async fn a_cable_is_probed_while_the_controller_is_away() {
    let directory = Directory::start(Vec::new()).await;
    directory.probe_every(5);
    let mut line = Line::to(directory.address()).await;
    let [cable, end] = cables([MacAddr::zero(); 2]);
    let mut end = (end.open)().unwrap();
    let session =
        open_session(ControllerSessionConfig { cable: Some(cable), ..config("w0", &line.remote()) });
    session.welcomed().await.unwrap();
    next_frame(&mut *end).await;

    line.set_and_wait(Condition::Cut).await;
    // The daemon may not have noticed the cut yet.
    while timeout(Duration::from_millis(1), session.welcomed()).await.is_ok() {
        yield_now().await;
    }
    while end.receive().unwrap().is_some() {}
    let frame = timeout(Duration::from_secs(10), next_frame(&mut *end)).await.unwrap();
    assert!(Probe::parse(&frame).is_ok());
}

async fn sum(job: &mut Job, value: f32) -> f32 {
    let mut values = [value; 10];
    reduce(job, &mut values, Operation::whole::<f32>()).await.unwrap();
    values[0]
}

#[tokio::test]
async fn an_agent_tells_what_its_processes_do() {
    let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    let config = config("w0", &fabric.directory.remote());
    let session = fabric.agents[0].open_session(ControllerSessionConfig { works: true, ..config });
    session.welcomed().await.unwrap();
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    for _ in 0..3 {
        tokio::join!(sum(&mut first, 1.0), sum(&mut second, 1.0));
    }
    let progress = async |is: fn(&v1::JobProgress) -> bool| loop {
        match fabric.directory.heartbeat("w0").and_then(|heartbeat| heartbeat.jobs.first().cloned()) {
            Some(progress) if is(&progress) => break progress,
            _ => sleep(Duration::from_millis(1)).await,
        }
    };
    let done = progress(|progress| progress.operations == 3).await;
    assert_eq!((done.job.as_str(), done.stalled_milliseconds), ("star", 0));
    assert!(done.step_nanoseconds > 0);
    // One process waits for the other.
    let waiting = tokio::spawn(async move { sum(&mut first, 1.0).await });
    progress(|progress| progress.stalled_milliseconds >= 100).await;
    assert_eq!(sum(&mut second, 2.0).await, 3.0);
    assert_eq!(waiting.await.unwrap(), 3.0);
}

#[tokio::test]
async fn a_host_that_works_serves_its_own_job_when_it_has_to() {
    // The ports of the first host lead to its worker's addresses and to the second server's addresses.
    let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    let servers = fabric.second_server("w0");
    let session = ControllerSession::of_servers(config("w0", &fabric.directory.remote()), servers);
    session.welcomed().await.unwrap();
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    assert_eq!(tokio::join!(sum(&mut first, 1.0), sum(&mut second, 1.0)), (2.0, 2.0));

    fabric.relieve().await;
    fabric.structure = fabric.structure.next();
    let progress = fabric.prepare().await;
    let dues = progress["w0"].dues.iter().copied().map(tributary_wire::Seq).collect();
    let order = Order::Serve(v1::Serve { job: "star".into(), token: TOKEN.to_vec() });
    // The controller sends the order twice, because after an interruption it does not know whether it has sent it.
    fabric.directory.order("w0", order.clone()).await;
    fabric.directory.wait_for("w0 as the server joins").await;
    fabric.directory.order("w0", order).await;
    fabric.structure.server = 1;
    let take_over = tributary_api::TakeOver { dues, finished: Vec::new() };
    let config = fabric.structure.server_after(Some(take_over));
    fabric.directory.tell("w0 as the server", Event::Start((&config).into())).await;
    fabric.change_workers(&[]).await;
    assert_eq!(tokio::join!(sum(&mut first, 1.0), sum(&mut second, 4.0)), (5.0, 5.0));

    // The second process waits, and the host reports that its frames arrive.
    let rank = second.rank();
    let waiting = tokio::spawn(async move { sum(&mut second, 1.0).await });
    let asks = |heartbeat: &v1::Heartbeat| {
        heartbeat.served.iter().any(|served| served.job == "star" && served.asking_ranks == [rank])
    };
    while !fabric.directory.heartbeat("w0").is_some_and(|heartbeat| asks(&heartbeat)) {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(sum(&mut first, 1.0).await, 2.0);
    assert_eq!(waiting.await.unwrap(), 2.0);
    fabric.directory.tell("w0 as the server", Event::Ended(v1::JobEnded {})).await;
    let joins = fabric.directory.heard().into_iter().filter(|heard| heard == "w0 as the server joins");
    assert_eq!(joins.count(), 1);
}
