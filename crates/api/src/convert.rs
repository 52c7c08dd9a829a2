//! Conversions between the generated messages and the validated types.

use std::net::Ipv4Addr;
use std::time::Duration;

use tributary_wire::constants::{MAX_CHILDREN, MAX_HOPS};
use tributary_wire::{
    Downlink, Hop, JobId, JobSecret, MacAddr, NodeId, Operator, Rank, Seq, SliceWidth, Tag, Totals,
    ValuesView, values,
};

use crate::config::{DownPath, Endpoint, FinishedSlice, JobConfig, ProcessCounts, Role, TakeOver};
use crate::error::ConfigError;
use crate::v1;

impl TryFrom<v1::JobConfig> for JobConfig {
    type Error = ConfigError;

    fn try_from(message: v1::JobConfig) -> Result<Self, ConfigError> {
        let width = SliceWidth::from_values(message.values_per_slice as usize).ok_or_else(|| {
            let expected = "must be 32, or that times a power of two, up to 2048";
            out_of_range("values_per_slice", message.values_per_slice, expected)
        })?;
        if !message.window.is_power_of_two() {
            return Err(out_of_range("window", message.window, "must be a power of two"));
        }
        let stripes = message.start_seqs.len() as u32;
        if !stripes.is_power_of_two() || stripes > message.window {
            return Err(out_of_range("start_seqs", stripes, "must be a power of two, the window at most"));
        }
        let ranks = ranks(&message.ranks, "ranks")?;
        let joined = joined(&message.joined, &ranks)?;
        let adopted = adopted(&message.adopted, &ranks)?;
        let secret = secret(&message.secret, "secret")?;
        let mut role = role(message.role, (message.take_over, secret), &ranks, (width, message.window))?;
        let (Role::Worker { confidential, .. } | Role::Server { confidential, .. }) = &mut role;
        *confidential = message.confidential;
        if message.generation == 0 {
            return Err(ConfigError::Missing { field: "generation" });
        }
        Ok(Self {
            name: message.job,
            job: job_id(message.job_id)?,
            width,
            window: message.window,
            generation: message.generation,
            start_seqs: message.start_seqs.into_iter().map(Seq).collect(),
            begun: message.begun,
            downlink: v1::Downlink::try_from(message.downlink)
                .ok()
                .and_then(|downlink| Downlink::try_from(downlink).ok())
                .ok_or_else(|| out_of_range("downlink", message.downlink.cast_unsigned(), "unknown"))?,
            slice_time: Duration::from_nanos(message.slice_nanoseconds),
            switches: message.switches,
            ranks,
            joined,
            regroup: message.regroup,
            adopted,
            processes: ProcessCounts::new(message.processes)?,
            reason: message.reason,
            own: host(message.own.as_ref(), "own")?,
            server: host(message.server.as_ref(), "server")?,
            multicast: group(message.multicast.as_ref(), "multicast")?,
            role,
        })
    }
}

impl From<&JobConfig> for v1::JobConfig {
    fn from(config: &JobConfig) -> Self {
        let (Role::Worker { confidential, .. } | Role::Server { confidential, .. }) = config.role;
        let (role, take_over, secret) = match &config.role {
            Role::Worker { rank, up, secret, .. } => {
                let up = up.iter().map(v1::Hop::from).collect();
                let role = v1::WorkerRole { rank: rank.get().into(), up };
                (v1::job_config::Role::Worker(role), None, Some(secret))
            }
            Role::Server { node, fan_in, down, take_over, vouching_key, secret, .. } => {
                let role = v1::ServerRole {
                    node: node.get().into(),
                    fan_in: (*fan_in).into(),
                    down: down.iter().map(v1::DownPath::from).collect(),
                    vouching_key: vouching_key.bytes().to_vec(),
                };
                let take_over = take_over.as_ref().map(v1::TakeOver::from);
                (v1::job_config::Role::ServerRole(role), take_over, secret.as_ref())
            }
        };
        let numbers = |ranks: &[Rank]| ranks.iter().map(|rank| rank.get().into()).collect();
        Self {
            job: config.name.clone(),
            job_id: config.job.get().into(),
            window: config.window,
            values_per_slice: config.width.values() as u32,
            start_seqs: config.start_seqs.iter().map(|seq| seq.0).collect(),
            downlink: v1::Downlink::from(config.downlink).into(),
            slice_nanoseconds: u64::try_from(config.slice_time.as_nanos()).unwrap_or(u64::MAX),
            switches: config.switches,
            ranks: numbers(&config.ranks),
            own: Some(config.own.into()),
            server: Some(config.server.into()),
            multicast: Some(config.multicast.into()),
            role: Some(role),
            generation: config.generation,
            begun: config.begun,
            joined: numbers(&config.joined),
            take_over,
            regroup: config.regroup,
            adopted: numbers(&config.adopted),
            processes: config.processes.counts().collect(),
            reason: config.reason.clone(),
            confidential,
            secret: secret.map(|secret| secret.bytes().to_vec()).unwrap_or_default(),
        }
    }
}

