//! Tests that gradients in parts have the same effect as whole gradients.

use std::num::{NonZeroU16, NonZeroU64};

use proptest::prelude::*;
use tonic::Code;
use tributary_api::ps::server_message::Message as Told;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{DropParts, EndParts, Push, PushPart, Ready};
use tributary_codec::Kind;
use tributary_ps::client::{Client, ClientError, ClientOptions, PartError, Step};
use tributary_ps::optimizer::OptimizerKind;
use tributary_ps::server::{JobSpec, PolicyKind};

use crate::serving::{PARAMETERS, Raw, Running, hello};

/// The order in which two workers push. With it, neither waits for the other under any policy except
/// the synchronous one. The first worker is up to three gradients ahead, and at times more than an
/// epoch.
const ORDER: [u16; 14] = [0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1];

/// A training, and the cuts of its gradients into parts.
#[derive(Debug, Clone)]
struct Case {
    policy: PolicyKind,
    optimizer: OptimizerKind,
    servers: usize,
    parameters: usize,
    /// For each gradient: the cuts, and a number that determines the order in which the parts are pushed.
    cuts: Vec<(Vec<usize>, usize)>,
}

fn case() -> impl Strategy<Value = Case> {
    let adam = OptimizerKind::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
    let optimizers = prop_oneof![Just(OptimizerKind::default()), Just(adam)];
    let policies = prop_oneof![
        Just(PolicyKind::Bsp),
        Just(PolicyKind::Asp),
        Just(PolicyKind::Ssp),
        Just(PolicyKind::A2s)
    ];
    (policies, optimizers, 1..4_usize, 3..40_usize).prop_flat_map(
        |(policy, optimizer, servers, parameters)| {
            let cuts = prop::collection::vec(1..parameters, 0..6);
            prop::collection::vec((cuts, 0..6_usize), 1..5).prop_map(move |cuts| Case {
                policy,
                optimizer,
                servers,
                parameters,
                cuts,
            })
        },
    )
}

/// Returns a gradient that depends on the parameters, the worker and the iteration.
fn gradient(step: &Step, worker: u16) -> Vec<f32> {
    let moved = |(place, value): (usize, &f32)| {
        (place as f32 + f32::from(worker)).sin() + 0.1 * value + 0.01 * step.iteration as f32
    };
    step.parameters.iter().enumerate().map(moved).collect()
}

impl Case {
    /// Trains, and returns the bits of the servers' final parameters.
    async fn train(&self, in_parts: bool) -> Vec<u32> {
        let mut running = Vec::new();
        for _ in 0..self.servers {
            let (two, epoch) = (NonZeroU16::new(2).unwrap(), NonZeroU64::new(1).unwrap());
            let spec = JobSpec::new("job", two, self.policy, epoch, 0.1);
            running.push(Running::serve(JobSpec { optimizer: self.optimizer, ..spec }).await);
        }
        let servers: Vec<_> = running.iter().map(|running| running.remote.clone()).collect();
        let join = async |worker: u16| {
            let options = ClientOptions { servers: servers.clone(), ..running[0].options(worker) };
            Client::join(options, &vec![1.0; self.parameters]).await.unwrap()
        };
        let (first, second) = tokio::join!(join(0), join(1));
        let mut workers = [first, second];
        let mut cuts = self.cuts.iter().cycle();
        let mut push = async |(client, step): &mut (Client, Step), worker| {
            let gradient = gradient(step, worker);
            if in_parts {
                hand_in_parts(client, &gradient, cuts.next().unwrap());
                *step = client.push_parts().await.unwrap();
            } else {
                *step = client.push(&gradient).await.unwrap();
            }
        };
        if self.policy == PolicyKind::Bsp {
            let [(first, step), (second, other)] = &mut workers;
            let mut cuts = self.cuts.iter().cycle();
            for _ in 0..5 {
                let gradients = [gradient(step, 0), gradient(other, 1)];
                if in_parts {
                    hand_in_parts(first, &gradients[0], cuts.next().unwrap());
                    hand_in_parts(second, &gradients[1], cuts.next().unwrap());
                    let (one, two) = tokio::join!(first.push_parts(), second.push_parts());
                    (*step, *other) = (one.unwrap(), two.unwrap());
                } else {
                    let (one, two) = tokio::join!(first.push(&gradients[0]), second.push(&gradients[1]));
                    (*step, *other) = (one.unwrap(), two.unwrap());
                }
            }
        } else {
            for worker in ORDER {
                push(&mut workers[usize::from(worker)], worker).await;
            }
        }
        let mut parameters = Vec::new();
        for running in &running {
            parameters.extend(running.view.parameters("job").await.unwrap());
        }
        parameters.into_iter().map(f32::to_bits).collect()
    }
}

