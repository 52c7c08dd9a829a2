//! One job under rising background traffic.

use super::settings::{Point, Settings};
use crate::flow::background::Background;
use crate::flow::error::FlowError;
use crate::flow::setup::Setup;

pub(super) const PER_CENT: [u32; 5] = [0, 20, 40, 60, 80];

/// Hosts of a fat tree of 8 ports. For each host of the job, several have background traffic only.
pub(super) const HOSTS: usize = 128;
/// Mean volume of long transfers, such as checkpoints, so that links are shared for seconds.
const MEAN_BYTES: f64 = 128e6;

pub(super) fn measure(settings: &Settings, place: usize) -> Result<Point, FlowError> {
    let per_cent = PER_CENT.get(place).copied().unwrap_or(0);
    let hosts = HOSTS.max(settings.hosts_of_job());
    let topology = settings.network(hosts, settings.oversubscription, 1)?;
    let background = Background { load: f64::from(per_cent) / 100.0, mean_bytes: MEAN_BYTES };
    let setup = |method, seed| Setup {
        background: Some(background),
        ..settings.setup(&topology, settings.jobs(&topology, 1, method, seed), seed)
    };
    settings.compare(format!("{per_cent} %"), &settings.methods(), setup, |_, outcome| {
        Ok(outcome.mean_iteration())
    })
}