impl From<Downlink> for v1::Downlink {
    fn from(downlink: Downlink) -> Self {
        match downlink {
            Downlink::Multicast => Self::Multicast,
            Downlink::Unicast => Self::Unicast,
        }
    }
}

impl TryFrom<v1::Downlink> for Downlink {
    type Error = ConfigError;

    fn try_from(downlink: v1::Downlink) -> Result<Self, ConfigError> {
        match downlink {
            v1::Downlink::Unspecified => Err(ConfigError::Missing { field: "downlink" }),
            v1::Downlink::Multicast => Ok(Self::Multicast),
            v1::Downlink::Unicast => Ok(Self::Unicast),
        }
    }
}

impl From<Endpoint> for v1::Endpoint {
    fn from(endpoint: Endpoint) -> Self {
        Self { mac: endpoint.mac.octets().to_vec(), ipv4: endpoint.ip.octets().to_vec() }
    }
}

impl TryFrom<&v1::Endpoint> for Endpoint {
    type Error = ConfigError;

    fn try_from(message: &v1::Endpoint) -> Result<Self, ConfigError> {
        let wrong =
            |field, bytes: &[u8], expected| ConfigError::AddressLength { field, got: bytes.len(), expected };
        let mac: [u8; 6] = message.mac.as_slice().try_into().map_err(|_| wrong("mac", &message.mac, 6))?;
        let ip: [u8; 4] = message.ipv4.as_slice().try_into().map_err(|_| wrong("ipv4", &message.ipv4, 4))?;
        Ok(Self { mac: MacAddr::from(mac), ip: Ipv4Addr::from(ip) })
    }
}

impl From<&Hop> for v1::Hop {
    fn from(hop: &Hop) -> Self {
        Self {
            node: hop.node.get().into(),
            egress_port: hop.egress_port.into(),
            aggregate: hop.aggregate,
            child: hop.child.into(),
            fan_in: hop.fan_in.into(),
        }
    }
}

impl TryFrom<&v1::Hop> for Hop {
    type Error = ConfigError;

    fn try_from(message: &v1::Hop) -> Result<Self, ConfigError> {
        let child = u8::try_from(message.child)
            .ok()
            .filter(|child| usize::from(*child) < MAX_CHILDREN)
            .ok_or_else(|| out_of_range("child", message.child, "a node tells 64 children apart"))?;
        Ok(Self {
            node: node_id(message.node)?,
            egress_port: u16::try_from(message.egress_port)
                .map_err(|_| out_of_range("egress_port", message.egress_port, "at most 65535"))?,
            aggregate: message.aggregate,
            child,
            fan_in: u8::try_from(message.fan_in)
                .map_err(|_| out_of_range("fan_in", message.fan_in, "at most 255"))?,
        })
    }
}

impl From<&DownPath> for v1::DownPath {
    fn from(path: &DownPath) -> Self {
        Self {
            rank: path.rank.get().into(),
            worker: Some(path.worker.into()),
            hops: path.hops.iter().map(v1::Hop::from).collect(),
        }
    }
}

impl From<&TakeOver> for v1::TakeOver {
    fn from(take_over: &TakeOver) -> Self {
        Self {
            dues: take_over.dues.iter().map(|due| due.0).collect(),
            finished: take_over.finished.iter().map(v1::FinishedSlice::from).collect(),
        }
    }
}

impl From<&FinishedSlice> for v1::FinishedSlice {
    fn from(slice: &FinishedSlice) -> Self {
        Self {
            seq: slice.seq.0,
            job_id: slice.job.get().into(),
            max: slice.operator == Operator::Max,
            relay: slice.operator == Operator::Relay,
            contributors: slice.totals.contributors,
            weight: slice.totals.weight,
            tag_high: slice.totals.tag.high,
            tag_low: slice.totals.tag.low,
            values: values::to_bytes(&slice.values),
        }
    }
}

impl TryFrom<&v1::FinishedSlice> for FinishedSlice {
    type Error = ConfigError;