/// Pushes the parts between the cuts, in an order that depends on `turn`.
fn hand_in_parts(client: &mut Client, gradient: &[f32], (cuts, turn): &(Vec<usize>, usize)) {
    let mut ends = [&[0, gradient.len()][..], cuts].concat();
    ends.sort_unstable();
    ends.dedup();
    let mut parts: Vec<_> = ends.windows(2).map(|ends| ends[0]..ends[1]).collect();
    let turns = turn % parts.len();
    parts.rotate_left(turns);
    for part in parts {
        client.push_part(part.start, &gradient[part]).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn whatever_the_parts_the_parameters_are_those_of_whole_gradients(case in case()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (whole, parts) = runtime.block_on(async { (case.train(false).await, case.train(true).await) });
        prop_assert_eq!(whole, parts);
    }
}

fn part(first: u64, values: &[f32]) -> Message {
    let code = Kind::None.codec(0).encode(values).unwrap();
    Message::PushPart(PushPart { first, length: values.len() as u64, code })
}

fn end(iteration: u64) -> Message {
    Message::EndParts(EndParts { iteration, updates: 0 })
}

/// Returns a session of worker 0 that has received its first step.
async fn begun(server: &Running) -> Raw {
    let mut raw = server.raw().await;
    raw.send(Some(Message::Hello(hello(0)))).await;
    raw.step().await;
    raw
}

#[tokio::test]
async fn parts_that_cannot_be_are_refused_by_name_and_change_nothing() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    let whole = Kind::None.codec(0).encode(&[1.0; PARAMETERS]).unwrap();
    let push = Message::Push(Push { iteration: 0, updates: 0, code: whole.clone() });
    let part_of =
        |first, length, code: &[u8]| Message::PushPart(PushPart { first, length, code: code.to_vec() });
    let mut infinite = Kind::None.codec(0).encode(&[1.0; 2]).unwrap();
    let length = infinite.len();
    infinite[length - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let good = part(0, &[1.0; 4]);
    let wrong = [
        (vec![part(8, &[1.0; 3])], "beyond the end"),
        (vec![part(u64::MAX, &[1.0])], "beyond the end"),
        (vec![part_of(0, u64::MAX, &whole)], "beyond the end"),
        (vec![part_of(3, 0, b"")], "without values"),
        (vec![good.clone(), part(3, &[1.0; 3])], "values 0..4 have come already"),
        (vec![good.clone(), good.clone()], "values 0..4 have come already"),
        (vec![part_of(0, 4, b"rubbish")], "from value 0 on"),
        (vec![part_of(0, 4, &whole)], "4 are expected"),
        (vec![part_of(0, 2, &infinite)], "from value 0 on"),
        (vec![good.clone(), part(6, &[1.0; 4]), end(0)], "values 4..6 are missing"),
        (vec![good.clone(), end(0)], "values 4..10 are missing"),
        (vec![end(0)], "values 0..10 are missing"),
        (vec![good.clone(), push], "parts of another gradient"),
        (vec![good.clone(), Message::Ready(Ready { iteration: 0, updates: 0 })], "parts of another gradient"),
        (vec![part(0, &[1.0; PARAMETERS]), end(7)], "iteration 7 where 0 is the next"),
    ];
    for (messages, words) in wrong {
        let raw = begun(&server).await;
        for message in messages {
            raw.send(Some(message)).await;
        }
        let status = raw.refused().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(words), "{words}: {status:?}");
    }
    assert_eq!(server.view.stats()[0].1.updates, 0);
    assert_eq!(server.view.parameters("job").await.unwrap(), [0.0; PARAMETERS]);
}

#[tokio::test]
async fn a_session_that_ends_in_mid_gradient_and_parts_that_are_dropped_leave_nothing() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    let raw = begun(&server).await;
    raw.send(Some(part(0, &[7.0; 6]))).await;
    drop(raw);
    let mut raw = begun(&server).await;
    // The same values are sent again, because the server has dropped the first parts.
    for message in
        [part(0, &[5.0; 6]), Message::DropParts(DropParts {}), part(4, &[1.0; 6]), part(0, &[2.0; 4])]
    {
        raw.send(Some(message)).await;
    }
    raw.send(Some(end(0))).await;
    let step = raw.step().await;
    assert_eq!((step.iteration, step.updates), (1, 1));
    let mut expected = [-2.0; PARAMETERS];
    expected[4..].fill(-1.0);
    assert_eq!(server.view.parameters("job").await.unwrap(), expected);
    // A gradient that the parameters contain already is not used again.
    raw.send(Some(part(0, &[1.0; PARAMETERS]))).await;
    raw.send(Some(end(0))).await;
    assert_eq!(raw.step().await.iteration, 1);
    assert_eq!(server.view.parameters("job").await.unwrap(), expected);
}

