//! The rounds of one member: it contributes, checks the sum, and continues from it.
//!
//! After workers have joined, the member either sends its state to them, or takes over another member's
//! state.

use std::hash::{DefaultHasher, Hasher};

use anyhow::{Result, ensure};
use tributary_client::Run;

use super::participant::{Fabric, SumOutcome};
use super::sums::Contributions;
use crate::chaos::event::{MemberEvent, Moment, Reduced};

/// Length of the state: numbers that depend on all completed rounds, like a model's parameters.
///
/// The numbers are integers below 2^20, which f32 and the fabric's fixed point represent exactly.
const STATE: usize = 1000;
const STATE_MODULUS: i64 = 1 << 20;
/// The limit of the round number, because f32 represents all integers below it exactly.
const MAX_ROUND: f32 = (1 << 24) as f32;

/// The state of a member between two rounds.
#[derive(Debug)]
pub(super) struct Member {
    contributions: Contributions,
    round: u32,
    state: Vec<i64>,
    tensor: Vec<f32>,
}

impl Member {
    /// Makes a member before its first round, for jobs of `ranks` ranks and tensors of `elements` elements.
    pub(super) fn new(ranks: u32, elements: usize) -> Self {
        Self {
            contributions: Contributions::new(ranks),
            round: 0,
            state: vec![0; STATE],
            tensor: vec![0.0; elements],
        }
    }

    /// Returns the length of the member's largest tensor.
    pub(super) fn most_elements(&self) -> usize {
        self.tensor.len().max(1 + STATE)
    }

    /// Runs one all-reduce. Returns `None` if workers have joined.
    ///
    /// Then all members have the same state.
    ///
    /// # Errors
    /// This process is no longer in the job, or no member is left that could provide the state.
    pub(super) async fn step(&mut self, rank: u32, fabric: &mut impl Fabric) -> Result<Option<MemberEvent>> {
        self.contributions.fill(&mut self.tensor, rank, self.round);
        let runs = match fabric.sum(&mut self.tensor).await? {
            SumOutcome::Sum(runs) => runs,
            SumOutcome::Regroup => {
                let mut values = self.values();
                fabric.synchronise(&mut values).await?;
                self.adopt(&values)?;
                return Ok(None);
            }
        };
        let (round, at) = (self.round, Moment::now());
        self.round += 1;
        let checked = self.contributions.check(&self.tensor, &runs, round);
        let digest = self.take_in(&runs);
        let contributors = runs.iter().map(|run| run.contributors).min().unwrap_or_default();
        Ok(Some(match checked {
            Ok(()) => MemberEvent::Reduced(Reduced { round, at, digest, contributors }),
            Err(wrong) => MemberEvent::Wrong { round, problem: wrong.to_string() },
        }))
    }

    /// Updates the state with a sum. Returns a digest of the sum, its contributors, and the new state.
    fn take_in(&mut self, runs: &[Run]) -> u64 {
        for (state, sum) in self.state.iter_mut().zip(&self.tensor) {
            *state = (*state * 5 + *sum as i64).rem_euclid(STATE_MODULUS);
        }
        let mut digest = DefaultHasher::new();
        for run in runs {
            digest.write_u64(run.elements);
            digest.write_u32(run.contributors);
        }
        self.tensor.iter().for_each(|sum| digest.write_u32(sum.to_bits()));
        self.state.iter().for_each(|state| digest.write_i64(*state));
        digest.finish()
    }

    fn values(&self) -> Vec<f32> {
        let state = self.state.iter().map(|state| *state as f32);
        std::iter::once(self.round as f32).chain(state).collect()
    }

