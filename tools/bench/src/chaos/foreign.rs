//! Ordinary UDP traffic between the hosts of a lab.
//!
//! Each datagram contains its length and a checksum. Switches that split and join datagrams compute new UDP
//! checksums, so a UDP checksum would not show damage.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tributary_lab::Lab;
use tributary_link::split_datagrams;
use tributary_topology::Topology;

use super::event::Moment;

/// The lengths of the datagrams in bytes; each flow uses them in turn.
const LENGTHS: [u16; 4] = [1_000, 600, 800, 450];
/// Number of datagrams that a host sends with one call.
const AT_ONCE: usize = 5;
/// The time between two calls.
const PERIOD: Duration = Duration::from_millis(5);
/// The longest datagram, in bytes.
const LONGEST: usize = 65_535;

/// The traffic from each host to the next one.
#[derive(Debug)]
pub(super) struct Foreign {
    flows: Vec<Arc<ForeignFlow>>,
    /// The tasks that send and receive. The traffic ends when they are dropped.
    _tasks: JoinSet<()>,
}

/// The datagrams from one host to another.
#[derive(Debug)]
struct ForeignFlow {
    name: String,
    sent: AtomicU64,
    received: AtomicU64,
    damaged: AtomicU64,
    /// The time at which the last datagram arrived.
    last: Mutex<Moment>,
}

/// The counts of all flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct ForeignStatistics {
    /// Datagrams that the hosts sent.
    pub(super) sent: u64,
    /// Datagrams that arrived.
    pub(super) received: u64,
    /// Received datagrams of the wrong length or content.
    pub(super) damaged: u64,
    /// Flows without a datagram in the 10 s after everything was repaired, summed over all blows.
    pub(super) stuck: u64,
}

impl Foreign {
    /// Starts the traffic in a lab of this topology.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub(super) fn start(lab: &Lab, topology: &Topology) -> Result<Self> {
        let hosts: Vec<_> = topology.hosts().map(|(key, _, host)| (&topology[key].name, host.ip)).collect();
        let sockets = hosts.iter().map(|(name, ip)| open(lab, name, *ip)).collect::<Result<Vec<_>>>()?;
        let (mut flows, mut tasks) = (Vec::new(), JoinSet::new());
        for (from, (name, _)) in hosts.iter().enumerate() {
            let to = (from + 1) % hosts.len();
            let flow = Arc::new(ForeignFlow {
                name: format!("{name} to {}", hosts[to].0),
                sent: AtomicU64::new(0),
                received: AtomicU64::new(0),
                damaged: AtomicU64::new(0),
                last: Mutex::new(Moment::now()),
            });
            tasks.spawn(send(sockets[from].clone(), sockets[to].local_addr()?, flow.clone(), from as u64));
            tasks.spawn(receive(sockets[to].clone(), flow.clone()));
            flows.push(flow);
        }
        Ok(Self { flows, _tasks: tasks })
    }

    /// Returns the flows of which no datagram has arrived since `moment`.
    pub(super) fn silent_since(&self, moment: Moment) -> Vec<&str> {
        let silent = self.flows.iter().filter(|flow| flow.last() <= moment);
        silent.map(|flow| flow.name.as_str()).collect()
    }

    /// Returns the present counts, except for `stuck`.
    pub(super) fn statistics(&self) -> ForeignStatistics {
        let sum = |count: fn(&ForeignFlow) -> &AtomicU64| {
            self.flows.iter().map(|flow| count(flow).load(Ordering::Relaxed)).sum()
        };
        ForeignStatistics {
            sent: sum(|flow| &flow.sent),
            received: sum(|flow| &flow.received),
            damaged: sum(|flow| &flow.damaged),
            stuck: 0,
        }
    }
}

impl ForeignFlow {
    fn last(&self) -> Moment {
        *self.last.lock()
    }
}

fn open(lab: &Lab, station: &str, ip: Ipv4Addr) -> Result<Arc<tokio::net::UdpSocket>> {
    let opened = lab.inside(station, || UdpSocket::bind((ip, 0)))?;
    let socket = opened.with_context(|| format!("cannot open a UDP socket at {station}"))?;
    socket.set_nonblocking(true)?;
    Ok(Arc::new(tokio::net::UdpSocket::from_std(socket)?))
}

/// Sends datagrams forever. While the host's interface is down, the sends fail.
async fn send(socket: Arc<tokio::net::UdpSocket>, to: SocketAddr, flow: Arc<ForeignFlow>, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for length in LENGTHS.into_iter().cycle() {
        ticks.tick().await;
        let message: Vec<_> = (0..AT_ONCE).flat_map(|_| datagram(&mut random, length.into())).collect();
        if split_datagrams(&*socket, length).is_ok() && socket.send_to(&message, to).await.is_ok() {
            flow.sent.fetch_add(AT_ONCE as u64, Ordering::Relaxed);
        }
    }
}

async fn receive(socket: Arc<tokio::net::UdpSocket>, flow: Arc<ForeignFlow>) {
    let mut datagram = vec![0; LONGEST];
    loop {
        // An error here concerns an earlier send: for example, an ICMP message has arrived.
        let Ok(length) = socket.recv(&mut datagram).await else { continue };
        flow.received.fetch_add(1, Ordering::Relaxed);
        *flow.last.lock() = Moment::now();
        if !is_whole(&datagram[..length]) {
            flow.damaged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes a datagram of `length` bytes: its length, a checksum of the rest, and random bytes.
fn datagram(random: &mut ChaCha8Rng, length: usize) -> Vec<u8> {
    let mut datagram = vec![0; length];
    random.fill_bytes(&mut datagram[8..]);
    let checksum = crc32fast::hash(&datagram[8..]);
    datagram[..4].copy_from_slice(&(length as u32).to_be_bytes());
    datagram[4..8].copy_from_slice(&checksum.to_be_bytes());
    datagram
}

/// Returns true if a datagram has the length and the content that it was sent with.
fn is_whole(datagram: &[u8]) -> bool {
    let Some((head, rest)) = datagram.split_first_chunk::<8>() else { return false };
    head[..4] == (datagram.len() as u32).to_be_bytes() && head[4..] == crc32fast::hash(rest).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_that_is_changed_in_any_way_is_not_whole() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let right = datagram(&mut random, 450);
        assert!(is_whole(&right));
        assert!(!is_whole(&right[..449]) && !is_whole(&right[..7]) && !is_whole(&[]));
        assert!(!is_whole(&[&right[..], &[0]].concat()));
        let other = datagram(&mut random, 450);
        assert!(!is_whole(&[&right[..200], &other[200..]].concat()));
        for at in [0, 3, 5, 8, 449] {
            let mut changed = right.clone();
            changed[at] ^= 1;
            assert!(!is_whole(&changed), "{at}");
        }
    }
}