    fn try_from(message: &v1::FinishedSlice) -> Result<Self, ConfigError> {
        let totals = Totals {
            contributors: message.contributors,
            weight: message.weight,
            tag: Tag { high: message.tag_high, low: message.tag_low },
        };
        // An acknowledgement has no values, and names the owner of the slice.
        let is_acknowledged = message.values.is_empty() && totals.owner().is_some();
        if !is_acknowledged && !SliceWidth::all().any(|width| width.bytes() == message.values.len()) {
            let problem = format!("{} bytes, which no slice has", message.values.len());
            return Err(ConfigError::Inconsistent { field: "values", problem });
        }
        Ok(Self {
            seq: Seq(message.seq),
            job: job_id(message.job_id)?,
            operator: match (message.max, message.relay) {
                (false, false) => Operator::Sum,
                (true, _) => Operator::Max,
                (false, true) => Operator::Relay,
            },
            totals,
            values: ValuesView::new(&message.values).iter().collect(),
        })
    }
}

impl TryFrom<&v1::DownPath> for DownPath {
    type Error = ConfigError;

    fn try_from(message: &v1::DownPath) -> Result<Self, ConfigError> {
        Ok(Self {
            rank: rank(message.rank)?,
            worker: host(message.worker.as_ref(), "down.worker")?,
            hops: hops(&message.hops, "down.hops")?,
        })
    }
}

fn role(
    message: Option<v1::job_config::Role>,
    (take_over, secret): (Option<v1::TakeOver>, Option<JobSecret>),
    ranks: &[Rank],
    slots: (SliceWidth, u32),
) -> Result<Role, ConfigError> {
    match message.ok_or(ConfigError::Missing { field: "role" })? {
        v1::job_config::Role::Worker(worker) => worker_role(&worker, secret, ranks),
        v1::job_config::Role::ServerRole(server) => {
            let take_over = take_over.map(|message| take_over_of(message, slots)).transpose()?;
            server_role(&server, (take_over, secret), ranks)
        }
    }
}

/// Parses an optional secret; `None` if `bytes` is empty.
fn secret(bytes: &[u8], field: &'static str) -> Result<Option<JobSecret>, ConfigError> {
    match bytes {
        [] => Ok(None),
        bytes => {
            let secret = bytes.try_into().map(JobSecret::new).map_err(|_| {
                let problem = format!("{} bytes, and a secret has {}", bytes.len(), JobSecret::BYTES);
                ConfigError::Inconsistent { field, problem }
            });
            secret.map(Some)
        }
    }
}

fn worker_role(
    message: &v1::WorkerRole,
    secret: Option<JobSecret>,
    ranks: &[Rank],
) -> Result<Role, ConfigError> {
    let rank = rank(message.rank)?;
    if ranks.binary_search(&rank).is_err() {
        let problem = format!("rank {rank} is not one of the job's");
        return Err(ConfigError::Inconsistent { field: "worker.rank", problem });
    }
    let up = hops(&message.up, "worker.up")?;
    if up.is_empty() {
        return Err(ConfigError::Missing { field: "worker.up" });
    }
    let secret = secret.ok_or(ConfigError::Missing { field: "secret" })?;
    Ok(Role::Worker { rank, up, secret, confidential: false })
}

fn server_role(
    message: &v1::ServerRole,
    (take_over, secret): (Option<TakeOver>, Option<JobSecret>),
    ranks: &[Rank],
) -> Result<Role, ConfigError> {
    let fan_in = u8::try_from(message.fan_in)
        .ok()
        .filter(|fan_in| (1..=MAX_CHILDREN).contains(&usize::from(*fan_in)))
        .ok_or_else(|| out_of_range("server_role.fan_in", message.fan_in, "must be 1 to 64"))?;
    let down = message.down.iter().map(DownPath::try_from).collect::<Result<Vec<_>, _>>()?;
    if !down.iter().map(|path| path.rank).eq(ranks.iter().copied()) {
        let problem = "must have one path for each rank of the job, in their order".into();
        return Err(ConfigError::Inconsistent { field: "server_role.down", problem });
    }
    let field = "server_role.vouching_key";
    let vouching_key = self::secret(&message.vouching_key, field)?.ok_or(ConfigError::Missing { field })?;
    let node = node_id(message.node)?;
    Ok(Role::Server { node, fan_in, down, take_over, vouching_key, secret, confidential: false })
}

fn take_over_of(message: v1::TakeOver, (width, window): (SliceWidth, u32)) -> Result<TakeOver, ConfigError> {
    if message.dues.len() != window as usize {
        let problem = format!("{} slots, and the window has {window}", message.dues.len());
        return Err(ConfigError::Inconsistent { field: "take_over.dues", problem });
    }
    let finished =
        message.finished.iter().map(FinishedSlice::try_from).collect::<Result<Vec<_>, ConfigError>>()?;
    let is_wrong = |slice: &&FinishedSlice| ![0, width.values()].contains(&slice.values.len());
    if let Some(slice) = finished.iter().find(is_wrong) {
        let problem = format!("{} values, and the job's slices have {}", slice.values.len(), width.values());
        return Err(ConfigError::Inconsistent { field: "take_over.finished", problem });
    }
    Ok(TakeOver { dues: message.dues.into_iter().map(Seq).collect(), finished })
}

