//! A member's answers to the controller's questions before a change of generation.

use tributary_api::v1;
use tributary_api::v1::answer_request::Answer;
use tributary_protocol::{FinishedSlice, WorkerProgress};
use tributary_wire::{Operator, Seq};

use super::JobAgent;
use crate::error::AgentError;
use crate::membership::Speaker;
use crate::worker::WorkerAgent;

/// A question about a coming generation.
pub(super) struct Ask {
    pub(super) generation: u32,
    pub(super) question: Question,
}

pub(super) enum Question {
    Prepare,
    Proceed { until: u64 },
    Provide { seqs: Vec<Seq> },
}

/// Carries out the request, and sends the outcome to the controller.
pub(super) async fn answer(speaker: Speaker, agent: &JobAgent, Ask { generation, question }: Ask) {
    let JobAgent::Worker(worker) = agent else {
        tracing::warn!(generation, "the controller asks a server what only workers know");
        return;
    };
    match find_out(worker, question).await {
        Ok(answer) => speaker.answer(generation, answer).await,
        // `follow` sees the same error of the agent and handles it.
        Err(error) => tracing::debug!(generation, %error, "no answer"),
    }
}

/// Reports to the controller that the agent has changed to the generation.
pub(super) async fn changed(speaker: Speaker, generation: u32) {
    speaker.answer(generation, Answer::Changed(v1::Changed {})).await;
}

async fn find_out(worker: &WorkerAgent, question: Question) -> Result<Answer, AgentError> {
    Ok(match question {
        Question::Prepare => Answer::Progress(progress(worker.freeze().await?)),
        Question::Proceed { until } => Answer::Progress(progress(worker.proceed(until).await?)),
        Question::Provide { seqs } => {
            let slices = worker.finished(seqs).await?.into_iter().map(finished).collect();
            Answer::Provided(v1::Provided { slices })
        }
    })
}

fn progress(WorkerProgress { begun, next, idle, dues }: WorkerProgress) -> v1::WorkerProgress {
    let numbers = |seqs: Vec<Seq>| seqs.into_iter().map(|seq| seq.0).collect();
    v1::WorkerProgress { begun, next_seqs: numbers(next), idle, dues: numbers(dues) }
}

fn finished(FinishedSlice { seq, job, operator, totals, values }: FinishedSlice) -> v1::FinishedSlice {
    v1::FinishedSlice {
        seq: seq.0,
        job_id: job.get().into(),
        max: operator == Operator::Max,
        relay: operator == Operator::Relay,
        contributors: totals.contributors,
        weight: totals.weight,
        tag_high: totals.tag.high,
        tag_low: totals.tag.low,
        values: values.to_vec(),
    }
}
