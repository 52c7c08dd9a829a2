//! Builds links with their ends, ports, rates and loads.

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;

use crate::assign::Unique;
use crate::build::{Builder, line_at};
use crate::error::{At, Problem};
use crate::file::{Defaults, LinkEntry, Load, Pair, Whole};
use crate::graph::{End, Link, NodeKey};
use crate::limits::{DEFAULT_MTU, MAX_PORT, MTUS};
use crate::rate::parse_rate;

/// One end of a link, as the file gives it.
struct EndEntry {
    node: NodeKey,
    port: Option<u16>,
    span: Range<usize>,
}

impl Builder<'_> {
    /// Adds all links. Ports that the file gives are reserved first, so that no derived port equals one of
    /// them.
    pub(crate) fn add_links(&mut self, entries: &[LinkEntry], defaults: &Defaults) -> Result<(), At> {
        let default_rate = defaults.rate.as_ref().map(positive_rate).transpose()?;
        let default_mtu = defaults.mtu.as_ref().map(mtu).transpose()?.unwrap_or(DEFAULT_MTU);
        let mut ports = Ports::default();
        let mut all_ends = Vec::new();
        for entry in entries {
            let Pair([a, b]) = entry.ends.get_ref();
            let ends = [self.end(a)?, self.end(b)?];
            self.check_ends(entry, &ends)?;
            for end in &ends {
                ports.take_given(self, end)?;
            }
            all_ends.push(ends);
        }
        for (entry, [a, b]) in entries.iter().zip(&all_ends) {
            let ends = [ports.end(self, a)?, ports.end(self, b)?];
            let own_rate = entry.rate.as_ref().map(positive_rate).transpose()?;
            let rate = own_rate.or(default_rate).ok_or((entry.ends.span(), Problem::NoRate))?;
            let load = load(entry, rate)?;
            let mtu = entry.mtu.as_ref().map(mtu).transpose()?.unwrap_or(default_mtu);
            self.graph.add_edge(ends[0].node, ends[1].node, Link { ends, rate, mtu, load });
        }
        Ok(())
    }

    /// Parses an end of a link, which is `name` or `name:port`.
    fn end(&self, text: &Spanned<String>) -> Result<EndEntry, At> {
        let end = text.get_ref();
        let (name, port) = match end.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (end.as_str(), None),
        };
        let Some(&node) = self.by_name.get(name) else {
            return Err((text.span(), Problem::DanglingLink(name.to_owned())));
        };
        if port.is_some() && self.graph[node].host().is_some() {
            return Err((text.span(), Problem::PortOfHost(name.to_owned())));
        }
        let number = |port: &str| port.parse().ok().filter(|port| (1..=MAX_PORT).contains(port));
        let bad = || (text.span(), Problem::BadPort { end: end.clone() });
        let port = port.map(|port| number(port).ok_or_else(bad)).transpose()?;
        Ok(EndEntry { node, port, span: text.span() })
    }

    fn check_ends(&self, entry: &LinkEntry, [a, b]: &[EndEntry; 2]) -> Result<(), At> {
        let [first, second] = [&self.graph[a.node], &self.graph[b.node]];
        if a.node == b.node {
            return Err((entry.ends.span(), Problem::SelfLink(first.name.clone())));
        }
        if first.host().is_some() && second.host().is_some() {
            let problem = Problem::HostToHost(first.name.clone(), second.name.clone());
            return Err((entry.ends.span(), problem));
        }
        Ok(())
    }
}

/// The ports that links use.
#[derive(Default)]
struct Ports {
    of_switches: HashMap<NodeKey, Unique<u16>>,
    /// The hosts that have a link, each with the position of the link's end in the text.
    hosts: HashMap<NodeKey, Range<usize>>,
}

impl Ports {
    fn of_switch(&mut self, switch: NodeKey) -> &mut Unique<u16> {
        self.of_switches.entry(switch).or_insert_with(|| Unique::from(1))
    }

    /// Reserves the port that the file gives for the end. For a host, it reserves the host's only port.
    fn take_given(&mut self, builder: &Builder<'_>, end: &EndEntry) -> Result<(), At> {
        let node = &builder.graph[end.node];
        if node.host().is_some() {
            return match self.hosts.insert(end.node, end.span.clone()) {
                None => Ok(()),
                Some(first) => {
                    let first = line_at(builder.text, first.start);
                    Err((end.span.clone(), Problem::SecondLink { host: node.name.clone(), first }))
                }
            };
        }
        let Some(port) = end.port else { return Ok(()) };
        let taken = self.of_switch(end.node).take(port, "");
        let duplicate = |_| (end.span.clone(), Problem::DuplicatePort { switch: node.name.clone(), port });
        taken.map(|_| ()).map_err(duplicate)
    }

    /// Returns the end with its port: the given port, a host's only port, or the first free port.
    fn end(&mut self, builder: &Builder<'_>, end: &EndEntry) -> Result<End, At> {
        let node = &builder.graph[end.node];
        let port = match end.port {
            Some(port) => port,
            None if node.host().is_some() => 1,
            None => self
                .of_switch(end.node)
                .next("", |n| u16::try_from(n).ok().filter(|port| *port <= MAX_PORT))
                .ok_or_else(|| (end.span.clone(), Problem::TooManyPorts { switch: node.name.clone() }))?,
        };
        Ok(End { node: end.node, port })
    }
}

fn positive_rate(text: &Spanned<String>) -> Result<u64, At> {
    let rate = parse_rate(text.get_ref()).filter(|rate| *rate > 0);
    rate.ok_or_else(|| (text.span(), Problem::BadRate(text.get_ref().clone())))
}

fn mtu(given: &Spanned<Whole>) -> Result<u16, At> {
    let Whole::Number(number) = *given.get_ref();
    let mtu = u16::try_from(number).ok().filter(|mtu| MTUS.contains(mtu));
    mtu.ok_or_else(|| (given.span(), Problem::BadMtu(number)))
}

fn load(entry: &LinkEntry, rate_of_link: u64) -> Result<[u64; 2], At> {
    let Some(given) = &entry.load else { return Ok([0, 0]) };
    let [there, back] = match given.get_ref() {
        Load::Both(both) => [both, both],
        Load::Each(Pair([there, back])) => [there, back],
    };
    let rate = |text: &str| parse_rate(text).ok_or_else(|| (given.span(), Problem::BadLoad(text.to_owned())));
    let load = [rate(there)?, rate(back)?];
    match load.into_iter().find(|load| *load > rate_of_link) {
        Some(load) => Err((given.span(), Problem::LoadAboveRate { load, rate: rate_of_link })),
        None => Ok(load),
    }
}
