//! The connected daemons, with their hosts and capabilities.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::host_order::Order;

use crate::clock::ClockOffset;
use crate::events::plain;

/// Capacity of the queue of orders to one daemon.
const ORDERS_PER_DAEMON: usize = 64;

/// Time for which a daemon's old connection may still deliver messages after the daemon has
/// reconnected.
/// If messages arrive later than that, the host has two daemons.
const SUCCESSION: Duration = Duration::from_secs(2);

/// A daemon that has been silent for this time has lost its controller, because daemons send a message
/// every second.
pub(crate) const WORD_PATIENCE: Duration = Duration::from_millis(1500);

/// Silence after which the state of a daemon is unknown.
///
/// The operating system detects a broken connection much later.
const SILENCE: Duration = Duration::from_secs(5);

/// Offloads of an interface that are kept. Hosts report fewer in practice.
const OFFLOADS: usize = 16;

/// Identifies one connection of a daemon.
pub(crate) type HostSessionId = u64;

/// All connected daemons. A host may have two: its agent and an aggregation server.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    daemons: BTreeMap<HostSessionId, Daemon>,
    count: HostSessionId,
    /// For each host with a refused daemon, the time and reason of the last refusal. An accepted daemon
    /// removes the entry.
    refused: BTreeMap<String, (Instant, String)>,
}

/// A connected daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) host: String,
    pub(crate) version: String,
    pub(crate) serves: bool,
    pub(crate) works: bool,
    /// The number of processors that the daemon may use; 0 if it is unknown.
    processors: u32,
    /// The time of the connection.
    pub(crate) since: Instant,
    /// The time at which the daemon's last message arrived.
    heard: Instant,
    /// The condition of the host in the daemon's last report.
    pub(crate) condition: Option<v1::HostCondition>,
    pub(crate) clock: ClockOffset,
    /// True if this agent still sends messages although a newer agent of the same host has connected.
    doubled: bool,
    orders: mpsc::Sender<v1::HostOrder>,
}

impl Hosts {
    /// Adds a daemon. Returns its session id and the receiver of its orders.
    pub(crate) fn enter(
        &mut self,
        hello: &v1::Hello,
        now: Instant,
    ) -> (HostSessionId, mpsc::Receiver<v1::HostOrder>) {
        let (orders, receiver) = mpsc::channel(ORDERS_PER_DAEMON);
        self.count += 1;
        let v1::Hello { host, version, serves, works, processors, .. } = hello;
        let daemon = Daemon {
            host: host.clone(),
            version: plain(version),
            serves: *serves,
            works: *works,
            processors: *processors,
            since: now,
            heard: now,
            condition: None,
            clock: ClockOffset::default(),
            doubled: false,
            orders,
        };
        self.refused.remove(host);
        self.daemons.insert(self.count, daemon);
        (self.count, receiver)
    }

    /// Returns the number of processors that the daemons of a host may use; `None` if it is unknown.
    pub(crate) fn processors(&self, host: &str) -> Option<u32> {
        let daemons = self.daemons.values().filter(|daemon| daemon.host == host && daemon.processors > 0);
        daemons.map(|daemon| daemon.processors).max()
    }

    /// Removes a daemon whose stream has ended.
    pub(crate) fn leave(&mut self, id: HostSessionId) -> Option<Daemon> {
        self.daemons.remove(&id)
    }

    /// Notes that a daemon of `host` was refused.
    /// The caller passes only hosts of the topology, which bounds the number of entries.
    pub(crate) fn refuse(&mut self, host: &str, reason: &str) {
        self.refused.insert(host.to_owned(), (Instant::now(), plain(reason)));
    }

    /// Returns the time and reason of the last refusal of a host's daemon; `None` if one was accepted
    /// since.
    pub(crate) fn refused(&self, host: &str) -> Option<&(Instant, String)> {
        self.refused.get(host)
    }

