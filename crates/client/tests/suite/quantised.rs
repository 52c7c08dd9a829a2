//! The client's side of quantised all-reduces.

use crate::agent::{Agent, MEMBERS};
use tributary_client::{ClientError, Quantised, Sent};

const VALUES: usize = 1000;

fn gradient() -> Vec<f32> {
    (0..VALUES).map(|at| (at as f32 * 0.7).sin().powi(5)).collect()
}

/// Reduces with an agent whose first and second sum state these numbers of members.
async fn reduce(contributors: [u32; 2], feedback: bool) -> (Result<Sent, ClientError>, Vec<f32>) {
    let agent = Agent::start(contributors).await;
    let job =
        tributary_client::Agent::connect(agent.socket()).await.unwrap().join("job", vec![]).await.unwrap();
    let mut quantised: Quantised = job.quantised(VALUES, feedback).await.unwrap();
    let mut gradient = gradient();
    let sent = quantised.all_reduce(&job, "layer 3", &mut gradient).await;
    (sent, gradient)
}

#[tokio::test]
async fn a_sum_of_some_members_is_an_error_and_leaves_the_gradient_alone() {
    // A member is missing in the sum of the sketches, which determines the levels, or in the sum of the levels.
    for contributors in [[MEMBERS - 1, MEMBERS], [MEMBERS, 1]] {
        for feedback in [false, true] {
            let (sent, after) = reduce(contributors, feedback).await;
            let error = sent.unwrap_err();
            let inside = contributors.into_iter().min().unwrap();
            match &error {
                ClientError::MembersMissing { name, contributors, members } => {
                    assert_eq!((name.as_str(), *contributors, *members), ("layer 3", inside, MEMBERS));
                }
                other => panic!("{other}"),
            }
            let said = format!("layer 3 was summed over {inside} of {MEMBERS} members");
            assert!(error.to_string().starts_with(&said), "{error}");
            assert_eq!(after, gradient());
        }
    }
}

#[tokio::test]
async fn a_sum_of_all_members_takes_the_gradients_place() {
    let (sent, after) = reduce([MEMBERS; 2], false).await;
    sent.unwrap();
    assert_ne!(after, gradient());
}