fn ranks(numbers: &[u32], field: &'static str) -> Result<Vec<Rank>, ConfigError> {
    if numbers.is_empty() {
        return Err(ConfigError::Missing { field });
    }
    ascending(numbers, field)
}

fn joined(numbers: &[u32], ranks: &[Rank]) -> Result<Vec<Rank>, ConfigError> {
    let joined = ascending(numbers, "joined")?;
    match joined.iter().find(|rank| ranks.binary_search(rank).is_err()) {
        Some(rank) => Err(ConfigError::Inconsistent {
            field: "joined",
            problem: format!("rank {rank} is not one of the job's"),
        }),
        None => Ok(joined),
    }
}

fn adopted(numbers: &[u32], ranks: &[Rank]) -> Result<Vec<Rank>, ConfigError> {
    let adopted = ascending(numbers, "adopted")?;
    match adopted.iter().find(|rank| ranks.binary_search(rank).is_ok()) {
        Some(rank) => Err(ConfigError::Inconsistent {
            field: "adopted",
            problem: format!("rank {rank} is one of the job's, and has its data itself"),
        }),
        None => Ok(adopted),
    }
}

fn ascending(numbers: &[u32], field: &'static str) -> Result<Vec<Rank>, ConfigError> {
    let ranks = numbers.iter().map(|number| rank(*number)).collect::<Result<Vec<_>, _>>()?;
    match ranks.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(ConfigError::Inconsistent {
            field,
            problem: format!("must ascend, but {} comes before {}", pair[0], pair[1]),
        }),
        None => Ok(ranks),
    }
}

fn hops(messages: &[v1::Hop], field: &'static str) -> Result<Vec<Hop>, ConfigError> {
    if messages.len() > usize::from(MAX_HOPS) {
        let problem = format!("{} hops: a packet carries at most {MAX_HOPS}", messages.len());
        return Err(ConfigError::Inconsistent { field, problem });
    }
    messages.iter().map(Hop::try_from).collect()
}

fn host(message: Option<&v1::Endpoint>, field: &'static str) -> Result<Endpoint, ConfigError> {
    let endpoint = Endpoint::try_from(message.ok_or(ConfigError::Missing { field })?)?;
    let wrong = |address: String| ConfigError::AddressKind { field, address, expected: "unicast" };
    if endpoint.mac.is_multicast() || endpoint.mac.is_zero() {
        return Err(wrong(endpoint.mac.to_string()));
    }
    if endpoint.ip.is_multicast() || endpoint.ip.is_broadcast() || endpoint.ip.is_unspecified() {
        return Err(wrong(endpoint.ip.to_string()));
    }
    Ok(endpoint)
}

fn group(message: Option<&v1::Endpoint>, field: &'static str) -> Result<Endpoint, ConfigError> {
    let endpoint = Endpoint::try_from(message.ok_or(ConfigError::Missing { field })?)?;
    let wrong = |address: String| ConfigError::AddressKind { field, address, expected: "multicast" };
    if !endpoint.mac.is_multicast() || endpoint.mac.is_broadcast() {
        return Err(wrong(endpoint.mac.to_string()));
    }
    if !endpoint.ip.is_multicast() {
        return Err(wrong(endpoint.ip.to_string()));
    }
    Ok(endpoint)
}

fn job_id(number: u32) -> Result<JobId, ConfigError> {
    let id = u16::try_from(number).ok().and_then(JobId::new);
    id.ok_or_else(|| out_of_range("job_id", number, "must be 1 to 65535"))
}

fn node_id(number: u32) -> Result<NodeId, ConfigError> {
    let id = u16::try_from(number).ok().and_then(NodeId::new);
    id.ok_or_else(|| out_of_range("node", number, "must be 1 to 65535"))
}

fn rank(number: u32) -> Result<Rank, ConfigError> {
    let rank = u16::try_from(number).ok().map(Rank::new).filter(|rank| *rank != Rank::ALL);
    rank.ok_or_else(|| out_of_range("rank", number, "must be 0 to 65534"))
}

fn out_of_range(field: &'static str, value: u32, expected: &'static str) -> ConfigError {
    ConfigError::OutOfRange { field, value: value.into(), expected }
}