    /// Notes a message from a daemon, which may contain its host's condition.
    /// `unix` is the time of the controller's clock, in milliseconds since 1970.
    pub(crate) fn hear(
        &mut self,
        id: HostSessionId,
        condition: Option<v1::HostCondition>,
        unix: u64,
        now: Instant,
    ) {
        let is_doubled = self.successor(id).is_some_and(|successor| now >= successor.since + SUCCESSION);
        let Some(daemon) = self.daemons.get_mut(&id) else { return };
        daemon.heard = now;
        if is_doubled && !std::mem::replace(&mut daemon.doubled, true) {
            tracing::warn!(
                host = daemon.host,
                "this host has two agents, which take each other's frames: stop one"
            );
        }
        if let Some(mut condition) = condition {
            if let Some(interface) = &mut condition.interface {
                interface.offloads.truncate(OFFLOADS);
                let texts = interface.offloads.iter_mut().chain([&mut interface.name, &mut interface.driver]);
                texts.for_each(|text| *text = plain(text));
            }
            daemon.clock.note(condition.clock_unix_milliseconds, unix);
            daemon.condition = Some(condition);
        }
    }

    /// Returns a later agent of the same host. Either the agent has restarted or reconnected, or the host
    /// has two agents.
    fn successor(&self, id: HostSessionId) -> Option<&Daemon> {
        let daemon = self.daemons.get(&id).filter(|daemon| daemon.works)?;
        let mut later = self.daemons.range(id + 1..).map(|(_, later)| later);
        later.find(|later| later.works && later.host == daemon.host)
    }

    /// Returns a host's daemons, without agents that a newer agent has replaced.
    /// The connection of a replaced agent is broken, but the controller has not detected that yet.
    pub(crate) fn of<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Daemon> {
        let own = self.daemons.iter().filter(move |(_, daemon)| daemon.host == host);
        own.filter(|(id, daemon)| daemon.doubled || self.successor(**id).is_none()).map(|(_, daemon)| daemon)
    }

    /// Returns the daemons of a host that have sent a message within `SILENCE`.
    pub(crate) fn heard_of<'a>(&'a self, host: &'a str, now: Instant) -> impl Iterator<Item = &'a Daemon> {
        self.of(host).filter(move |daemon| now < daemon.heard + SILENCE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Daemon> {
        self.daemons.values()
    }

    /// Returns true if a daemon of the host is connected.
    pub(crate) fn is_connected(&self, host: &str) -> bool {
        self.iter().any(|daemon| daemon.host == host)
    }

    /// Returns the time at which the host's latest daemon connected.
    pub(crate) fn connected_since(&self, host: &str) -> Option<Instant> {
        self.iter().filter(|daemon| daemon.host == host).map(|daemon| daemon.since).max()
    }

    /// Returns true if a daemon of the host could be a job's server.
    ///
    /// A silent daemon does not count, because it would not receive the order.
    pub(crate) fn serves(&self, host: &str, now: Instant) -> bool {
        self.server_of(host, now).is_some()
    }

    /// Orders a host to serve a job. Prefers the daemon of an aggregation server to an agent. Returns false
    /// if neither can.
    pub(crate) fn order_to_serve(&self, host: &str, job: &str, token: Vec<u8>, now: Instant) -> bool {
        let order = Order::Serve(v1::Serve { job: job.to_owned(), token });
        self.server_of(host, now).is_some_and(|daemon| daemon.order(order))
    }

    fn server_of(&self, host: &str, now: Instant) -> Option<&Daemon> {
        let is_heard = |daemon: &&Daemon| now < daemon.heard + WORD_PATIENCE;
        let able = self.iter().filter(|daemon| daemon.host == host && daemon.serves).filter(is_heard);
        able.min_by_key(|daemon| daemon.works)
    }
}

impl Daemon {
    /// Sends an order. Returns false if the daemon's queue is full or its session has ended.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.orders.try_send(v1::HostOrder { order: Some(order) }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(host: &str, serves: bool, works: bool) -> v1::Hello {
        v1::Hello { host: host.into(), serves, works, ..v1::Hello::default() }
    }

    #[test]
    fn a_server_daemon_is_asked_before_the_agent_of_its_host() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let (_, mut agent) = hosts.enter(&hello("w0", true, true), now);
        let (server, mut served) = hosts.enter(&hello("w0", true, false), now);
        assert!(hosts.serves("w0", now) && !hosts.serves("w1", now));
        assert!(hosts.order_to_serve("w0", "digits", vec![7], now));
        assert!(served.try_recv().is_ok() && agent.try_recv().is_err());
        hosts.leave(server);
        assert!(hosts.order_to_serve("w0", "digits", vec![7], now));
        assert!(agent.try_recv().is_ok());
    }

