//! Builds the validated graph from the parsed file.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use petgraph::graph::UnGraph;
use petgraph::visit::Bfs;
use toml::Spanned;
use tributary_wire::NodeId;

use crate::addresses::Addresses;
use crate::assign::Unique;
use crate::error::{At, Problem, TopologyError};
use crate::file::{File, HostEntry, SwitchEntry, Whole};
use crate::graph::{Host, Link, Node, NodeKey, NodeKind, Role, Switch, Topology};

/// The maximum length of a name. Names appear in the names of network interfaces and in drawings.
const MAX_NAME: usize = 32;
/// The first node id of hosts. It is high, so that a new switch does not change the ids of hosts.
const FIRST_HOST_ID: u32 = 1001;

impl Topology {
    /// Reads a topology file.
    ///
    /// # Errors
    /// [`TopologyError`]: the file cannot be read, or one of its entries is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TopologyError> {
        let file = path.as_ref().display().to_string();
        match tributary_files::read_text(path.as_ref()) {
            Ok(text) => Self::parse(&text, &file),
            Err(reason) => Err(TopologyError::Unreadable { file, reason }),
        }
    }

    /// Parses a topology from `text`. Errors contain `file` as the name of the file.
    ///
    /// # Errors
    /// [`TopologyError::Invalid`]: an entry is wrong.
    pub fn parse(text: &str, file: &str) -> Result<Self, TopologyError> {
        topology(text).map_err(|(line, problem)| TopologyError::Invalid {
            file: file.to_owned(),
            line,
            problem,
        })
    }
}

/// Parses and validates `text`. An error contains the line of the wrong entry.
fn topology(text: &str) -> Result<Topology, (usize, Problem)> {
    let line_of = |span: Range<usize>| line_at(text, span.start);
    let file: File = toml::from_str(text).map_err(|error| {
        let problem = Problem::Syntax(error.message().trim().replace('\n', ", "));
        (line_of(error.span().unwrap_or_default()), problem)
    })?;
    let mut builder = Builder::new(text);
    builder.build(&file).map_err(|(span, problem)| (line_of(span), problem))?;
    Ok(Topology {
        name: file.name.into_inner(),
        description: file.description.map(Spanned::into_inner).unwrap_or_default(),
        graph: builder.graph,
        by_name: builder.by_name,
    })
}

/// Returns the number of the line that contains the byte at `offset`, counted from 1.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&b| b == b'\n').count()
}

fn node_id(given: &Spanned<Whole>) -> Result<NodeId, At> {
    let Whole::Number(number) = *given.get_ref();
    let id = u16::try_from(number).ok().and_then(NodeId::new);
    id.ok_or_else(|| (given.span(), Problem::BadId(number)))
}

fn slots(given: &Spanned<Whole>) -> Result<u32, At> {
    let Whole::Number(number) = *given.get_ref();
    u32::try_from(number).map_err(|_| (given.span(), Problem::BadSlots(number)))
}

