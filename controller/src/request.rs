//! Checks a CreateJob request against the topology.

use std::num::NonZeroU16;
use std::time::Duration;

use thiserror::Error;
use tributary_api::{MAX_JOB_NAME, v1};
use tributary_planner::{Aggregation, Downlink, JobRequest, Member};
use tributary_protocol::{DEFAULT_WINDOW, MAX_WINDOW, MOST_STRIPES, Stripe};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::SliceWidth;

use crate::jobs::{OnDegraded, Terms};

/// The default gradient size for estimates of the speed-up: a million values.
const DEFAULT_GRADIENT_BYTES: u64 = 4_000_000;
/// The default time limit for a job's members to join.
///
/// It is long enough for a cluster's scheduler to start the members. It is limited so that an abandoned job returns its
/// slots.
const DEFAULT_JOIN_DEADLINE: Duration = Duration::from_secs(3600);
/// The default of θ: 10 % of the processes.
const DEFAULT_THETA: f64 = 0.1;
/// The rate in bit/s for which one thread of an agent suffices.
/// An agent needs about a second for each GiB.
const RATE_OF_THREAD: u64 = 7_000_000_000;
/// The number of a host's processors for each thread of a job. The training needs the others.
const PROCESSORS_FOR_THREAD: u32 = 4;
/// The upper limit for join deadlines. It is longer than any useful deadline.
const LONGEST_JOIN_DEADLINE: Duration = Duration::from_secs(366 * 24 * 3600);

/// The reason why a request is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum RequestError {
    /// The name contains characters that could not be displayed or typed, or has a wrong length.
    #[error("bad job name {0:?}: use 1 to {MAX_JOB_NAME} of a-z, A-Z, 0-9, '-', '_' and '.'")]
    Name(String),
    /// A node that the request names is not in the topology.
    #[error("host {host:?} is not in topology {topology:?}")]
    UnknownHost {
        /// The name in the request.
        host: String,
        /// The topology's name.
        topology: String,
    },
    /// A field has a value that this controller does not know.
    #[error("{field} is {value}, which this controller does not know")]
    Unknown {
        /// The field's name.
        field: &'static str,
        /// The field's value.
        value: i32,
    },
    /// The window is not a power of two, or is too large.
    #[error("a window of {0} slices: use a power of two, {MAX_WINDOW} at most")]
    Window(u32),
    /// The number of threads is not a power of two, or is too large.
    #[error("{threads} threads: use a power of two, {most} at most ({MOST_STRIPES}, and the job's window)")]
    Threads {
        /// The number of threads in the request.
        threads: u32,
        /// The largest number that this job may have.
        most: u32,
    },
    /// A server that reads the sums has one thread.
    #[error("{0} threads: a job whose server reads the sums has one")]
    ThreadsOfReader(u32),
    /// θ is not between 0 and 1.
    #[error("theta is {0}: it is a share of the processes, from 0 to 1")]
    Theta(f64),
    /// The job is rigid, but should continue without degraded processes. A rigid job fails when it loses a
    /// member.
    #[error("a rigid job cannot go on without degraded processes: leave one of the two out")]
    RigidAndDegraded,
    /// The number of training processes does not fit in 16 bits.
    #[error("{0} training processes on a host: a job may have 1 to 65535")]
    Processes(u32),
    /// The topology has no server, and the request does not name one.
    #[error("the topology has no server: name one")]
    NoServer,
}