    #[test]
    fn who_was_refused_is_remembered_until_a_daemon_of_that_host_is_welcome() {
        let mut hosts = Hosts::default();
        hosts.refuse("w0", "its MAC address is another one");
        assert_eq!(hosts.refused("w0").unwrap().1, "its MAC address is another one");
        hosts.enter(&hello("w1", true, true), Instant::now());
        assert!(hosts.refused("w0").is_some());
        hosts.enter(&hello("w0", true, true), Instant::now());
        assert!(hosts.refused("w0").is_none());
    }

    #[test]
    fn a_daemons_words_about_its_host_are_bounded() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let long = "x".repeat(1 << 16);
        let (id, _) = hosts.enter(&v1::Hello { version: long.clone(), ..hello("w0", true, true) }, now);
        let interface = v1::InterfaceCondition {
            name: long.clone(),
            driver: "\u{1b}[2J".to_owned(),
            offloads: vec![long; 1000],
            ..v1::InterfaceCondition::default()
        };
        let interface = Some(interface);
        hosts.hear(id, Some(v1::HostCondition { interface, ..v1::HostCondition::default() }), 0, now);
        let daemon = hosts.of("w0").next().unwrap();
        let kept = daemon.condition.as_ref().and_then(|condition| condition.interface.as_ref()).unwrap();
        assert!(kept.name.len() + daemon.version.len() < 1000 && kept.driver.starts_with('\u{fffd}'));
        assert!(kept.offloads.len() == OFFLOADS && kept.offloads.iter().all(|offload| offload.len() < 500));
    }

    #[test]
    fn one_that_does_not_read_its_orders_is_not_there() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        let (_, orders) = hosts.enter(&hello("w0", true, true), now);
        drop(orders);
        assert!(!hosts.order_to_serve("w0", "digits", vec![7], now));
    }

    #[test]
    fn a_daemon_that_says_nothing_is_not_heard_of_until_it_does() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut hosts = Hosts::default();
        let (agent, _orders) = hosts.enter(&hello("w0", true, true), at(0));
        hosts.hear(agent, None, 0, at(1));
        assert_eq!(hosts.heard_of("w0", at(5)).count(), 1);
        assert_eq!(hosts.heard_of("w0", at(6)).count(), 0);
        assert!(hosts.is_connected("w0"), "its connection stands");
        hosts.hear(agent, None, 0, at(7));
        assert_eq!(hosts.heard_of("w0", at(8)).count(), 1);
    }

    #[test]
    fn an_agent_that_has_come_again_is_one_and_two_that_both_tell_something_are_two() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut hosts = Hosts::default();
        let (first, _) = hosts.enter(&hello("w0", true, true), at(0));
        let (second, _) = hosts.enter(&hello("w0", true, true), at(10));
        hosts.hear(first, None, 0, at(11));
        hosts.hear(second, None, 0, at(20));
        assert_eq!(hosts.of("w0").count(), 1, "the first one's last words were on their way");
        hosts.hear(first, None, 0, at(21));
        assert_eq!(hosts.of("w0").count(), 2);
        hosts.leave(first);
        assert_eq!(hosts.of("w0").count(), 1);
    }
}
