//! A fabric with one job, from its start to its end.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use tokio::time::sleep;
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_client::Stats;
use tributary_controller::{Controller, ControllerConfig, PipelineSource, Quotas, RunningController};
use tributary_planner::{Aggregation, Downlink, FabricState, JobRequest, Plan, Traffic};
use tributary_topology::Topology;
use tributary_trainer::PARAMETERS;
use tributary_transport::Remote;

use crate::DemoArgs;
use crate::cause::is_consequence;
use crate::hosts::Hosts;
use crate::network::DemoNetwork;
use crate::report::{AtServer, Bytes, LowerBound, Slots};
use tributary_cli::{controller as remote, switches};

pub(crate) const JOB: &str = "demo";
/// The longest time for one request to a switch. A switch that needs longer is defective.
const SWITCH_PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two requests for counters.
const PAUSE: Duration = Duration::from_millis(100);
const GRADIENT_BYTES: u64 = PARAMETERS as u64 * 4;

/// A running fabric and its job.
pub(crate) struct RunningJob {
    pub(crate) hosts: Hosts,
    pub(crate) creator: Creator,
    topology: Topology,
    fabric: DemoNetwork,
    controller: RunningController,
    plan: Plan,
}

/// The client that created the job and may end it.
#[derive(Debug, Clone)]
pub(crate) struct Creator {
    client: ControllerClient<Channel>,
    pub(crate) token: Vec<u8>,
}

/// The measurements over all rounds.
pub(crate) struct Measured {
    pub(crate) bytes: Bytes,
    pub(crate) retransmissions: u64,
    pub(crate) slots: Slots,
    pub(crate) server: AtServer,
    pub(crate) counters: Vec<v1::SwitchCounters>,
    /// The planner's expectation for one round.
    pub(crate) expected: Expectation,
}

/// The planner's expectation for one all-reduce.
pub(crate) struct Expectation {
    /// The fewest bytes that the links must carry.
    pub(crate) bound: LowerBound,
    /// The traffic without aggregation in the network, with the same downlink.
    pub(crate) plain: Traffic,
}

impl RunningJob {
    /// Starts the switches and the controller, creates the job, and starts the daemons of its hosts.
    ///
    /// # Errors
    /// A part cannot start; the error is that part's.
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
        let hosts = Hosts::start(&remote, (JOB, &token), (&topology, &plan), &mut fabric)?;
        let creator = Creator { client, token };
        tokio::spawn(end_without_server(hosts.served(), creator.clone()));
        Ok(Self { hosts, creator, topology, fabric, controller, plan })
    }

    /// Returns the job's plan, which equals the controller's plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Reads all counters, ends the job and stops everything. `workers` are the counters of the workers'
    /// agents.
    ///
    /// # Errors
    /// A switch or the controller does not answer.
    pub(crate) async fn finish(mut self, workers: &[Stats]) -> Result<Measured> {
        let counters = self.counters().await?;
        let measured = Measured {
            bytes: self.fabric.bytes(&self.topology, self.plan.server.key),
            retransmissions: workers.iter().map(|worker| worker.slices_retransmitted).sum(),
            slots: Slots {
                used: workers.first().context("the job has no workers")?.slices_sent
                    * self.plan.switches.iter().filter(|s| s.aggregate).count() as u64,
                released: released(&counters),
            },
            server: self.hosts.at_server().await?,
            counters,
            expected: self.expectation()?,
        };
        self.creator.end_job().await?;
        self.hosts.stop().await;
        self.controller.shutdown().await?;
        self.fabric.stop().await?;
        Ok(measured)
    }

    /// Returns the current counters of all switches. On a busy machine, the controller may not have current
    /// counters of every switch, so the request is repeated.
    async fn counters(&mut self) -> Result<Vec<v1::SwitchCounters>> {
        let deadline = Instant::now() + SWITCH_PATIENCE;
        loop {
            let request = v1::GetCountersRequest::default();
            let counters = self.creator.client.get_counters(request).await?.into_inner().switches;
            let stale =
                counters.iter().filter_map(|switch| Some((&switch.name, switch.unreachable.as_ref()?)));
            let stale: Vec<_> = stale.map(|(name, reason)| format!("switch {name}: {reason}")).collect();
            if stale.is_empty() {
                return Ok(counters);
            }
            if Instant::now() >= deadline {
                all_there(&stale)?;
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns the error that stopped the training, if `error` only reports the end of the job.
    pub(crate) async fn cause(&self, error: Error) -> Error {
        match is_consequence(&error) {
            true => self.hosts.served().await.err().unwrap_or(error),
            false => error,
        }
    }

    fn expectation(&self) -> Result<Expectation> {
        let of = |aggregation, downlink| plan(&self.topology, self.plan.window, aggregation, downlink);
        let tree = of(Aggregation::Tree, Downlink::Multicast)?.traffic;
        let bound =
            LowerBound { into_server: GRADIENT_BYTES, all_links: tree.links.len() as u64 * GRADIENT_BYTES };
        Ok(Expectation { bound, plain: of(Aggregation::None, self.plan.downlink)?.traffic })
    }
}

impl Creator {
    /// Ends the job for all its members.
    ///
    /// # Errors
    /// The controller refuses, or does not answer.
    pub(crate) async fn end_job(&self) -> Result<()> {
        let end = v1::EndJobRequest { job: JOB.to_owned(), token: self.token.clone() };
        self.client.clone().end_job(end).await.map_err(remote::refused)?;
        Ok(())
    }
}

/// Ends the job if its server has failed.
///
/// No standby exists here, so the workers would wait forever.
async fn end_without_server(served: impl Future<Output = Result<()>>, creator: Creator) {
    if served.await.is_err() {
        // An error means that the job has ended already.
        let _ = creator.end_job().await;
    }
}

/// Plans a job on a fabric without other jobs, as the controller does here.
fn plan(topology: &Topology, window: u32, aggregation: Aggregation, downlink: Downlink) -> Result<Plan> {
    let job = JobRequest::of(topology, window, GRADIENT_BYTES).context("the topology has no server")?;
    let job = JobRequest { aggregation, downlink, ..job };
    Ok(tributary_planner::plan(topology, &FabricState::of(topology, window), &job)?)
}

/// Returns an error if any switch has a problem; `remarks` has one text for each such switch. All
/// switches run on this machine, so a missing switch is a defect.
fn all_there(remarks: &[String]) -> Result<()> {
    match remarks {
        [] => Ok(()),
        [one] => bail!("{one}"),
        // All switches run the same program and usually have the same problem, so one text is enough.
        [first, others @ ..] => bail!("{first} (and {} more like it)", others.len()),
    }
}

/// Returns the number of slots that results have released.
fn released(counters: &[v1::SwitchCounters]) -> u64 {
    let jobs = counters.iter().flat_map(|switch| &switch.jobs);
    jobs.filter(|counter| counter.reason == "released").map(|counter| counter.packets).sum()
}
