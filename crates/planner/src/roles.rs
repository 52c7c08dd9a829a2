//! The roles of a tree's switches. Switches aggregate where streams of gradients meet.

use crate::fabric::Fabric;
use crate::request::JobRequest;
use crate::tree::{Branch, Tree};

/// The reason why a switch does not aggregate the streams that meet there, although the job allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregationObstacle {
    /// The switch does not run our program.
    Plain,
    /// The switch has only this number of free slots, which is less than the window.
    Slots(u32),
    /// This number of streams meet, which is more than the switch can distinguish.
    Children(usize),
}

/// The role of one switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge {
    /// True if the switch aggregates.
    pub(crate) aggregate: bool,
    /// The reason why the switch does not aggregate although it should.
    pub(crate) obstacle: Option<AggregationObstacle>,
    /// The number of streams that leave the switch.
    pub(crate) going: usize,
    /// The length of the hop stack of packets that arrive at the switch.
    pub(crate) entries: usize,
}

/// The role of every node of a tree.
#[derive(Debug, Clone)]
pub(crate) struct Roles {
    /// The roles of the switches, by their place in the tree.
    pub(crate) merges: Vec<Merge>,
    /// The number of streams that arrive at the server.
    /// It may exceed the maximum of a hop entry; see `costed_tree`.
    pub(crate) server_fan_in: usize,
}

impl Roles {
    /// Lets every switch of the tree aggregate, if the job allows it and the switch can.
    pub(crate) fn on(tree: &Tree, fabric: &Fabric<'_>, job: &JobRequest) -> Self {
        Self::with(tree, fabric, |branch, streams, level| {
            match streams > 1 && level <= job.aggregation.levels() {
                false => (false, None),
                true => can_aggregate(branch, streams, fabric, job)
                    .map_or_else(|why| (false, Some(why)), |()| (true, None)),
            }
        })
    }

    /// Makes the roles of the switches in an existing plan.
    /// `aggregates` returns true if a switch aggregates.
    pub(crate) fn given(tree: &Tree, fabric: &Fabric<'_>, aggregates: impl Fn(&Branch) -> bool) -> Self {
        Self::with(tree, fabric, |branch, _, _| (aggregates(branch), None))
    }

    /// Assigns roles. `decide` returns true if a switch aggregates, or a reason why it does not.
    /// Its arguments are the switch, the number of streams that meet there, and the distance in links from the nearest
    /// worker.
    fn with(
        tree: &Tree,
        fabric: &Fabric<'_>,
        decide: impl Fn(&Branch, usize, usize) -> (bool, Option<AggregationObstacle>),
    ) -> Self {
        let branches = tree.branches();
        // Both vectors are indexed by place; the last entry is for the server.
        let mut arriving = vec![0; branches.len() + 1];
        let mut level = vec![usize::MAX; branches.len() + 1];
        for leaf in tree.leaves() {
            arriving[leaf.above] += 1;
            level[leaf.above] = 1;
        }
        let mut merges = Vec::with_capacity(branches.len());
        for (place, branch) in branches.iter().enumerate() {
            let streams = arriving[place];
            let (aggregate, obstacle) = decide(branch, streams, level[place]);
            let going = if aggregate { 1 } else { streams };
            arriving[branch.above] += going;
            level[branch.above] = level[branch.above].min(level[place].saturating_add(1));
            merges.push(Merge { aggregate, obstacle, going, entries: 0 });
        }
        for (place, branch) in branches.iter().enumerate().rev() {
            // The last entry of a stack is the server's, so directly below the server its length is 1.
            let above = merges.get(branch.above).map_or(1, |merge| merge.entries);
            merges[place].entries = above + usize::from(fabric.is_programmable(branch.switch));
        }
        Self { merges, server_fan_in: arriving[branches.len()] }
    }

    /// Returns the length of the hop stack of packets that arrive at a place of the tree.
    pub(crate) fn entries(&self, place: usize) -> usize {
        self.merges.get(place).map_or(1, |merge| merge.entries)
    }
}

fn can_aggregate(
    branch: &Branch,
    streams: usize,
    fabric: &Fabric<'_>,
    job: &JobRequest,
) -> Result<(), AggregationObstacle> {
    if !fabric.is_programmable(branch.switch) {
        Err(AggregationObstacle::Plain)
    } else if streams > fabric.most_children() {
        Err(AggregationObstacle::Children(streams))
    } else if !fabric.has_slots(branch.switch, job.window) {
        Err(AggregationObstacle::Slots(fabric.free_slots(branch.switch)))
    } else {
        Ok(())
    }
}
