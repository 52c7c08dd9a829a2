//! The bytes that one all-reduce puts on every link direction, including headers.
//!
//! A gradient of B bytes is B / 4 values, in slices of V values. The members first agree on the bounds of the values,
//! in MAX slices. Each MAX slice bounds 42 slices of values (21 if V is 64, and 10 if V is 32). The last slice of
//! either kind is padded. Values that differ much in magnitude need further slices, which are not counted. A GRADIENT
//! frame loses one hop entry at every programmable switch. Losses and probes are not counted.

use std::time::Duration;

use serde::Serialize;
use tributary_topology::{LinkDirection, Neighbour};
use tributary_wire::constants::HOP_BYTES;
use tributary_wire::frame::ENCAPSULATION_BYTES;
use tributary_wire::message::message_len;
use tributary_wire::{Downlink, SliceWidth};

use crate::fabric::{Fabric, seconds};
use crate::request::JobRequest;
use crate::roles::Roles;
use crate::tree::Tree;

const BYTES_PER_VALUE: u64 = 4;
const PICOSECONDS: f64 = 1e12;

/// The traffic of one link direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkTraffic {
    /// The link direction in the topology.
    #[serde(skip)]
    pub direction: LinkDirection,
    /// The sending node.
    pub from: String,
    /// The port of the sending node.
    pub from_port: u16,
    /// The receiving node.
    pub to: String,
    /// The port of the receiving node.
    pub to_port: u16,
    /// True if the direction leads towards the server, so that it carries GRADIENT; otherwise it carries
    /// RESULT.
    /// If the server's host is a worker, both directions of its link carry both.
    pub towards_server: bool,
    /// The number of frames of the job.
    pub frames: u64,
    /// The number of bytes of the job, from the Ethernet header on, without preamble and FCS.
    pub bytes: u64,
    /// The rate of the link, bit/s.
    pub rate: u64,
    /// The load that the direction already carries, bit/s.
    pub load: u64,
    /// The time that the job's bytes take at the remaining rate, in seconds.
    pub seconds: f64,
}

/// The traffic of all links in one all-reduce.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traffic {
    /// Every link direction with traffic, in the topology's order.
    pub links: Vec<LinkTraffic>,
    /// The number of bytes that arrive at the server's host.
    pub into_server: u64,
    /// The number of bytes that the server's host sends.
    pub out_of_server: u64,
    /// The number of bytes on all links together.
    /// A packet that travels over three links counts three times.
    pub all_links: u64,
    /// The index in `links` of the direction that takes longest. On a tie, it is the first one.
    pub busiest: usize,
    /// The time that this direction takes, in seconds. No all-reduce on this tree can be faster.
    pub seconds: f64,
}

/// The frames of one all-reduce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    slices: u64,
    width: SliceWidth,
}

impl Frames {
    pub(crate) fn of(job: &JobRequest) -> Self {
        Self::of_gradient(job.gradient_bytes, job.width)
    }

    fn of_gradient(bytes: u64, width: SliceWidth) -> Self {
        let per_slice = width.values() as u64;
        let sum_slices = bytes.div_ceil(BYTES_PER_VALUE).div_ceil(per_slice);
        Self {
            slices: sum_slices.saturating_add(sum_slices.div_ceil(width.slices_bounded_by_one() as u64)),
            width,
        }
    }

    /// Returns the minimum number of bytes on each direction of a tree's link:
    /// one stream without hop stacks.
    pub(crate) fn least_bytes(self) -> u64 {
        self.bytes(Flow { streams: 1, hops: 0 })
    }

    /// Returns the number of bytes of the flow.
    fn bytes(self, flow: Flow) -> u64 {
        let bare = (ENCAPSULATION_BYTES + message_len(0, self.width.bytes())) as u64;
        let headers = flow.streams.saturating_mul(bare);
        self.slices.saturating_mul(headers.saturating_add(flow.hops.saturating_mul(HOP_BYTES as u64)))
    }
}

/// The use of a tree by a job, with the data that determines the traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) roles: &'a Roles,
    pub(crate) downlink: Downlink,
    pub(crate) frames: Frames,
}

/// The traffic of one link direction of a tree.
#[derive(Debug, Clone, Copy)]
struct Carried {
    direction: LinkDirection,
    frames: u64,
    bytes: u64,
}

/// The number of streams of frames, and the total number of their hop entries.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    streams: u64,
    hops: u64,
}