/// Returns the requested job. Fields that the request leaves out come from the topology.
/// `widest` is the widest slice that the switches support.
pub(crate) fn job(
    topology: &Topology,
    widest: SliceWidth,
    request: &v1::CreateJobRequest,
) -> Result<JobRequest, RequestError> {
    check_name(&request.name)?;
    let window = window(request);
    if !window.is_power_of_two() || window > MAX_WINDOW {
        return Err(RequestError::Window(window));
    }
    let named: Vec<_> = request.workers.iter().map(|name| host(topology, name)).collect::<Result<_, _>>()?;
    let server = match request.server.as_str() {
        "" => topology.servers().first().copied().ok_or(RequestError::NoServer)?,
        name => host(topology, name)?,
    };
    let bytes = request.gradient_bytes;
    let job = JobRequest {
        workers: Member::ranked(if named.is_empty() { topology.workers() } else { named }),
        server,
        aggregation: aggregation(request.aggregation)?,
        downlink: downlink(request.downlink)?,
        width: widest,
        window,
        gradient_bytes: if bytes == 0 { DEFAULT_GRADIENT_BYTES } else { bytes },
    };
    Ok(job.with_widest_slices(topology, widest))
}

/// Returns the number of threads of a job whose creator has not set it.
/// It is what the slowest host's link needs, and at most a quarter of the processors of each host.
/// `processors` returns the number of a host's processors; `None` if it is unknown.
pub(crate) fn default_threads(
    topology: &Topology,
    job: &JobRequest,
    processors: impl Fn(&str) -> Option<u32>,
) -> u32 {
    let hosts = job.workers.iter().map(|member| member.host).chain([job.server]);
    let of_host = |host: NodeKey| {
        let links = topology.neighbours(host).into_iter();
        let rate = links.map(|via| topology[via.link].rate).max().unwrap_or_default();
        let needed = rate.div_ceil(RATE_OF_THREAD).min(MOST_STRIPES.into()) as u32;
        let allowed = processors(&topology[host].name).unwrap_or_default() / PROCESSORS_FOR_THREAD;
        (needed.max(1).next_power_of_two(), allowed)
    };
    let (needed, allowed) = hosts
        .map(of_host)
        .fold((MOST_STRIPES, u32::MAX), |(needed, allowed), host| (needed.min(host.0), allowed.min(host.1)));
    let most = needed.min(allowed).min(job.window);
    1 << most.max(1).ilog2()
}

/// Returns the terms that the job's creator sets. `default_threads` is the number of threads of a job
/// whose creator has not set it.
pub(crate) fn terms(
    request: &v1::CreateJobRequest,
    default_threads: impl FnOnce() -> u32,
) -> Result<Terms, RequestError> {
    let join_deadline = match request.join_deadline_milliseconds {
        0 => DEFAULT_JOIN_DEADLINE,
        milliseconds => Duration::from_millis(milliseconds).min(LONGEST_JOIN_DEADLINE),
    };
    let on_degraded =
        OnDegraded { auto: is_auto(request.degraded)?, theta: request.theta.unwrap_or(DEFAULT_THETA) };
    if !(0.0..=1.0).contains(&on_degraded.theta) {
        return Err(RequestError::Theta(on_degraded.theta));
    }
    if request.rigid && on_degraded.auto {
        return Err(RequestError::RigidAndDegraded);
    }
    Ok(Terms {
        rigid: request.rigid,
        join_deadline,
        on_degraded,
        server_reads: request.server_reads,
        confidential: request.confidential,
        processes_per_host: processes(request.processes_per_host)?,
        threads: threads(request, default_threads)?,
    })
}

/// Returns the number of threads that a request sets, or the default.
fn threads(request: &v1::CreateJobRequest, default: impl FnOnce() -> u32) -> Result<u32, RequestError> {
    let (threads, window) = match request.threads {
        0 if request.server_reads => return Ok(1),
        0 => return Ok(default()),
        threads => (threads, window(request)),
    };
    if Stripe::all(threads, window).is_err() {
        return Err(RequestError::Threads { threads, most: MOST_STRIPES.min(window) });
    }
    if threads > 1 && request.server_reads {
        return Err(RequestError::ThreadsOfReader(threads));
    }
    Ok(threads)
}

/// Returns the requested number of slots.
fn window(request: &v1::CreateJobRequest) -> u32 {
    if request.window == 0 { DEFAULT_WINDOW } else { request.window }
}