    fn adopt(&mut self, values: &[f32]) -> Result<()> {
        let (round, state) = values.split_first().unwrap_or((&0.0, &[]));
        let fits = |value: f32, limit: f32| value.fract() == 0.0 && (0.0..limit).contains(&value);
        ensure!(
            fits(*round, MAX_ROUND) && state.iter().all(|value| fits(*value, STATE_MODULUS as f32)),
            "the leader has sent an invalid member state"
        );
        self.round = *round as u32;
        self.state = state.iter().map(|value| *value as i64).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const RANKS: u32 = 4;
    const ELEMENTS: usize = 2048;

    /// Simulates the other members for the member under test.
    #[derive(Default)]
    struct Script {
        answers: VecDeque<Answer>,
        /// The states that the member has offered for synchronisation.
        offered: Vec<Vec<f32>>,
    }

    enum Answer {
        /// The sum over all ranks, in this round.
        All(u32),
        Joined,
        /// The leader's state.
        State(Vec<f32>),
    }

    impl Fabric for Script {
        async fn sum(&mut self, values: &mut [f32]) -> Result<SumOutcome> {
            match self.answers.pop_front().unwrap() {
                Answer::Joined => Ok(SumOutcome::Regroup),
                Answer::All(round) => {
                    let mut own = vec![0.0; values.len()];
                    let run = Run { elements: values.len() as u64, weight: RANKS, contributors: RANKS };
                    values.fill(0.0);
                    for rank in 0..RANKS {
                        Contributions::new(RANKS).fill(&mut own, rank, round);
                        values.iter_mut().zip(&own).for_each(|(sum, own)| *sum += own);
                    }
                    Ok(SumOutcome::Sum(vec![run]))
                }
                Answer::State(_) => panic!("not asked to synchronise yet"),
            }
        }

        async fn synchronise(&mut self, values: &mut [f32]) -> Result<()> {
            self.offered.push(values.to_vec());
            let Some(Answer::State(state)) = self.answers.pop_front() else {
                panic!("nothing to synchronise")
            };
            values.copy_from_slice(&state);
            Ok(())
        }
    }

    fn step(
        member: &mut Member,
        rank: u32,
        answers: impl IntoIterator<Item = Answer>,
    ) -> (Result<Option<MemberEvent>>, Script) {
        let mut script = Script { answers: answers.into_iter().collect(), ..Script::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        (runtime.block_on(member.step(rank, &mut script)), script)
    }

    fn reduced(member: &mut Member, rank: u32, round: u32) -> Reduced {
        match step(member, rank, [Answer::All(round)]).0.unwrap() {
            Some(MemberEvent::Reduced(reduced)) => reduced,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn members_that_see_the_same_sums_say_the_same_and_others_something_else() {
        let [mut first, mut second] = [Member::new(RANKS, ELEMENTS), Member::new(RANKS, ELEMENTS)];
        for round in 0..3 {
            let [one, other] =
                [(&mut first, 0), (&mut second, 3)].map(|(member, rank)| reduced(member, rank, round));
            assert_eq!((one.round, one.digest, one.contributors), (round, other.digest, RANKS));
        }
        let mut late = Member::new(RANKS, ELEMENTS);
        late.round = 3;
        let [one, other] = [(&mut first, 0), (&mut late, 1)].map(|(member, rank)| reduced(member, rank, 3));
        assert_ne!(one.digest, other.digest, "it does not know what came of the rounds before");
    }

    #[test]
    fn a_stale_sum_is_told() {
        let mut member = Member::new(RANKS, ELEMENTS);
        reduced(&mut member, 0, 0);
        let event = step(&mut member, 0, [Answer::All(0)]).0.unwrap();
        assert!(matches!(event, Some(MemberEvent::Wrong { round: 1, .. })), "{event:?}");
    }

    #[test]
    fn one_that_joins_goes_on_as_those_that_were_there() {
        let [mut leader, mut joiner] = [Member::new(RANKS, ELEMENTS), Member::new(RANKS, ELEMENTS)];
        for round in 0..5 {
            reduced(&mut leader, 0, round);
        }
        let state = leader.values();
        let answers = || [Answer::Joined, Answer::State(state.clone())];
        let (led, script) = step(&mut leader, 0, answers());
        assert!(led.unwrap().is_none());
        assert_eq!(script.offered, std::slice::from_ref(&state));
        let (joined, _) = step(&mut joiner, 2, answers());
        assert!(joined.unwrap().is_none());
        assert_eq!(reduced(&mut leader, 0, 5).digest, reduced(&mut joiner, 2, 5).digest);
    }

    #[test]
    fn what_is_no_state_is_not_taken_over() {
        for bad in [-1.0, 0.5, f32::NAN, MAX_ROUND] {
            let mut state = Member::new(RANKS, ELEMENTS).values();
            state[0] = bad;
            let answers = [Answer::Joined, Answer::State(state)];
            assert!(step(&mut Member::new(RANKS, ELEMENTS), 0, answers).0.is_err(), "{bad}");
        }
    }
}
