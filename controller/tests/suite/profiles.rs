//! Tests in which workers submit profiles of their gradients and get the same schedule.

use std::collections::BTreeMap;

use crate::common::{Client, Member, create, end, job, join_all, refusal, start};
use tonic::{Code, Status};
use tributary_api::schedule::{Profile, ProfileNumber};
use tributary_api::v1;
use tributary_api::v1::hand_in_profile_response::Outcome;
use tributary_controller::RunningController;
use tributary_testkit::PLAIN;
use tributary_topology::Topology;

const MILLISECOND: u64 = 1_000_000;

struct Net {
    _controller: RunningController,
    client: Client,
    token: Vec<u8>,
    _members: Vec<Member>,
}

async fn running() -> Net {
    let (controller, mut client) = start(Topology::parse(PLAIN, "plain").unwrap(), BTreeMap::new()).await;
    let (token, plan) = create(&mut client, job("digits")).await.unwrap();
    let mut members = join_all(&mut client, "digits", &token, &plan).await;
    for member in &mut members {
        member.started().await;
    }
    Net { _controller: controller, client, token, _members: members }
}

/// Returns a profile of gradients of 4 bytes each.
/// `ready` lists the times in milliseconds at which they were ready. An all-reduce takes 2 ms to start.
fn profile(ready: &[u64]) -> Profile {
    Profile {
        bytes: vec![4; ready.len()],
        ready_nanoseconds: ready.iter().map(|ready| ready * MILLISECOND).collect(),
        start_up_nanoseconds: 2 * MILLISECOND,
    }
}

fn number(run: u64, number: u32) -> ProfileNumber {
    ProfileNumber { run, number }
}

impl Net {
    async fn hand_in(&self, host: &str, number: ProfileNumber, profile: Profile) -> Result<Outcome, Status> {
        let request = v1::HandInProfileRequest {
            job: "digits".into(),
            token: self.token.clone(),
            host: host.into(),
            number: Some(number),
            profile: Some(profile),
        };
        let answer = self.client.clone().hand_in_profile(request).await?;
        Ok(answer.into_inner().outcome.unwrap())
    }

    /// Lets both workers submit their profiles at the same time.
    async fn both(&self, number: ProfileNumber, profiles: [Profile; 2]) -> [Result<Outcome, Status>; 2] {
        let [first, second] = profiles;
        let (a, b) = tokio::join!(self.hand_in("w0", number, first), self.hand_in("w1", number, second));
        [a, b]
    }
}

/// Returns the time of each set in milliseconds, with the set's gradients.
fn sets(outcome: &Outcome) -> Vec<(u64, Vec<u32>)> {
    let Outcome::Schedule(schedule) = outcome else { panic!("{outcome:?}") };
    schedule.sets.iter().map(|set| (set.at_nanoseconds / MILLISECOND, set.gradients.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_hear_the_schedule_that_follows_from_the_slowest() {
    let net = running().await;
    let [a, b] = net.both(number(7, 1), [profile(&[21, 20, 1, 0]), profile(&[22, 20, 0, 2])]).await;
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a, b);
    assert_eq!(sets(&a), [(2, vec![2, 3]), (22, vec![1, 0])]);
    // A worker that lost the answer submits its profile again, and gets the same answer.
    assert_eq!(net.hand_in("w1", number(7, 1), profile(&[22, 20, 0, 2])).await.unwrap(), a);

    let request = v1::GetScheduleRequest { job: "digits".into() };
    let told = net.client.clone().get_schedule(request).await.unwrap().into_inner();
    assert_eq!(Outcome::Schedule(told.schedule.unwrap()), a);
    assert_eq!((told.profile.unwrap(), told.ranks), (profile(&[22, 20, 1, 2]), vec![0, 1]));
    let request = v1::GetScheduleRequest { job: "other".into() };
    assert_eq!(refusal(net.client.clone().get_schedule(request).await).0, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_whom_for() {
    let net = running().await;
    let Ok(Outcome::Awaited(awaited)) = net.hand_in("w1", number(7, 1), profile(&[0])).await else {
        panic!("not awaited")
    };
    assert_eq!(awaited.ranks, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_is_thrown_out_for_all_until_it_is_seen_to_stay() {
    let net = running().await;
    let spoilt = || [profile(&[0, 10, 20, 230]), profile(&[0, 10, 20, 30])];
    for outcome in net.both(number(7, 1), spoilt()).await {
        let Ok(Outcome::ThrownOut(thrown_out)) = outcome else { panic!("{outcome:?}") };
        assert!(thrown_out.reason.contains("210.0ms"), "{thrown_out:?}");
    }
    let [a, b] = net.both(number(7, 2), spoilt()).await;
    assert_eq!(sets(&a.unwrap()).len(), 4, "the model takes so long there");
    assert!(b.is_ok());
    let request = v1::GetScheduleRequest { job: "digits".into() };
    assert_eq!(net.client.clone().get_schedule(request).await.unwrap().into_inner().thrown_out, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_run_of_the_job_gets_a_schedule_of_its_own() {
    let net = running().await;
    let _ = net.both(number(7, 1), [profile(&[0, 10]), profile(&[0, 10])]).await;
    // A process that ends may have submitted a profile that the other processes never submit.
    let _ = net.hand_in("w0", number(7, 2), profile(&[0, 10])).await;
    let [a, b] = net.both(number(8, 1), [profile(&[0]), profile(&[0])]).await;
    assert_eq!(sets(&a.unwrap()), [(0, vec![0])]);
    assert!(b.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused() {
    let net = running().await;
    for outcome in net.both(number(7, 1), [profile(&[0, 1]), profile(&[0])]).await {
        let (code, words) = refusal(outcome);
        assert_eq!(code, Code::InvalidArgument);
        assert!(words.contains("rank 1 has 1 gradients, and rank 0 has 2"), "{words}");
    }
    let uneven = Profile { bytes: vec![4; 2], ..profile(&[0]) };
    assert_eq!(refusal(net.hand_in("w0", number(7, 2), uneven).await).0, Code::InvalidArgument);
    assert_eq!(refusal(net.hand_in("w0", number(7, 0), profile(&[0])).await).0, Code::InvalidArgument);
    assert_eq!(refusal(net.hand_in("ps", number(7, 2), profile(&[0])).await).0, Code::NotFound);
    let _ = net.hand_in("w0", number(7, 3), profile(&[0])).await;
    let (code, words) = refusal(net.hand_in("w1", number(7, 2), profile(&[0])).await);
    assert_eq!((code, words.contains("profile 3")), (Code::Aborted, true), "{words}");
    end(&mut net.client.clone(), "digits", &net.token).await.unwrap();
    let (code, words) = refusal(net.hand_in("w0", number(7, 3), profile(&[0])).await);
    assert!(words.contains("is over"), "{code:?}: {words}");
}
