//! The bytes that one all-reduce puts on every link direction, headers and all.
//!
//! A gradient of B bytes is B / 4 values, in slices of V. Floating-point gradients agree on one exponent a
//! slice first, in MAX slices of V exponents each; the last slice of either kind is padded. A GRADIENT
//! frame sheds one hop entry at every programmable switch. Nothing is counted for losses and probes.

use std::collections::BTreeMap;

use serde::Serialize;
use tributary_topology::{LinkDirection, NodeKey};
use tributary_wire::constants::VALUES_PER_SLICE;
use tributary_wire::frame::ENCAPSULATION_BYTES;
use tributary_wire::message::message_len;

use crate::fabric::Fabric;
use crate::request::Downlink;
use crate::tree::Tree;

const BYTES_PER_VALUE: u64 = 4;

/// What one link direction carries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkTraffic {
    /// The link direction in the topology.
    #[serde(skip)]
    pub direction: LinkDirection,
    /// The node that sends.
    pub from: String,
    /// Its port.
    pub from_port: u16,
    /// The node that receives.
    pub to: String,
    /// Its port.
    pub to_port: u16,
    /// Whether it leads towards the server, and so carries GRADIENT; RESULT else. Where the server's host is
    /// a worker, too, both directions of its link carry both.
    pub towards_server: bool,
    /// Frames of the job.
    pub frames: u64,
    /// Bytes of the job, from the Ethernet header on, without preamble and FCS.
    pub bytes: u64,
    /// The link's rate, bit/s.
    pub rate: u64,
    /// What it carries already, bit/s.
    pub load: u64,
    /// How long the job's bytes take on what is left of the rate, in seconds.
    pub seconds: f64,
}

/// What all links carry in one all-reduce.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traffic {
    /// Every link direction that carries something, in the topology's order.
    pub links: Vec<LinkTraffic>,
    /// Bytes that arrive at the server's host.
    pub into_server: u64,
    /// Bytes that the server's host sends.
    pub out_of_server: u64,
    /// Bytes on all links together: what travels over three links counts three times.
    pub all_links: u64,
    /// The index in `links` of the direction that takes longest; the first of several.
    pub busiest: usize,
    /// How long that takes, in seconds: no all-reduce on this tree can be faster.
    pub seconds: f64,
}

/// The frames of one all-reduce.
#[derive(Debug, Clone, Copy)]
struct Frames {
    slices: u64,
}

impl Frames {
    fn of(gradient_bytes: u64) -> Self {
        let per_slice = VALUES_PER_SLICE as u64;
        let sum_slices = gradient_bytes.div_ceil(BYTES_PER_VALUE).div_ceil(per_slice);
        Self { slices: sum_slices.saturating_add(sum_slices.div_ceil(per_slice)) }
    }

    /// Bytes of one stream of them, each with `hops` entries.
    fn bytes(self, hops: usize) -> u64 {
        self.slices.saturating_mul((ENCAPSULATION_BYTES + message_len(hops, true)) as u64)
    }
}

/// Bytes and frames by link direction, as they are counted.
struct Count {
    frames: Frames,
    carried: BTreeMap<LinkDirection, (u64, u64)>,
}

impl Count {
    fn add(&mut self, direction: Option<LinkDirection>, streams: usize, hops: usize) {
        let Some(direction) = direction else { return };
        let (frames, bytes) = self.carried.entry(direction).or_default();
        *frames = frames.saturating_add(self.frames.slices.saturating_mul(streams as u64));
        *bytes = bytes.saturating_add(self.frames.bytes(hops).saturating_mul(streams as u64));
    }

    /// The way up: every stream on every link of the tree.
    fn add_gradients(&mut self, tree: &Tree, aggregates: impl Fn(NodeKey) -> bool, fabric: &Fabric<'_>) {
        // How many entries are on the stack of what arrives at a node; the server's own is the last.
        let mut entries = BTreeMap::from([(tree.server, 1)]);
        for &switch in tree.bottom_up().iter().rev() {
            let above = tree.parent(switch).and_then(|up| entries.get(&up.node)).copied().unwrap_or(1);
            entries.insert(switch, above + usize::from(fabric.is_programmable(switch)));
        }
        let mut streams: BTreeMap<NodeKey, usize> = BTreeMap::new();
        for (worker, up) in tree.leaves() {
            *streams.entry(up.node).or_default() += 1;
            let hops = entries.get(&up.node).copied().unwrap_or(1);
            self.add(fabric.topology.direction(up.link, worker), 1, hops);
        }
        for &switch in tree.bottom_up() {
            let Some(up) = tree.parent(switch) else { continue };
            let arriving = streams.get(&switch).copied().unwrap_or_default();
            let going = if aggregates(switch) { 1 } else { arriving };
            *streams.entry(up.node).or_default() += going;
            let hops = entries.get(&up.node).copied().unwrap_or(1);
            self.add(fabric.topology.direction(up.link, switch), going, hops);
        }
    }

    /// The way down, one copy a link.
    fn add_multicast(&mut self, tree: &Tree, fabric: &Fabric<'_>) {
        for (_, up) in tree.steps() {
            self.add(fabric.topology.direction(up.link, up.node), 1, 0);
        }
    }

    /// The way down, one copy a worker.
    fn add_unicast(&mut self, tree: &Tree, fabric: &Fabric<'_>) {
        for (worker, _) in tree.leaves() {
            let mut hops = 0;
            for (node, up) in tree.way(worker) {
                hops += usize::from(fabric.is_programmable(node));
                self.add(fabric.topology.direction(up.link, up.node), 1, hops);
            }
        }
    }
}

impl Traffic {
    /// Counts what a job with gradients of that size puts on the links of a tree.
    pub(crate) fn on(
        tree: &Tree,
        aggregates: impl Fn(NodeKey) -> bool,
        fabric: &Fabric<'_>,
        gradient_bytes: u64,
        downlink: Downlink,
    ) -> Self {
        let mut count = Count { frames: Frames::of(gradient_bytes), carried: BTreeMap::new() };
        count.add_gradients(tree, aggregates, fabric);
        match downlink {
            Downlink::Multicast => count.add_multicast(tree, fabric),
            Downlink::Unicast => count.add_unicast(tree, fabric),
        }
        let links: Vec<_> = count
            .carried
            .into_iter()
            .map(|(direction, (frames, bytes))| link_traffic(direction, frames, bytes, tree, fabric))
            .collect();
        Self::summed(links, &fabric.name(tree.server))
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

    /// The link direction that takes longest.
    pub fn busiest_link(&self) -> Option<&LinkTraffic> {
        self.links.get(self.busiest)
    }
}

fn link_traffic(
    direction: LinkDirection,
    frames: u64,
    bytes: u64,
    tree: &Tree,
    fabric: &Fabric<'_>,
) -> LinkTraffic {
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
