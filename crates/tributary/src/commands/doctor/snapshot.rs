//! A snapshot of the state that the doctor checks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use tokio::time::timeout;
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_transport::{ClientTls, Remote};

use crate::options::remote::{connect, refused};

/// Time to wait for the switches' tables. Tables that arrive later are skipped; another check finds
/// slow switches.
const TABLES_PATIENCE: Duration = Duration::from_secs(5);

/// The state of a deployment at one point in time.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// The time by this machine's clock, in seconds since 1970.
    pub(super) now: u64,
    pub(super) own: Own,
    pub(super) controller: v1::GetControllerResponse,
    /// The time at which the controller's certificate expires, in seconds since 1970; `None` in plain text.
    pub(super) served_expires: Option<u64>,
    pub(super) switches: Vec<v1::Switch>,
    pub(super) tables: Vec<v1::TableComparison>,
    pub(super) hosts: Vec<v1::Host>,
    pub(super) jobs: Vec<v1::Job>,
}

/// The state of this program and its machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Own {
    pub(super) version: String,
    /// The file of this machine's certificate, and the time at which the certificate expires, in seconds
    /// since 1970.
    pub(super) certificate: Option<(String, u64)>,
    /// The time by which this machine's clock is ahead of the controller's, in milliseconds. It is 0 if the
    /// difference is less than the duration of the request.
    pub(super) clock_ahead: i64,
}

impl Snapshot {
    /// Requests the whole state from the controller.
    ///
    /// # Errors
    /// The controller does not answer, or refuses.
    pub(super) async fn take(remote: &Remote) -> Result<Self> {
        let client = connect(remote).await?;
        let served_expires = remote.served_certificate_expires().await?;
        let (controller, clock_ahead) = controller(client.clone()).await?;
        let (switches, tables, hosts, jobs) = tokio::try_join!(
            switches(client.clone()),
            tables(client.clone()),
            hosts(client.clone()),
            jobs(client.clone()),
        )?;
        let certificate = remote.tls().and_then(certificate);
        let own = Own { version: env!("CARGO_PKG_VERSION").to_owned(), certificate, clock_ahead };
        let now = unix_now().as_secs();
        Ok(Self { now, own, controller, served_expires, switches, tables, hosts, jobs })
    }
}

type Client = ControllerClient<Channel>;

/// Returns the controller's answer, and the time by which this machine's clock is ahead of the
/// controller's.
async fn controller(mut client: Client) -> Result<(v1::GetControllerResponse, i64)> {
    let (before, asked) = (unix_now(), Instant::now());
    let controller = client.get_controller(v1::GetControllerRequest {}).await.map_err(refused)?.into_inner();
    let took = asked.elapsed();
    // The controller read its clock at some time during the request.
    let earliest = milliseconds(before) - signed(controller.clock_unix_milliseconds);
    let latest = earliest + milliseconds(took);
    let ahead = if earliest > 0 { earliest } else { latest.min(0) };
    Ok((controller, ahead))
}

async fn switches(mut client: Client) -> Result<Vec<v1::Switch>> {
    tributary_cli::switches::list(&mut client).await
}

async fn tables(mut client: Client) -> Result<Vec<v1::TableComparison>> {
    let compared = client.compare_tables(v1::CompareTablesRequest::default());
    match timeout(TABLES_PATIENCE, compared).await {
        Ok(compared) => Ok(compared.map_err(refused)?.into_inner().switches),
        Err(_) => Ok(Vec::new()),
    }
}

async fn hosts(mut client: Client) -> Result<Vec<v1::Host>> {
    Ok(client.list_hosts(v1::ListHostsRequest {}).await.map_err(refused)?.into_inner().hosts)
}

async fn jobs(mut client: Client) -> Result<Vec<v1::Job>> {
    Ok(client.list_jobs(v1::ListJobsRequest {}).await.map_err(refused)?.into_inner().jobs)
}

fn certificate(tls: &ClientTls) -> Option<(String, u64)> {
    Some((tls.files().certificate.display().to_string(), tls.expires()?))
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
