//! Fat trees, which are the networks of large clusters, as topology files.

use std::fmt::Write;

use thiserror::Error;

use crate::limits::MAX_PORT;

/// A fat tree of switches that all have the same number of ports k (Al-Fares, Loukissas and Vahdat,
/// 2008).
///
/// It has k pods, each with k / 2 edge switches and k / 2 aggregation switches. It has (k / 2)² core switches and k³ /
/// 4 hosts. For k = 48, these are 2,880 switches and 27,648 hosts. Aggregation switch j of each pod has links to the
/// j-th group of k / 2 core switches. Two pods are therefore connected by as many shortest paths as there are core
/// switches.
///
/// One host is the server. The workers are spread evenly over the other hosts. The remaining hosts have no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FatTree {
    /// k / 2: the number of a switch's ports in each direction.
    half: usize,
    workers: usize,
}

/// Reasons why a fat tree cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FatTreeError {
    /// The number of ports is odd, or out of range.
    #[error("switches of {0} ports make no fat tree: use an even number from 2 to {MOST_PORTS}")]
    Ports(usize),
    /// The fat tree has too few hosts for the workers and the server, or no worker was requested.
    #[error(
        "{workers} workers beside the server: a fat tree of {ports} ports has {hosts} hosts, and a job needs a worker"
    )]
    Workers {
        /// The number of workers that were requested.
        workers: usize,
        /// The number of ports of a switch.
        ports: usize,
        /// The number of hosts of the fat tree.
        hosts: usize,
    },
}

/// The maximum number of ports. With more ports, there would be more nodes than node ids and addresses.
const MOST_PORTS: usize = 62;
const _: () = assert!(MOST_PORTS <= MAX_PORT as usize);

impl FatTree {
    /// Creates a fat tree of switches with `ports` ports, on which a job has `workers` workers.
    ///
    /// # Errors
    /// [`FatTreeError`]: no fat tree has this number of ports, or it has too few hosts.
    pub fn new(ports: usize, workers: usize) -> Result<Self, FatTreeError> {
        if !(2..=MOST_PORTS).contains(&ports) || !ports.is_multiple_of(2) {
            return Err(FatTreeError::Ports(ports));
        }
        let tree = Self { half: ports / 2, workers };
        match tree.hosts() {
            hosts if (1..hosts).contains(&workers) => Ok(tree),
            hosts => Err(FatTreeError::Workers { workers, ports, hosts }),
        }
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        5 * self.half * self.half
    }

    /// Returns the number of hosts, including the server.
    pub fn hosts(&self) -> usize {
        2 * self.half.pow(3)
    }

    /// Returns the number of hosts with the role of a worker.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the topology file. All links have the given rate, such as `"100 Gbit/s"`.
    pub fn to_toml(&self, rate: &str) -> String {
        self.to_toml_with(rate, rate)
    }

    /// Returns the topology file with a different rate for links between switches.
    /// In large networks, these links are often slower than the hosts below a switch in total.
    pub fn to_toml_with(&self, rate: &str, between_switches: &str) -> String {
        let Self { half, workers } = *self;
        let (ports, pods) = (2 * half, 2 * half);
        let mut text = format!(
            "name = \"fat-tree-{ports}\"\n\
             description = \"{workers} workers on a fat tree of {ports}-port switches: {pods} pods, {} switches, {} hosts\"\n\
             defaults = {{ rate = \"{rate}\" }}\n\n",
            self.switches(),
            self.hosts(),
        );
        self.write_nodes(&mut text);
        self.write_links(&mut text, (between_switches != rate).then_some(between_switches));
        text
    }

    fn write_nodes(&self, text: &mut String) {
        let mut switches: Vec<String> = (0..self.half * self.half).map(core).collect();
        switches.extend(self.in_pods(aggregation).chain(self.in_pods(edge)));
        text.push_str("switch = [\n");
        put(text, switches.iter().map(|name| format!("{{ name = \"{name}\" }}")));
        text.push_str("]\nhost = [\n");
        put(
            text,
            (0..self.hosts()).map(|n| match self.role(n) {
                JobRole::Server => "{ name = \"ps\", role = \"server\" }".to_owned(),
                JobRole::Worker(rank) => format!("{{ name = \"w{rank}\", role = \"worker\" }}"),
                JobRole::Idle => format!("{{ name = \"h{n}\" }}"),
            }),
        );
        text.push_str("]\n");
    }

    fn write_links(&self, text: &mut String, between_switches: Option<&str>) {
        let half = self.half;
        let slow = between_switches.map_or_else(String::new, |rate| format!(", rate = \"{rate}\""));
        let mut links = Vec::new();
        for pod in 0..2 * half {
            for (a, b) in (0..half).flat_map(|a| (0..half).map(move |b| (a, b))) {
                links.push((core(a * half + b), aggregation(pod, a), slow.as_str()));
                links.push((aggregation(pod, a), edge(pod, b), &slow));
                let host = (pod * half + a) * half + b;
                links.push((edge(pod, a), self.host(host), ""));
            }
        }
        text.push_str("link = [\n");
        put(text, links.into_iter().map(|(a, b, rate)| format!("{{ ends = [\"{a}\", \"{b}\"]{rate} }}")));
        text.push_str("]\n");
    }

    fn in_pods(&self, name: fn(usize, usize) -> String) -> impl Iterator<Item = String> {
        let half = self.half;
        (0..2 * half).flat_map(move |pod| (0..half).map(move |n| name(pod, n)))
    }

    /// Returns the role of the n-th host.
    fn role(&self, n: usize) -> JobRole {
        let Some(n) = n.checked_sub(1) else { return JobRole::Server };
        let others = self.hosts() - 1;
        // Rank r is on host number r × others / workers, rounded down. Therefore, only the rank computed here can be on
        // host n.
        let rank = (n * self.workers).div_ceil(others);
        match rank < self.workers && rank * others / self.workers == n {
            true => JobRole::Worker(rank),
            false => JobRole::Idle,
        }
    }

    fn host(&self, n: usize) -> String {
        match self.role(n) {
            JobRole::Server => "ps".to_owned(),
            JobRole::Worker(rank) => format!("w{rank}"),
            JobRole::Idle => format!("h{n}"),
        }
    }
}

/// A host's role in the job.
enum JobRole {
    Server,
    Worker(usize),
    Idle,
}

fn core(n: usize) -> String {
    format!("core{n}")
}

fn aggregation(pod: usize, n: usize) -> String {
    format!("agg{pod}-{n}")
}

fn edge(pod: usize, n: usize) -> String {
    format!("edge{pod}-{n}")
}

/// Writes the entries of a TOML array, one in each line.
fn put(text: &mut String, entries: impl Iterator<Item = String>) {
    for entry in entries {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {entry},");
    }
}
