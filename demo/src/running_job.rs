//! A fabric with one job on it, from start to end.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_controller::{Controller, ControllerConfig, PipelineSource, Quotas, RunningController};
use tributary_host_agent::MemberRole;
use tributary_planner::{Aggregation, Downlink, FabricState, JobRequest, Plan, Traffic};
use tributary_topology::Topology;
use tributary_trainer::PARAMETERS;
use tributary_transport::Remote;

use crate::DemoArgs;
use crate::members::Members;
use crate::network::DemoNetwork;
use crate::report::{AtServer, Bytes, LowerBound, Slots};
use tributary_cli::{controller as remote, switches};

const JOB: &str = "demo";
/// The longest time for one request to a switch; a switch that takes longer has a defect.
const SWITCH_PATIENCE: Duration = Duration::from_secs(10);
const GRADIENT_BYTES: u64 = PARAMETERS as u64 * 4;

/// A running fabric, and the job on it.
pub(crate) struct RunningJob {
    topology: Topology,
    fabric: DemoNetwork,
    controller: RunningController,
    client: ControllerClient<Channel>,
    token: Vec<u8>,
    pub(crate) members: Members,
    plan: Plan,
}

/// The measurements of a session, over all rounds.
pub(crate) struct Measured {
    pub(crate) bytes: Bytes,
    pub(crate) retransmissions: u64,
    pub(crate) slots: Slots,
    pub(crate) server: AtServer,
    pub(crate) counters: Vec<v1::SwitchCounters>,
    /// The expectation for one round.
    pub(crate) expected: Expectation,
}

/// The planner's expectation for one all-reduce.
pub(crate) struct Expectation {
    /// The least that links have to carry.
    pub(crate) bound: LowerBound,
    /// What they carry without aggregation in the network, with the same downlink.
    pub(crate) plain: Traffic,
}

impl RunningJob {
    /// Starts the switches and the controller, creates the job, and joins every member to it.
    ///
    /// # Errors
    /// Anything that cannot start, with the error of the part that refused.
    pub(crate) async fn start(args: &DemoArgs, topology: Topology) -> Result<Self> {
        let mut fabric = DemoNetwork::start(&topology, args.loss, args.seed).await?;
        let controller = Controller::start(ControllerConfig {
            switches: fabric.switch_addresses(&topology),
            topology: topology.clone(),
            pipeline: args.pipeline.clone().map_or(PipelineSource::BuiltIn, PipelineSource::Directory),
            listen: args.listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            tls: None,
            switch_patience: SWITCH_PATIENCE,
            state: None,
            quotas: Quotas::default(),
        })
        .await?;
        all_there(&switches::remarks(&controller.observer().switches()))?;
        let api = controller.api_addr().to_string();
        let remote = Remote::controller(&api, None)?;
        let mut client = remote::connect(&remote).await?;
        let request = v1::CreateJobRequest {
            name: JOB.to_owned(),
            aggregation: v1::Aggregation::from(args.aggregation).into(),
            downlink: v1::Downlink::from(args.downlink).into(),
            window: args.window,
            gradient_bytes: GRADIENT_BYTES,
            rigid: false,
            join_deadline_milliseconds: 0,
            ..v1::CreateJobRequest::default()
        };
        let created = client.create_job(request).await.map_err(remote::refused)?;
        let token = created.into_inner().token;
        let plan = plan(&topology, args.window, args.aggregation.into(), args.downlink.into())?;
        let workers = plan.workers.iter().map(|worker| (worker.key, MemberRole::Worker));
        let hosts = workers
            .chain([(plan.server.key, MemberRole::Server)])
            .map(|(host, role)| {
                let name = topology[host].name.clone();
                let port = fabric.take_host_port(host).with_context(|| format!("host {name} has no link"))?;
                Ok((name, role, port))
            })
            .collect::<Result<_>>()?;
        let members = Members::join(&remote, JOB, &token, hosts).await?;
        Ok(Self { topology, fabric, controller, client, token, members, plan })
    }

    /// The job's plan, equal to the controller's.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Reads all counters, ends the job and stops everything.
    ///
    /// # Errors
    /// A switch or the controller does not answer.
    pub(crate) async fn finish(mut self) -> Result<Measured> {
        let counters =
            self.client.get_counters(v1::GetCountersRequest::default()).await?.into_inner().switches;
        let stale = counters.iter().filter_map(|switch| Some((&switch.name, switch.unreachable.as_ref()?)));
        let stale: Vec<_> = stale.map(|(name, reason)| format!("switch {name}: {reason}")).collect();
        all_there(&stale)?;
        let measured = Measured {
            bytes: self.fabric.bytes(&self.topology, self.plan.server.key),
            retransmissions: self.members.retransmissions()?,
            slots: Slots {
                used: self.members.slices()?
                    * self.plan.switches.iter().filter(|s| s.aggregate).count() as u64,
                released: released(&counters),
            },
            server: self.members.at_server()?,
            counters,
            expected: self.expectation()?,
        };
        let end = v1::EndJobRequest { job: JOB.to_owned(), token: self.token };
        self.client.end_job(end).await?;
        self.members.part().await?;
        self.controller.shutdown().await?;
        self.fabric.stop().await?;
        Ok(measured)
    }

    fn expectation(&self) -> Result<Expectation> {
        let of = |aggregation, downlink| plan(&self.topology, self.plan.window, aggregation, downlink);
        let tree = of(Aggregation::Tree, Downlink::Multicast)?.traffic;
        let bound =
            LowerBound { into_server: GRADIENT_BYTES, all_links: tree.links.len() as u64 * GRADIENT_BYTES };
        Ok(Expectation { bound, plain: of(Aggregation::None, self.plan.downlink)?.traffic })
    }
}

/// The plan of a job on an otherwise idle fabric, which is what the controller plans on here.
fn plan(topology: &Topology, window: u32, aggregation: Aggregation, downlink: Downlink) -> Result<Plan> {
    let job = JobRequest::of(topology, window, GRADIENT_BYTES).context("the topology has no server")?;
    let job = JobRequest { aggregation, downlink, ..job };
    Ok(tributary_planner::plan(topology, &FabricState::of(topology, window), &job)?)
}

/// Fails if a switch is missing: everything runs on this machine, so that is a defect. `remarks`: one for each switch
/// with a problem.
fn all_there(remarks: &[String]) -> Result<()> {
    match remarks {
        [] => Ok(()),
        [one] => bail!("{one}"),
        // All run the same program, and usually have the same remark.
        [first, others @ ..] => bail!("{first} (and {} more like it)", others.len()),
    }
}

/// Number of slots that results have released.
fn released(counters: &[v1::SwitchCounters]) -> u64 {
    let jobs = counters.iter().flat_map(|switch| &switch.jobs);
    jobs.filter(|counter| counter.reason == "released").map(|counter| counter.packets).sum()
}