pub(crate) struct Builder<'a> {
    pub(crate) text: &'a str,
    pub(crate) graph: UnGraph<Node, Link>,
    pub(crate) by_name: HashMap<String, NodeKey>,
    /// The position of each node's name in the text, by key.
    name_spans: Vec<Range<usize>>,
    ids: Unique<u16>,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            graph: UnGraph::default(),
            by_name: HashMap::new(),
            name_spans: Vec::new(),
            ids: Unique::from(1),
        }
    }

    fn build(&mut self, file: &File) -> Result<(), At> {
        // The name and the description are shown in terminals, so they must not contain control characters.
        for text in [&file.name].into_iter().chain(&file.description) {
            if text.get_ref().chars().any(char::is_control) {
                return Err((text.span(), Problem::ControlCharacter(text.get_ref().clone())));
            }
        }
        self.take_given_ids(file)?;
        for switch in &file.switches {
            self.add_switch(switch)?;
        }
        self.ids.skip_to(FIRST_HOST_ID);
        let mut addresses = Addresses::given(&file.hosts)?;
        for host in &file.hosts {
            self.add_host(host, &mut addresses)?;
        }
        self.add_links(&file.links, &file.defaults)?;
        self.check_roles()
    }

    /// Reserves the ids that the file gives, so that no derived id equals one of them.
    fn take_given_ids(&mut self, file: &File) -> Result<(), At> {
        let switches = file.switches.iter().map(|switch| (&switch.name, &switch.id));
        let hosts = file.hosts.iter().map(|host| (&host.name, &host.id));
        for (name, id) in switches.chain(hosts) {
            let Some(id) = id else { continue };
            let number = node_id(id)?.get();
            self.ids
                .take(number, name.get_ref())
                .map_err(|holder| (id.span(), Problem::DuplicateId { id: number, holder }))?;
        }
        Ok(())
    }

    fn add_switch(&mut self, entry: &SwitchEntry) -> Result<(), At> {
        if let Some(address) = &entry.p4runtime {
            let text = address.get_ref();
            let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                return Err((address.span(), Problem::BadP4RuntimeAddress(text.clone())));
            }
        }
        let kind = NodeKind::Switch(Switch {
            programmable: entry.programmable,
            slots: entry.slots.as_ref().map(slots).transpose()?,
            p4runtime: entry.p4runtime.as_ref().map(|address| address.get_ref().clone()),
        });
        self.add_node(&entry.name, entry.id.as_ref(), kind)
    }

    fn add_host(&mut self, entry: &HostEntry, addresses: &mut Addresses) -> Result<(), At> {
        let (mac, ip) = addresses.assign(entry)?;
        let kind = NodeKind::Host(Host { mac, ip, role: entry.role });
        self.add_node(&entry.name, entry.id.as_ref(), kind)
    }

    fn add_node(
        &mut self,
        name: &Spanned<String>,
        id: Option<&Spanned<Whole>>,
        kind: NodeKind,
    ) -> Result<(), At> {
        let text = name.get_ref();
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if text.is_empty() || text.len() > MAX_NAME || !text.bytes().all(fits) {
            return Err((name.span(), Problem::BadName(text.clone())));
        }
        if let Some(first) = self.by_name.get(text) {
            let first = line_at(self.text, self.name_spans[first.index()].start);
            return Err((name.span(), Problem::DuplicateName { name: text.clone(), first }));
        }
        let id = match id {
            Some(id) => Some(node_id(id)?),
            None => self.ids.next(text, |n| u16::try_from(n).ok()).and_then(NodeId::new),
        };
        let id = id.ok_or_else(|| (name.span(), Problem::TooManyNodes("node id")))?;
        let key = self.graph.add_node(Node { name: text.clone(), id, kind });
        self.by_name.insert(text.clone(), key);
        self.name_spans.push(name.span());
        Ok(())
    }

    fn check_roles(&self) -> Result<(), At> {
        let with_role = |role| {
            let has = move |key: &NodeKey| self.graph[*key].host().is_some_and(|h| h.role == Some(role));
            self.graph.node_indices().filter(has).collect::<Vec<_>>()
        };
        let (workers, servers) = (with_role(Role::Worker), with_role(Role::Server));
        // The error has no entry of its own in the file, so it points to the hosts.
        let first_host = self.graph.node_indices().find(|&key| self.graph[key].host().is_some());
        let hosts = first_host.map_or(0..0, |key| self.name_spans[key.index()].clone());
        if workers.is_empty() {
            return Err((hosts, Problem::NoWorker));
        }
        if servers.is_empty() {
            return Err((hosts, Problem::NoServer));
        }
        servers.into_iter().try_for_each(|server| self.check_reach(server, &workers))
    }

    fn check_reach(&self, server: NodeKey, workers: &[NodeKey]) -> Result<(), At> {
        let mut reached = vec![false; self.graph.node_count()];
        let mut search = Bfs::new(&self.graph, server);
        while let Some(node) = search.next(&self.graph) {
            reached[node.index()] = true;
        }
        let Some(worker) = workers.iter().find(|worker| !reached[worker.index()]) else { return Ok(()) };
        let [worker_name, server] = [*worker, server].map(|key| self.graph[key].name.clone());
        let problem = Problem::UnreachableWorker { worker: worker_name, server };
        Err((self.name_spans[worker.index()].clone(), problem))
    }
}
