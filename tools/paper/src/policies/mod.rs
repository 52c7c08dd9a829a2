//! Compares methods to synchronise workers of different speeds, each at its best learning rate.

mod contenders;
mod report;
mod speeds;
mod sweep;
mod training;

use std::num::NonZeroU64;
use std::path::Path;

use anyhow::Result;
use tributary_ps::optimizer::OptimizerKind;
use tributary_trainer::Shards;

use crate::progress::Progress;
use crate::results::Results;
use crate::workload::{Model, Workload};
use contenders::Contender;
use report::{long_run, scenario};
use speeds::{Speeds, Time, UNIT};
use sweep::Swept;
use training::Setting;

/// The speeds of the workers, and the division of the data among them.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    name: &'static str,
    said: &'static str,
    speeds: Speeds,
    skewed: bool,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "lasting",
        said: "The workers' step times are 1, 1, 1.1, 1.2, 1.5, 2, 3 and 4, and never change. The data are divided \
               randomly.",
        speeds: Speeds::Lasting,
        skewed: false,
    },
    Scenario {
        name: "skewed",
        said: "The step times are the same as under *lasting*. Each worker has the data of as few classes as \
               possible.",
        speeds: Speeds::Lasting,
        skewed: true,
    },
    Scenario {
        name: "changing",
        said: "The step times are the same as under *lasting*, but every 40 steps of the fastest worker they move to \
               other workers.",
        speeds: Speeds::Changing,
        skewed: false,
    },
    Scenario {
        name: "hiccups",
        said: "All workers are equally fast, but every tenth step of each worker takes four times as long.",
        speeds: Speeds::Hiccups,
        skewed: false,
    },
];

/// The extent of a study: the length of each training, and the number of trainings.
#[derive(Debug, Clone, Copy)]
struct Extent {
    batch: usize,
    /// Iterations of a worker that count as an epoch; `None` for a pass over the worker's shard.
    ///
    /// It is set if a pass would take longer than the study.
    epoch: Option<NonZeroU64>,
    length: Time,
    looks: u64,
    seeds: u64,
    optimizer: OptimizerKind,
    /// The first learning rates.
    ///
    /// The study tries further rates if the lowest or the highest rate is the best.
    rates: &'static [f32],
    /// An accuracy that every contender can reach.
    target: f64,
    scenarios: usize,
}

fn extent(model: Model) -> Extent {
    match model {
        Model::Digits => Extent {
            batch: 16,
            epoch: None,
            length: 300 * UNIT,
            looks: 60,
            seeds: 3,
            optimizer: OptimizerKind::Sgd {},
            rates: &[0.05, 0.1, 0.2, 0.4, 0.8],
            target: 0.9,
            scenarios: SCENARIOS.len(),
        },
        Model::Cnn => Extent {
            batch: 16,
            epoch: None,
            length: 320 * UNIT,
            looks: 32,
            seeds: 2,
            optimizer: OptimizerKind::Sgd {},
            rates: &[0.05, 0.1, 0.2, 0.4],
            target: 0.9,
            scenarios: 1,
        },
        Model::Transformer => Extent {
            batch: 4,
            epoch: NonZeroU64::new(10),
            length: 160 * UNIT,
            looks: 16,
            seeds: 1,
            // By plain gradient descent, a transformer learns almost nothing in this number of steps.
            optimizer: OptimizerKind::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
            rates: &[0.001, 0.002, 0.004],
            target: 0.3,
            scenarios: 1,
        },
    }
}

/// Compares all contenders on a model, and writes the results.
///
/// # Errors
/// A training cannot continue, or a file cannot be written.
pub(crate) fn study(model: Model, python: &str, out: &Path, long: bool) -> Result<()> {
    let workload = model.load(python)?;
    let extent = extent(model);
    let part = format!("policies-{}", model.name());
    let title = format!("Synchronisation of workers of different speeds: {}", model.name());
    let mut results = Results::start(out, &part, &title, &said(&*workload, &extent))?;
    let (mut summary, mut runs) = (Vec::new(), Vec::new());
    for case in SCENARIOS.into_iter().take(extent.scenarios) {
        let shards = shards(&*workload, case.skewed)?;
        let setting = setting(&*workload, &shards, &extent, case.speeds)?;
        let progress = Progress::new(&format!("{part}, {}", case.name));
        let swept = Contender::ALL.map(|contender| sweep::sweep(&setting, contender, &extent, &progress));
        let swept = swept.into_iter().collect::<Result<Vec<Swept>>>()?;
        progress.done();
        results.section(case.name, case.said);
        summary.extend(scenario(&mut results, case.name, &swept, &extent)?);
        runs.extend(swept.iter().flat_map(|swept| swept.rows(case.name)));
    }
    results.section(
        "For programs",
        "The first file has the means over the seeds at each contender's best rate, and the second file has all \
         trainings.",
    );
    results.csv("summary", &summary)?;
    results.csv("runs", &runs)?;
    if long {
        let shards = shards(&*workload, false)?;
        let setting = setting(&*workload, &shards, &extent, Speeds::Lasting)?;
        long_run(&mut results, &Setting { length: 5 * setting.length, looks: 150, ..setting }, &summary)?;
    }
    results.finish()
}

