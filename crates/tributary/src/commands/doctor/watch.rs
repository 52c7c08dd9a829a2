//! Repeats the checks, and reports changes.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{MissedTickBehavior, interval};
use tributary_cli::output;
use tributary_transport::Remote;

use super::finding::{Code, Finding};
use super::findings_metric::LastLook;
use super::look::{DoctorArgs, look};
use super::report;

/// The difference between two checks.
#[derive(Debug, PartialEq, Eq)]
struct News {
    new: Vec<Finding>,
    cleared: Vec<Finding>,
}

/// Reports all findings of the first check, and the new and resolved findings of each later check.
///
/// Returns when the reader of standard output has closed the pipe.
///
/// # Errors
/// The address for Prometheus cannot be used for listening, or standard output cannot be written to.
pub(super) async fn watch(args: &DoctorArgs, remote: &Remote) -> Result<()> {
    let last = LastLook::default();
    let _metrics = last.serve(args.metrics).await?;
    let mut looks = interval(Duration::from_secs(args.interval));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known: Option<Vec<Finding>> = None;
    loop {
        looks.tick().await;
        // A finding that persists is not printed again, so a closed pipe might remain undetected for a long
        // time.
        if !output::is_read() {
            return Ok(());
        }
        let found = match look(args, remote).await {
            Ok(found) => found,
            Err(error) => unreachable_controller(known.as_deref().unwrap_or_default(), remote, &error),
        };
        let is_first = known.is_none();
        let news = news(known.as_deref().unwrap_or_default(), &found);
        if is_first || !news.new.is_empty() || !news.cleared.is_empty() {
            let report = if args.json { json(&news, &found) } else { text(&news, &found) };
            if output::print_while_read(report)?.is_break() {
                return Ok(());
            }
        }
        last.replace(&found);
        known = Some(found);
    }
}

/// Returns the known findings and one for the unreachable controller. Known findings stay until the
/// controller answers again.
fn unreachable_controller(known: &[Finding], remote: &Remote, error: &anyhow::Error) -> Vec<Finding> {
    let unreachable = Finding::problem(
        Code::ControllerUnreachable,
        format!("controller at {}", remote.address()),
        format!("{error:#}"),
        "start it (`systemctl start tributary-controller`), or correct --controller; jobs continue without it",
    );
    let others = known.iter().filter(|finding| finding.code != Code::ControllerUnreachable).cloned();
    std::iter::once(unreachable).chain(others).collect()
}

fn news(before: &[Finding], now: &[Finding]) -> News {
    let missing = |one: &[Finding], other: &[Finding]| -> Vec<Finding> {
        let is_in = |finding: &&Finding| other.iter().any(|other| other.is_same(finding));
        one.iter().filter(|finding| !is_in(finding)).cloned().collect()
    };
    News { new: missing(now, before), cleared: missing(before, now) }
}

fn json(News { new, cleared }: &News, found: &[Finding]) -> String {
    json!({ "at": now(), "healthy": found.is_empty(), "new": new, "cleared": cleared }).to_string()
}

fn text(News { new, cleared }: &News, found: &[Finding]) -> String {
    let now = now();
    let repaired = |Finding { place, what, .. }: &Finding| format!("{now}  repaired  {place}: {what}");
    let mut lines: Vec<_> = cleared.iter().map(repaired).collect();
    if !new.is_empty() {
        lines.push(format!("{now}  new\n{}", report::table(new)));
    }
    if found.is_empty() {
        lines.push(format!("{now}  nothing is wrong"));
    }
    lines.join("\n")
}

fn now() -> String {
    OffsetDateTime::now_utc().truncate_to_second().format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(place: &str, what: &str) -> Finding {
        Finding::problem(Code::SwitchUnreachable, place, what, "start it")
    }

    #[test]
    fn what_lasts_is_no_news_though_its_words_change() {
        let before = [finding("leaf0", "for 1 s"), finding("leaf1", "for 1 s")];
        let now = [finding("leaf1", "for 2 s"), finding("leaf2", "for 1 s")];
        let expected = News { new: vec![now[1].clone()], cleared: vec![before[0].clone()] };
        assert_eq!(news(&before, &now), expected);
        assert_eq!(news(&now, &now), News { new: Vec::new(), cleared: Vec::new() });
    }

    #[test]
    fn while_the_controller_is_away_nothing_counts_as_repaired() {
        let remote = Remote::controller("127.0.0.1:1", None).unwrap();
        let known = [finding("leaf0", "for 1 s")];
        let unreachable = unreachable_controller(&known, &remote, &anyhow::anyhow!("nobody answers"));
        assert_eq!(news(&known, &unreachable).cleared, []);
        assert_eq!(news(&known, &unreachable).new[0].code, Code::ControllerUnreachable);
        let again = unreachable_controller(&unreachable, &remote, &anyhow::anyhow!("nobody answers"));
        assert_eq!(again.len(), 2, "once is enough");
        assert_eq!(news(&again, &known).cleared[0].place, "controller at 127.0.0.1:1");
    }
}