/// Returns a number of training processes on one host; `None` if the request leaves it out.
///
/// The ranks of all processes of a job are below 2^32, because a job has fewer than 2^16 workers.
pub(crate) fn processes(number: u32) -> Result<Option<NonZeroU16>, RequestError> {
    u16::try_from(number).map(NonZeroU16::new).map_err(|_| RequestError::Processes(number))
}

/// Returns true if the controller should act on degraded processes.
///
/// The default is off, because each such change makes the job's processes redistribute their data.
fn is_auto(value: i32) -> Result<bool, RequestError> {
    match v1::Degraded::try_from(value) {
        Ok(v1::Degraded::Unspecified | v1::Degraded::Off) => Ok(false),
        Ok(v1::Degraded::Auto) => Ok(true),
        Err(_) => Err(RequestError::Unknown { field: "degraded", value }),
    }
}

fn check_name(name: &str) -> Result<(), RequestError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=MAX_JOB_NAME).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(RequestError::Name(name.chars().take(MAX_JOB_NAME).collect()))
}

/// Returns the node with that name. The planner checks later that the node is a host.
fn host(topology: &Topology, name: &str) -> Result<NodeKey, RequestError> {
    topology.find(name).ok_or_else(|| RequestError::UnknownHost {
        host: name.to_owned(),
        topology: topology.name().to_owned(),
    })
}

fn aggregation(value: i32) -> Result<Aggregation, RequestError> {
    match v1::Aggregation::try_from(value) {
        Ok(v1::Aggregation::Unspecified | v1::Aggregation::Tree) => Ok(Aggregation::Tree),
        Ok(v1::Aggregation::Leaf) => Ok(Aggregation::Leaf),
        Ok(v1::Aggregation::TwoLevels) => Ok(Aggregation::TwoLevels),
        Ok(v1::Aggregation::None) => Ok(Aggregation::None),
        Err(_) => Err(RequestError::Unknown { field: "aggregation", value }),
    }
}

