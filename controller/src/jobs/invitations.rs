//! Hosts that a job has invited to be its server, and hosts that gave up serving.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Time until the controller invites an absent host again.
/// By then, the host's daemon may have joined and lost its stream.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Time for which the job does not invite a host that has given up serving it for the first time.
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of times that this pause doubles. It doubles each time that the host gives up again.
const DOUBLINGS: u32 = 6;
/// Time after a pause within which giving up counts as giving up again.
/// A host that gives up later has served in between, so its next pause is [`SHORTEST_PAUSE`].
const SOON: Duration = Duration::from_secs(60);

/// Hosts that a job has invited to be its server, or that have served it.
#[derive(Debug, Default)]
pub(crate) struct Invitations(BTreeMap<String, Invitation>);

#[derive(Debug, Default)]
struct Invitation {
    asked: Option<Instant>,
    given_up: Option<GivenUp>,
}

#[derive(Debug)]
struct GivenUp {
    reason: String,
    at: Instant,
    /// The number of times that the host has given up, each time within [`SOON`] after its last pause.
    times: u32,
}

impl GivenUp {
    fn until(&self) -> Instant {
        self.at + SHORTEST_PAUSE * 2_u32.pow((self.times - 1).min(DOUBLINGS))
    }
}

impl Invitations {
    /// Notes that the controller invites a host.
    pub(crate) fn ask(&mut self, host: &str, now: Instant) {
        self.0.entry(host.to_owned()).or_default().asked = Some(now);
    }

    /// Returns true if the controller has ever invited the host to serve the job.
    pub(crate) fn has(&self, host: &str) -> bool {
        self.0.get(host).is_some_and(|invitation| invitation.asked.is_some())
    }

    /// Notes that a host has stopped serving the job, and why.
    pub(crate) fn give_up(&mut self, host: &str, reason: &str, now: Instant) {
        let invitation = self.0.entry(host.to_owned()).or_default();
        let before = invitation.given_up.as_ref().filter(|before| now < before.until() + SOON);
        let times = before.map_or(0, |before| before.times) + 1;
        invitation.given_up = Some(GivenUp { reason: reason.to_owned(), at: now, times });
    }

    /// Returns why a host has given up, and the end of its pause; `None` if the host is not paused.
    /// A daemon that has connected since then may succeed, so it ends the pause.
    pub(crate) fn pause(
        &self,
        host: &str,
        connected_since: Option<Instant>,
        now: Instant,
    ) -> Option<(&str, Instant)> {
        let given_up = self.0.get(host)?.given_up.as_ref()?;
        let is_another = connected_since.is_some_and(|since| since > given_up.at);
        (!is_another && now < given_up.until()).then(|| (&*given_up.reason, given_up.until()))
    }

    /// Returns the end of the pause that ends first; `None` if no host is paused.
    pub(crate) fn end_of_pause(&self, now: Instant) -> Option<Instant> {
        let all = self.0.values().filter_map(|invitation| invitation.given_up.as_ref());
        all.map(GivenUp::until).filter(|until| now < *until).min()
    }

    /// Returns the time at which the controller may invite an absent host.
    /// It may do so at once if the host was not invited yet or has a new daemon since the last invitation.
    pub(crate) fn due(&self, host: &str, connected_since: Option<Instant>, now: Instant) -> Instant {
        let asked = self.0.get(host).and_then(|invitation| invitation.asked);
        let open = asked.filter(|asked| connected_since.is_none_or(|since| since <= *asked));
        let again = open.map_or(now, |asked| asked + ASK_AGAIN);
        self.pause(host, connected_since, now).map_or(again, |(_, until)| again.max(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_come_is_asked_again_later_and_another_daemon_of_it_at_once() {
        let (mut invitations, start) = (Invitations::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!invitations.has("ps"));
        assert_eq!(invitations.due("ps", Some(start), at(1)), at(1));
        invitations.ask("ps", at(1));
        assert!(invitations.has("ps"));
        assert_eq!(invitations.due("ps", Some(start), at(2)), at(1) + ASK_AGAIN);
        assert_eq!(invitations.due("ps", Some(at(2)), at(3)), at(3));
    }

    #[test]
    fn who_gives_up_is_left_alone_for_longer_and_longer_unless_it_is_started_again() {
        let (mut invitations, start) = (Invitations::default(), Instant::now());
        assert_eq!(invitations.pause("ps", None, start), None);
        let (mut pauses, mut now) = (Vec::new(), start);
        for _ in 0..9 {
            invitations.give_up("ps", "no thread", now);
            let (reason, until) = invitations.pause("ps", Some(start), now).unwrap();
            assert_eq!((reason, invitations.pause("ps", Some(start), until)), ("no thread", None));
            assert_eq!(invitations.pause("ps", Some(now + SHORTEST_PAUSE), now + SHORTEST_PAUSE), None);
            invitations.ask("ps", now);
            assert_eq!(invitations.due("ps", Some(start), now), until);
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 320, 320]);
        // The host has served between these two times.
        now += SOON;
        invitations.give_up("ps", "no thread", now);
        assert_eq!(invitations.pause("ps", Some(start), now), Some(("no thread", now + SHORTEST_PAUSE)));
    }
}
