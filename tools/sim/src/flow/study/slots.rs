//! Many jobs on switches with a growing number of slots.

use super::jobs::{MOST, network};
use super::settings::{Point, Settings};
use crate::flow::assumptions::Assumptions;
use crate::flow::error::FlowError;
use crate::flow::job::Method;
use crate::flow::setup::Setup;

/// The numbers of jobs whose windows fit into the slots of one switch.
pub(super) const WINDOWS: [u32; 5] = [0, 1, 2, 4, 16];

pub(super) fn measure(settings: &Settings, place: usize) -> Result<Point, FlowError> {
    let windows = WINDOWS.get(place).copied().unwrap_or(0);
    let topology = network(settings)?;
    let setup = |method, seed| {
        let window = match method {
            Method::Fabric { window } | Method::Leaf { window } => window,
            Method::ParameterServer { .. } | Method::Ring | Method::DoubleTree => 0,
        };
        let assumptions = Assumptions { slots: windows.saturating_mul(window), ..settings.assumptions };
        let jobs = settings.jobs(&topology, MOST, method, seed);
        Setup { assumptions, ..settings.setup(&topology, jobs, seed) }
    };
    let mut methods = settings.methods();
    methods.retain(|method| method.is_in_network());
    settings.compare(windows.to_string(), &methods, setup, |_, outcome| Ok(outcome.mean_iteration()))
}
