//! Checks for certificates that expire soon.

use std::time::Duration;

use super::limits::Limits;
use crate::commands::doctor::finding::{Code, Finding};
use crate::commands::doctor::snapshot::Snapshot;

const HOUR: u64 = 3600;

pub(super) fn check(snapshot: &Snapshot, limits: &Limits) -> Vec<Finding> {
    let own =
        snapshot.own.certificate.iter().map(|(file, expires)| (format!("certificate {file}"), *expires));
    let served =
        snapshot.served_expires.iter().map(|expires| ("controller's certificate".to_owned(), *expires));
    let hosts = snapshot.hosts.iter().flat_map(|host| {
        let ends = host.daemons.iter().filter_map(|daemon| {
            let condition = daemon.condition.as_ref()?;
            condition.certificate_expires_unix_seconds
        });
        // The daemons of a host usually share a certificate. If they do not, the certificate that expires
        // first is reported.
        ends.min().map(|expires| (format!("certificate of host {}", host.name), expires))
    });
    let all = own.chain(served).chain(hosts);
    all.filter_map(|(place, expires)| expiring(place, expires, snapshot.now, limits.expiry)).collect()
}

fn expiring(place: String, expires: u64, now: u64, limit: Duration) -> Option<Finding> {
    let left = expires.saturating_sub(now);
    if left > limit.as_secs() {
        return None;
    }
    let fix = "issue it again (`tributary certs issue --replace …`), replace the old file, and let its daemon read \
               the new file: `systemctl reload`, or SIGHUP";
    Some(match left {
        0 => {
            let what = "has expired: open connections continue, but new connections fail";
            Finding::problem(Code::CertificateExpires, place, what, fix)
        }
        left => Finding::warning(Code::CertificateExpires, place, format!("ends in {}", time(left)), fix),
    })
}

/// Formats a time in days, or in hours if it is less than a day.
fn time(seconds: u64) -> String {
    match seconds / HOUR {
        0 => "less than an hour".to_owned(),
        hours @ 1..48 => format!("{hours} hours"),
        hours => format!("{} days", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{DAY, LIMITS, NOW, healthy};
    use super::*;

    #[test]
    fn each_certificate_is_looked_at() {
        let mut snapshot = healthy();
        let soon = NOW + 14 * DAY;
        snapshot.own.certificate = Some(("me.crt".into(), soon));
        snapshot.served_expires = Some(soon - 1);
        let condition = snapshot.hosts[1].daemons[0].condition.as_mut().unwrap();
        condition.certificate_expires_unix_seconds = Some(NOW + 3 * HOUR);
        let found = check(&snapshot, &LIMITS);
        let told: Vec<_> = found.iter().map(|one| (one.place.as_str(), one.what.as_str())).collect();
        assert_eq!(
            told,
            [
                ("certificate me.crt", "ends in 14 days"),
                ("controller's certificate", "ends in 13 days"),
                ("certificate of host w1", "ends in 3 hours"),
            ]
        );
        assert!(found.iter().all(|one| one.code == Code::CertificateExpires));
    }

    #[test]
    fn one_that_has_ended_is_a_problem_and_plain_text_has_none() {
        let mut snapshot = healthy();
        snapshot.served_expires = Some(NOW - 1);
        assert!(check(&snapshot, &LIMITS)[0].what.starts_with("has expired"));
        (snapshot.own.certificate, snapshot.served_expires) = (None, None);
        for host in &mut snapshot.hosts {
            host.daemons[0].condition.as_mut().unwrap().certificate_expires_unix_seconds = None;
        }
        assert_eq!(check(&snapshot, &LIMITS), []);
        assert_eq!(
            (time(10), time(47 * HOUR), time(48 * HOUR)),
            ("less than an hour".into(), "47 hours".into(), "2 days".into())
        );
    }
}