fn shards(workload: &dyn Workload, skewed: bool) -> Result<Shards> {
    let labels = workload.labels();
    Ok(match skewed {
        true => Shards::by_class(labels, Speeds::WORKERS)?,
        false => Shards::alike(labels.len(), Speeds::WORKERS, 1)?,
    })
}

fn setting<'a>(
    workload: &'a dyn Workload,
    shards: &'a Shards,
    extent: &Extent,
    speeds: Speeds,
) -> Result<Setting<'a>> {
    let pass = u64::try_from(shards.of(0).len().div_ceil(extent.batch))?;
    let Extent { batch, optimizer, length, looks, .. } = *extent;
    let epoch = extent.epoch.or(NonZeroU64::new(pass)).unwrap_or(NonZeroU64::MIN);
    Ok(Setting { workload, speeds, shards, batch, optimizer, epoch, length, looks })
}

fn said(workload: &dyn Workload, extent: &Extent) -> String {
    format!(
        "{} workers train a model of {} parameters over a parameter server, on a virtual clock. The server's policies \
         and the gradients are real, and the study sets the times. Each worker has its own shard of the data, {} \
         samples make a gradient, an epoch is {}, and the server's optimiser is {}. The fastest worker trains for {} \
         steps. Every contender has its own learning rate, which gives it the best final accuracy ({}); rates were \
         doubled and halved until the best rate was not the last rate tried. *Time* is in steps of the fastest \
         worker. Messages take no time. *Stale updates* and *stale gradients* are the numbers of updates, and of \
         gradients in them, between a worker's pull and the use of its gradient.",
        Speeds::WORKERS,
        workload.parameters(),
        extent.batch,
        match extent.epoch {
            Some(iterations) => format!(
                "{iterations} iterations of a worker (a pass over its shard would be longer than the study)"
            ),
            None => "a pass over a worker's shard".into(),
        },
        match extent.optimizer {
            OptimizerKind::Sgd {} => "plain gradient descent",
            OptimizerKind::Momentum { .. } => "gradient descent with momentum",
            OptimizerKind::Adam { .. } => "Adam",
        },
        extent.length / UNIT,
        match extent.seeds {
            1 => "one seed".into(),
            several => format!("mean of {several} seeds"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use training::{TrainingOutcome, train};

    /// Trains for half of the study's length. The tests pass the rate that the study finds best.
    fn trained(contender: Contender, rate: f32) -> TrainingOutcome {
        let workload = Model::Digits.load("no Python").unwrap();
        let shards = shards(&*workload, false).unwrap();
        let extent = Extent { length: 150 * UNIT, looks: 10, ..extent(Model::Digits) };
        let setting = setting(&*workload, &shards, &extent, Speeds::Lasting).unwrap();
        train(&setting, contender, rate, 1).unwrap()
    }

    #[test]
    fn what_the_documentation_says_of_the_policies_holds() {
        let bsp = trained(Contender::Bsp, 0.4);
        let asp = trained(Contender::Asp, 0.1);
        let a2s = trained(Contender::A2s, 0.1);
        assert!(a2s.stale_updates <= 0.65 * asp.stale_updates, "{a2s:?}");
        for (a2s, more) in [(&a2s, 1.7), (&trained(Contender::A2sRecent, 0.1), 2.4)] {
            assert!(a2s.stale_updates < asp.stale_updates, "{a2s:?}");
            assert!(a2s.gradients as f64 >= more * bsp.gradients as f64, "{a2s:?}");
            assert!(a2s.accuracy() >= bsp.accuracy() - 0.02, "{} of {}", a2s.accuracy(), bsp.accuracy());
        }
        assert!(asp.idle < 0.05 && bsp.idle > 0.5, "{} and {}", asp.idle, bsp.idle);
        assert_eq!(bsp.stale_gradients, 0.0);
    }

    #[test]
    fn where_batches_follow_speeds_nobody_waits_long_and_as_much_is_learnt_from() {
        let bsp = trained(Contender::Bsp, 0.4);
        let even = trained(Contender::BspBatches, 0.4);
        assert!(even.idle < 0.15 && even.updates > 2 * bsp.updates, "{} of {}", even.updates, bsp.updates);
    }

    #[test]
    fn a_round_of_local_sgd_is_eight_steps_of_each() {
        let local = trained(Contender::LocalSgd, 0.1);
        assert_eq!(local.gradients, local.updates * 8 * u64::from(Speeds::WORKERS));
    }
}
