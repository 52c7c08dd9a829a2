//! The daemons that attend: which hosts are there, and what they can do.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::host_order::Order;

use crate::clock::ClockOffset;

/// Orders that wait for a daemon to read them.
const ORDERS_PER_DAEMON: usize = 64;

/// What a broken connection brings so long after its daemon has come again was not on its way before: there are two daemons.
const SUCCESSION: Duration = Duration::from_secs(2);

/// Without a word for so long a daemon has lost its controller: it says something every second.
pub(crate) const WORD_PATIENCE: Duration = Duration::from_millis(1500);

/// Without one for so long nobody knows whether it is there, long before its connection is known to be broken.
const SILENCE: Duration = Duration::from_secs(5);

/// One life of a daemon's connection.
pub(crate) type AttendanceId = u64;

/// All daemons that attend. A host may have two: its agent's and an aggregation server's.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    daemons: BTreeMap<AttendanceId, Daemon>,
    count: AttendanceId,
    /// Hosts whose daemons were turned away since one has been welcomed: when it was the last time, and why.
    turned_away: BTreeMap<String, (Instant, String)>,
}

/// A daemon that attends.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) host: String,
    pub(crate) version: String,
    pub(crate) serves: bool,
    pub(crate) works: bool,
    /// Since when it has been attending.
    pub(crate) since: Instant,
    /// When it has said something last.
    heard: Instant,
    /// How it finds its host, as it has told last.
    pub(crate) condition: Option<v1::HostCondition>,
    pub(crate) clock: ClockOffset,
    /// Another agent of its host has come since, and this one is there all the same.
    doubled: bool,
    orders: mpsc::Sender<v1::HostOrder>,
}

impl Hosts {
    /// A daemon has come: what stands for it, and what it is ordered.
    pub(crate) fn enter(
        &mut self,
        hello: &v1::Hello,
        now: Instant,
    ) -> (AttendanceId, mpsc::Receiver<v1::HostOrder>) {
        let (orders, receiver) = mpsc::channel(ORDERS_PER_DAEMON);
        self.count += 1;
        let v1::Hello { host, version, serves, works, .. } = hello;
        let daemon = Daemon {
            host: host.clone(),
            version: version.clone(),
            serves: *serves,
            works: *works,
            since: now,
            heard: now,
            condition: None,
            clock: ClockOffset::default(),
            doubled: false,
            orders,
        };
        self.turned_away.remove(host);
        self.daemons.insert(self.count, daemon);
        (self.count, receiver)
    }

    /// A daemon's stream has ended.
    pub(crate) fn leave(&mut self, id: AttendanceId) -> Option<Daemon> {
        self.daemons.remove(&id)
    }

    /// A daemon was turned away that said it was this host's. `host`: one of the topology's, so that there are no more.
    pub(crate) fn turn_away(&mut self, host: &str, reason: &str) {
        self.turned_away.insert(host.to_owned(), (Instant::now(), reason.to_owned()));
    }

    /// When a host's daemon was turned away the last time, and why, if none has been welcomed since.
    pub(crate) fn turned_away(&self, host: &str) -> Option<&(Instant, String)> {
        self.turned_away.get(host)
    }

    /// A daemon tells something, and perhaps how its host is. `unix`: the controller's clock, in milliseconds since 1970.
    pub(crate) fn hear(
        &mut self,
        id: AttendanceId,
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
        if let Some(condition) = condition {
            daemon.clock.note(condition.clock_unix_milliseconds, unix);
            daemon.condition = Some(condition);
        }
    }

    /// The agent of the same host that has come after this one: it was started again, or has lost its connection, or there
    /// are two.
    fn successor(&self, id: AttendanceId) -> Option<&Daemon> {
        let daemon = self.daemons.get(&id).filter(|daemon| daemon.works)?;
        let mut later = self.daemons.range(id + 1..).map(|(_, later)| later);
        later.find(|later| later.works && later.host == daemon.host)
    }

    /// A host's daemons, without agents that another has succeeded: their connections are not known to be broken yet.
    pub(crate) fn of<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Daemon> {
        let own = self.daemons.iter().filter(move |(_, daemon)| daemon.host == host);
        own.filter(|(id, daemon)| daemon.doubled || self.successor(**id).is_none()).map(|(_, daemon)| daemon)
    }

    /// Those of a host's daemons that have said something lately.
    pub(crate) fn heard_of<'a>(&'a self, host: &'a str, now: Instant) -> impl Iterator<Item = &'a Daemon> {
        self.of(host).filter(move |daemon| now < daemon.heard + SILENCE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Daemon> {
        self.daemons.values()
    }

    /// Whether a daemon of that host is there.
    pub(crate) fn attends(&self, host: &str) -> bool {
        self.iter().any(|daemon| daemon.host == host)
    }

    /// Since when the daemon of that host attends that came last.
    pub(crate) fn attends_since(&self, host: &str) -> Option<Instant> {
        self.iter().filter(|daemon| daemon.host == host).map(|daemon| daemon.since).max()
    }

    /// Whether a daemon of that host could be a job's server. One that cannot be heard would not hear that it is to be either.
    pub(crate) fn serves(&self, host: &str, now: Instant) -> bool {
        self.server_of(host, now).is_some()
    }

    /// Orders a host to serve a job: an aggregation server's daemon before an agent.
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
    /// Tells it something; `false` when it does not listen any more.
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
    fn who_was_turned_away_is_remembered_until_a_daemon_of_that_host_is_welcome() {
        let mut hosts = Hosts::default();
        hosts.turn_away("w0", "its MAC address is another one");
        assert_eq!(hosts.turned_away("w0").unwrap().1, "its MAC address is another one");
        hosts.enter(&hello("w1", true, true), Instant::now());
        assert!(hosts.turned_away("w0").is_some());
        hosts.enter(&hello("w0", true, true), Instant::now());
        assert!(hosts.turned_away("w0").is_none());
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
        assert!(hosts.attends("w0"), "its connection stands");
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
