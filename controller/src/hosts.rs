//! The daemons that attend: which hosts are there, and what they can do.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::host_order::Order;

use crate::clock::ClockOffset;

/// Orders that wait for a daemon to read them.
const ORDERS_PER_DAEMON: usize = 64;

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
    /// How it finds its host, as it has told last.
    pub(crate) condition: Option<v1::HostCondition>,
    pub(crate) clock: ClockOffset,
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
            condition: None,
            clock: ClockOffset::default(),
            orders,
        };
        if *works && self.iter().any(|daemon| daemon.works && daemon.host == *host) {
            tracing::warn!(
                host,
                "another agent attends for this host: it was started again, or there are two of them"
            );
        }
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

    /// A daemon tells how its host is. `now`: the controller's clock, in milliseconds since 1970.
    pub(crate) fn note_condition(&mut self, id: AttendanceId, condition: v1::HostCondition, now: u64) {
        if let Some(daemon) = self.daemons.get_mut(&id) {
            daemon.clock.note(condition.clock_unix_milliseconds, now);
            daemon.condition = Some(condition);
        }
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

    /// Whether a daemon of that host could be a job's server.
    pub(crate) fn serves(&self, host: &str) -> bool {
        self.server_of(host).is_some()
    }

    /// Orders a host to serve a job: an aggregation server's daemon before an agent.
    pub(crate) fn order_to_serve(&self, host: &str, job: &str, token: Vec<u8>) -> bool {
        let order = Order::Serve(v1::Serve { job: job.to_owned(), token });
        self.server_of(host).is_some_and(|daemon| daemon.order(order))
    }

    fn server_of(&self, host: &str) -> Option<&Daemon> {
        let able = self.iter().filter(|daemon| daemon.host == host && daemon.serves);
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
        let mut hosts = Hosts::default();
        let (_, mut agent) = hosts.enter(&hello("w0", true, true), Instant::now());
        let (server, mut served) = hosts.enter(&hello("w0", true, false), Instant::now());
        assert!(hosts.serves("w0") && !hosts.serves("w1"));
        assert!(hosts.order_to_serve("w0", "digits", vec![7]));
        assert!(served.try_recv().is_ok() && agent.try_recv().is_err());
        hosts.leave(server);
        assert!(hosts.order_to_serve("w0", "digits", vec![7]));
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
        let mut hosts = Hosts::default();
        let (_, orders) = hosts.enter(&hello("w0", true, true), Instant::now());
        drop(orders);
        assert!(!hosts.order_to_serve("w0", "digits", vec![7]));
    }
}