impl Use<'_> {
    /// Returns the traffic of every link direction that has some, in no particular order.
    fn carried(&self, fabric: &Fabric<'_>) -> Vec<Carried> {
        let tree = self.tree;
        let frames = self.frames;
        let mut all = Vec::with_capacity(2 * (tree.leaves().len() + tree.branches().len()));
        let mut add = |node, up: Neighbour, gradients: Flow, results: Flow| {
            for (sender, flow) in [(node, gradients), (up.node, results)] {
                let direction = fabric.topology.direction(up.link, sender);
                all.extend(direction.map(|direction| Carried {
                    direction,
                    frames: frames.slices.saturating_mul(flow.streams),
                    bytes: frames.bytes(flow),
                }));
            }
        };
        let results = self.results(fabric);
        for leaf in tree.leaves() {
            let gradient = Flow { streams: 1, hops: self.roles.entries(leaf.above) as u64 };
            add(leaf.worker, leaf.up, gradient, self.copies(Flow { streams: 1, hops: 0 }));
        }
        for ((branch, merge), results) in tree.branches().iter().zip(&self.roles.merges).zip(results) {
            let streams = merge.going as u64;
            let gradients = Flow { streams, hops: streams * self.roles.entries(branch.above) as u64 };
            add(branch.switch, branch.up, gradients, self.copies(results));
        }
        if tree.is_worker(tree.server) {
            add_up_doubles(&mut all);
        }
        all
    }

    /// Returns the unicast results that arrive at every place of the tree from above.
    /// There is one copy for each worker, with an entry for each switch that it still has to pass.
    fn results(&self, fabric: &Fabric<'_>) -> Vec<Flow> {
        let tree = self.tree;
        let mut results = vec![Flow::default(); tree.branches().len() + 1];
        for leaf in tree.leaves() {
            results[leaf.above].streams += 1;
        }
        for (place, branch) in tree.branches().iter().enumerate() {
            results[place].hops += results[place].streams * u64::from(fabric.is_programmable(branch.switch));
            let Flow { streams, hops } = results[place];
            results[branch.above].streams += streams;
            results[branch.above].hops += hops;
        }
        results
    }

    /// Returns the results that travel on a link: with multicast, one copy without a stack.
    fn copies(&self, unicast: Flow) -> Flow {
        match self.downlink {
            Downlink::Multicast => Flow { streams: 1, hops: 0 },
            Downlink::Unicast => unicast,
        }
    }

    /// Returns the link direction that takes longest. On a tie, it is the first in the topology's order.
    pub(crate) fn busiest(&self, fabric: &Fabric<'_>) -> Option<LinkDirection> {
        let carried = self.carried(fabric).into_iter();
        let times = carried.map(|one| (one.direction, fabric.seconds(one.direction, one.bytes)));
        let first =
            |a: &(LinkDirection, f64), b: &(LinkDirection, f64)| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0));
        times.max_by(first).map(|(direction, _)| direction)
    }

    /// Returns the cost of the tree.
    pub(crate) fn cost(&self, fabric: &Fabric<'_>) -> Cost {
        let times = self.carried(fabric).into_iter().map(|one| fabric.seconds(one.direction, one.bytes));
        let add = |cost: Cost, seconds: f64| Cost {
            busiest: cost.busiest.max(seconds),
            in_all: cost.in_all.saturating_add((seconds * PICOSECONDS) as u128),
        };
        times.fold(Cost::default(), add)
    }
}

/// Merges duplicates. If the server's host is a worker, its link is in the tree twice.
fn add_up_doubles(all: &mut Vec<Carried>) {
    all.sort_unstable_by_key(|one| one.direction);
    all.dedup_by(|double, first| {
        let same = double.direction == first.direction;
        if same {
            first.frames = first.frames.saturating_add(double.frames);
            first.bytes = first.bytes.saturating_add(double.bytes);
        }
        same
    });
}

/// The time for which a tree keeps links busy.
/// Trees are compared by their busiest link first, then by the total time of all links.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Cost {
    /// The time of the busiest link, in seconds.
    pub(crate) busiest: f64,
    /// The total time of all links, in picoseconds.
    /// Sums of integers do not depend on their order, so equal trees compare as equal.
    in_all: u128,
}

impl Cost {
    pub(crate) fn is_less_than(&self, other: &Self) -> bool {
        let by_busiest = self.busiest.total_cmp(&other.busiest);
        by_busiest.then(self.in_all.cmp(&other.in_all)).is_lt()
    }
}

impl Traffic {
    /// Computes the traffic of a job on the links of a tree.
    pub(crate) fn on(used: &Use<'_>, fabric: &Fabric<'_>) -> Self {
        let mut carried = used.carried(fabric);
        carried.sort_unstable_by_key(|one| one.direction);
        let links = carried.into_iter().map(|one| link_traffic(one, used.tree, fabric)).collect();
        Self::summed(links, &fabric.name(used.tree.server))
    }

    fn summed(links: Vec<LinkTraffic>, server: &str) -> Self {
        let total = |counts: &dyn Fn(&LinkTraffic) -> bool| {
            links.iter().filter(|link| counts(link)).fold(0, |sum: u64, link| sum.saturating_add(link.bytes))
        };
        let mut busiest = 0;
        for (n, link) in links.iter().enumerate() {
            if link.seconds > links[busiest].seconds {
                busiest = n;
            }
        }
        Self {
            into_server: total(&|link| link.to == server),
            out_of_server: total(&|link| link.from == server),
            all_links: total(&|_| true),
            seconds: links.get(busiest).map_or(0.0, |link| link.seconds),
            busiest,
            links,
        }
    }

    /// Returns the time for which one slice of the gradient keeps the slowest link busy, without the load
    /// of other jobs.
    pub(crate) fn slice_time(&self, gradient_bytes: u64, width: SliceWidth) -> Duration {
        let seconds = self.links.iter().map(|one| seconds(one.bytes, one.rate, 0)).fold(0.0, f64::max);
        let slices = Frames::of_gradient(gradient_bytes, width).slices;
        Duration::try_from_secs_f64(seconds / slices.max(1) as f64).unwrap_or_default()
    }

    /// Returns the traffic of the link direction that takes longest.
    pub fn busiest_link(&self) -> Option<&LinkTraffic> {
        self.links.get(self.busiest)
    }
}

fn link_traffic(carried: Carried, tree: &Tree, fabric: &Fabric<'_>) -> LinkTraffic {
    let Carried { direction, frames, bytes } = carried;
    let link = &fabric.topology[direction.link];
    let [from, to] = [link.ends[direction.sender], link.ends[1 - direction.sender]];
    LinkTraffic {
        direction,
        from: fabric.name(from.node),
        from_port: from.port,
        to: fabric.name(to.node),
        to_port: to.port,
        towards_server: from.node != tree.server
            && tree.step(from.node).is_some_and(|up| up.link == direction.link),
        frames,
        bytes,
        rate: link.rate,
        load: fabric.load(direction),
        seconds: fabric.seconds(direction, bytes),
    }
}