#[tokio::test]
async fn a_client_sends_all_parts_again_when_its_session_has_broken() {
    for codec in [Kind::None, "casq-4-ef".parse().unwrap()] {
        let server = Running::start(PolicyKind::Asp, 1).await;
        let options = ClientOptions { codec, ..server.options(0) };
        let (mut client, _) = Client::join(options, &[0.0; PARAMETERS]).await.unwrap();
        client.push_part(2, &[1.0; 5]).unwrap();
        // The part may or may not have arrived at the server.
        drop(begun(&server).await);
        client.push_part(0, &[1.0; 2]).unwrap();
        client.push_part(7, &[1.0; 3]).unwrap();
        let step = client.push_parts().await.unwrap();
        assert_eq!((step.iteration, step.updates), (1, 1));
        assert_eq!(step.parameters, [-1.0; PARAMETERS], "{codec}");
    }
}

#[tokio::test]
async fn what_a_client_cannot_push_in_parts_is_said_and_it_may_go_on() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    let (mut client, _) = Client::join(server.options(0), &[0.0; PARAMETERS]).await.unwrap();
    client.push_part(0, &[9.0; 4]).unwrap();
    let beyond = client.push_part(8, &[1.0; 3]).unwrap_err();
    assert!(matches!(
        beyond,
        ClientError::Parts(PartError::Beyond { first: 8, count: 3, length: PARAMETERS })
    ));
    let again = client.push_part(3, &[1.0; 2]).unwrap_err();
    assert!(matches!(again, ClientError::Parts(PartError::Overlap { first: 3, count: 2, .. })), "{again}");
    let spoilt = client.push_part(5, &[0.0, f32::NAN]).unwrap_err();
    assert!(spoilt.to_string().contains("value 6"), "{spoilt}");
    let missing = client.push_parts().await.unwrap_err();
    assert!(matches!(&missing, ClientError::Parts(PartError::Missing(of)) if *of == (4..PARAMETERS)));
    let whole = client.push(&[1.0; PARAMETERS]).await.unwrap_err();
    assert!(matches!(whole, ClientError::Parts(PartError::Open)));
    client.drop_parts().await;
    assert_eq!(client.push(&[1.0; PARAMETERS]).await.unwrap().parameters, [-1.0; PARAMETERS]);
    // If one part is invalid, the values of the other parts are kept.
    client.push_part(5, &[2.0; 5]).unwrap();
    assert!(client.push_part(0, &[f32::INFINITY; 5]).is_err());
    client.push_part(0, &[3.0; 5]).unwrap();
    let parameters = client.push_parts().await.unwrap().parameters;
    assert_eq!((parameters[0], parameters[9]), (-4.0, -3.0));
}

#[tokio::test]
async fn a_push_that_is_given_up_counts_and_the_parts_behind_it_are_not_of_its_gradient() {
    let server = Running::start(PolicyKind::Bsp, 2).await;
    let join = async |worker| Client::join(server.options(worker), &[0.0; PARAMETERS]).await.unwrap().0;
    let (mut first, mut second) = tokio::join!(join(0), join(1));
    first.push_part(0, &[1.0; PARAMETERS]).unwrap();
    tokio::select! {
        biased;
        step = first.push_parts() => panic!("it has to wait for the other one: {step:?}"),
        () = tokio::task::yield_now() => {}
    }
    // A part of the next gradient, before the worker has received the parameters for it.
    first.push_part(0, &[100.0; PARAMETERS]).unwrap();
    let (step, other) = tokio::join!(first.push_parts(), second.push(&[3.0; PARAMETERS]));
    assert_eq!(step.unwrap().parameters, [-2.0; PARAMETERS]);
    other.unwrap();
    first.push_part(0, &[1.0; PARAMETERS]).unwrap();
    let (step, other) = tokio::join!(first.push_parts(), second.push(&[1.0; PARAMETERS]));
    assert_eq!(step.unwrap().parameters, [-3.0; PARAMETERS]);
    assert_eq!(other.unwrap().updates, 2);
}

impl Raw {
    /// Waits for the next step.
    async fn step(&mut self) -> tributary_api::ps::Step {
        match self.steps.message().await.unwrap().and_then(|told| told.message) {
            Some(Told::Step(step)) => step,
            other => panic!("{other:?}"),
        }
    }
}