fn downlink(value: i32) -> Result<Downlink, RequestError> {
    match v1::Downlink::try_from(value) {
        Ok(v1::Downlink::Unspecified | v1::Downlink::Multicast) => Ok(Downlink::Multicast),
        Ok(v1::Downlink::Unicast) => Ok(Downlink::Unicast),
        Err(_) => Err(RequestError::Unknown { field: "downlink", value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::topology;

    fn named(name: &str) -> v1::CreateJobRequest {
        v1::CreateJobRequest { name: name.into(), ..v1::CreateJobRequest::default() }
    }

    #[test]
    fn what_is_left_out_comes_from_the_topology() {
        let topology = topology();
        let job = job(&topology, SliceWidth::WIDEST, &named("digits.v1-2_a")).unwrap();
        assert_eq!(job, JobRequest::of(&topology, DEFAULT_WINDOW, DEFAULT_GRADIENT_BYTES).unwrap());
    }

    #[test]
    fn fast_links_get_threads_where_hosts_have_processors_for_them() {
        const TEXT: &str = include_str!("../../topologies/two-workers.toml");
        let threads = |rate: &str, window: u32, processors: [Option<u32>; 2]| {
            let text = TEXT.replacen("50 Mbit/s", rate, 1);
            assert_ne!(text, TEXT);
            let topology = Topology::parse(&text, "two-workers").unwrap();
            let job = JobRequest::of(&topology, window, DEFAULT_GRADIENT_BYTES).unwrap();
            let [worker, server] = processors;
            default_threads(&topology, &job, |host| if host == "ps" { server } else { worker })
        };
        let many = [Some(64); 2];
        assert_eq!(
            ["1 Gbit/s", "10 Gbit/s", "25 Gbit/s", "100 Gbit/s"].map(|rate| threads(rate, 256, many)),
            [1, 2, 4, 16]
        );
        assert_eq!(threads("100 Gbit/s", 4, many), 4, "the window");
        assert_eq!(
            threads("100 Gbit/s", 256, [Some(64), Some(12)]),
            2,
            "the server's host has few processors"
        );
        assert_eq!(threads("100 Gbit/s", 256, [None, Some(64)]), 1, "unknown");
        assert_eq!(threads("100 Gbit/s", 256, [Some(2), Some(64)]), 1);
    }

    #[test]
    fn what_is_asked_for_is_taken() {
        let topology = topology();
        let asked = v1::CreateJobRequest {
            workers: vec!["w2".into(), "w0".into()],
            server: "w1".into(),
            aggregation: v1::Aggregation::Leaf.into(),
            downlink: v1::Downlink::Unicast.into(),
            window: 32,
            gradient_bytes: 8,
            ..named("job")
        };
        let key = |name| topology.find(name).unwrap();
        let expected = JobRequest {
            workers: Member::ranked([key("w2"), key("w0")]),
            server: key("w1"),
            aggregation: Aggregation::Leaf,
            downlink: Downlink::Unicast,
            width: SliceWidth::ETHERNET,
            window: 32,
            gradient_bytes: 8,
        };
        assert_eq!(job(&topology, SliceWidth::WIDEST, &asked), Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let topology = topology();
        let error = |request| job(&topology, SliceWidth::WIDEST, &request).unwrap_err().to_string();
        let names = "use 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'";
        for name in ["", "two words", "ü", &"x".repeat(65)] {
            let shown: String = name.chars().take(64).collect();
            assert_eq!(error(named(name)), format!("bad job name {shown:?}: {names}"));
        }
        let unknown = "host \"w9\" is not in topology \"two-leaves\"";
        assert_eq!(error(v1::CreateJobRequest { workers: vec!["w9".into()], ..named("a") }), unknown);
        assert_eq!(error(v1::CreateJobRequest { server: "w9".into(), ..named("a") }), unknown);
        assert_eq!(
            error(v1::CreateJobRequest { aggregation: 7, ..named("a") }),
            "aggregation is 7, which this controller does not know"
        );
        let terms = |request: v1::CreateJobRequest| terms(&request, || 1).unwrap_err().to_string();
        assert_eq!(
            terms(v1::CreateJobRequest { degraded: 7, ..named("a") }),
            "degraded is 7, which this controller does not know"
        );
        for theta in [-0.1, 1.1, f64::NAN] {
            let expected = format!("theta is {theta}: it is a share of the processes, from 0 to 1");
            assert_eq!(terms(v1::CreateJobRequest { theta: Some(theta), ..named("a") }), expected);
        }
        let processes = v1::CreateJobRequest { processes_per_host: 1 << 16, ..named("a") };
        assert_eq!(terms(processes), "65536 training processes on a host: a job may have 1 to 65535");
        let threads = |threads, window| v1::CreateJobRequest { threads, window, ..named("a") };
        for (asked, most) in [(threads(3, 0), 64), (threads(128, 0), 64), (threads(8, 4), 4)] {
            let expected = RequestError::Threads { threads: asked.threads, most };
            assert_eq!(self::terms(&asked, || 1).unwrap_err(), expected);
        }
        let reads = v1::CreateJobRequest { server_reads: true, ..threads(2, 0) };
        assert_eq!(self::terms(&reads, || 1).unwrap_err(), RequestError::ThreadsOfReader(2));
        assert_eq!(self::terms(&named("a"), || 4).unwrap().threads, 4);
        let reads = v1::CreateJobRequest { server_reads: true, ..named("a") };
        assert_eq!(self::terms(&reads, || 4).unwrap().threads, 1);
        let both = v1::CreateJobRequest { rigid: true, degraded: v1::Degraded::Auto.into(), ..named("a") };
        assert!(terms(both).starts_with("a rigid job cannot go on without degraded processes"));
        for window in [3, 2 * MAX_WINDOW] {
            let expected = format!("a window of {window} slices: use a power of two, {MAX_WINDOW} at most");
            assert_eq!(error(v1::CreateJobRequest { window, ..named("a") }), expected);
        }
    }
}
