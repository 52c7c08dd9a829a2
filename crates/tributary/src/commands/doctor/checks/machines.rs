//! Checks of clocks and versions.

use tributary_api::v1;

use crate::commands::doctor::finding::{Code, Finding};
use crate::commands::doctor::snapshot::Snapshot;

/// The largest tolerable difference between two clocks. With a larger one, logs are hard to compare,
/// and certificates expire too early or too late.
const CLOCK_MILLISECONDS: u64 = 2000;

pub(super) fn check(snapshot: &Snapshot) -> Vec<Finding> {
    let here = "this machine";
    let own_clock = clock(here.to_owned(), snapshot.own.clock_ahead);
    let own_version = version(snapshot, "this program".to_owned(), &snapshot.own.version);
    let daemons =
        snapshot.hosts.iter().flat_map(|host| host.daemons.iter().map(move |daemon| (host, daemon)));
    let of_hosts = daemons.flat_map(|(host, daemon)| {
        let clock = clock(format!("host {}", host.name), daemon.clock_ahead_milliseconds);
        let known = daemon.condition.is_some();
        [clock.filter(|_| known), version(snapshot, place(host, daemon), &daemon.version)]
    });
    own_clock.into_iter().chain(own_version).chain(of_hosts.flatten()).collect()
}

fn place(host: &v1::Host, daemon: &v1::HostDaemon) -> String {
    let what = if daemon.works { "agent" } else { "server" };
    format!("{what} of host {}", host.name)
}

fn clock(place: String, ahead: i64) -> Option<Finding> {
    if ahead.unsigned_abs() <= CLOCK_MILLISECONDS {
        return None;
    }
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let what = format!("its clock is {:.1} s {side} the controller's", ahead.unsigned_abs() as f64 / 1000.0);
    let fix = "synchronise the clocks of both machines by NTP (`timedatectl set-ntp true`)";
    Some(Finding::warning(Code::ClockDiffers, place, what, fix))
}

fn version(snapshot: &Snapshot, place: String, own: &str) -> Option<Finding> {
    let controller = &snapshot.controller.version;
    (own != controller).then(|| {
        let own = if own.is_empty() { "unknown" } else { own };
        let what = format!("its version is {own}, and the controller's {controller}");
        let fix = "install the same version on all machines, the controller's first: a restart of the controller or \
                   of an agent ends no job";
        Finding::warning(Code::VersionDiffers, place, what, fix)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::healthy;
    use super::*;

    fn found(change: impl FnOnce(&mut Snapshot)) -> Vec<(Code, String, String)> {
        let mut snapshot = healthy();
        change(&mut snapshot);
        let tell = |finding: Finding| (finding.code, finding.place, finding.what);
        check(&snapshot).into_iter().map(tell).collect()
    }

    #[test]
    fn clocks_may_differ_by_two_seconds() {
        let with = |ahead| found(|snapshot| snapshot.hosts[1].daemons[0].clock_ahead_milliseconds = ahead);
        assert_eq!(with(-2000), []);
        let what = "its clock is 2.5 s behind the controller's".to_owned();
        assert_eq!(with(-2500), [(Code::ClockDiffers, "host w1".to_owned(), what)]);
        assert!(with(60_000)[0].2.contains("60.0 s ahead of"));
        let own = found(|snapshot| snapshot.own.clock_ahead = i64::MIN);
        assert_eq!((own[0].0, own[0].1.as_str()), (Code::ClockDiffers, "this machine"));
    }

    #[test]
    fn one_version_is_to_run_everywhere() {
        let host = found(|snapshot| snapshot.hosts[0].daemons[0].version = "1.2.2".into());
        let what = "its version is 1.2.2, and the controller's 1.2.3".to_owned();
        assert_eq!(host, [(Code::VersionDiffers, "agent of host w0".to_owned(), what)]);
        let own = found(|snapshot| snapshot.own.version = "1.3.0".into());
        assert_eq!((own[0].0, own[0].1.as_str(), own.len()), (Code::VersionDiffers, "this program", 1));
    }
}
