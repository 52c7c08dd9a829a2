//! The live page of a lab's controller, for browsers on this machine.
//!
//! The controller listens in a network namespace that browsers cannot reach. A process outside of the
//! namespace accepts connections on loopback and forwards the bytes. An ordinary user's lab is inside a
//! separate network as a whole. So the socket for browsers is opened before this program enters that
//! network.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener as Listener, TcpStream as Stream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tributary_cli::output;
use tributary_lab::{CONTROLLER, Lab};

use super::background::Background;
use super::launch::Ready;
use super::record::Record;
use super::tributary_program;
use crate::daemons::page::CONNECTIONS_OF_ONE;
use crate::daemons::service::{self, Stop};

/// The port at which the controller serves the page, on the lab's management network.
const PORT: u16 = 29880;
/// The name of the forwarding process, which its log has, too.
const NAME: &str = "page";
/// Time that the controller may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options for serving a lab's page at the listening socket that is the standard input.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// The lab
    #[arg(long)]
    name: String,
}

/// A socket on this machine through which browsers reach the page.
#[derive(Debug)]
pub struct PagePlace {
    listener: Listener,
    address: SocketAddr,
}

impl PagePlace {
    /// Opens this port on loopback, in the network of the calling process.
    ///
    /// # Errors
    /// The port is in use.
    pub(crate) fn take(port: u16) -> Result<Self> {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let listener = Listener::bind(address);
        let listener =
            listener.with_context(|| format!("cannot show the page at {address}: choose another port"))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the URL of the page for a browser on this machine.
    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// Returns the controller's address for the page.
pub(super) fn address(record: &Record) -> SocketAddrV4 {
    SocketAddrV4::new(*record.controller.ip(), PORT)
}

/// Starts the forwarding process, which ends with the lab.
pub(super) fn start(lab: &Lab, record: &Record, place: PagePlace) -> Result<Background> {
    let mut command = lab.command_beside(tributary_program()?);
    command.args(["lab", "keep-page", "--name", lab.name()]);
    let listener = OwnedFd::from(place.listener).into();
    Background::start(&record.folder, NAME, (command, listener), Ready::Notifies)
}

/// Runs `tributary lab keep-page`, which [`start`] starts. It continues to run while the controller is
/// down.
pub(crate) async fn run_keep_page(args: &PageArgs) -> Result<()> {
    let mut stop = Stop::new()?;
    let lab = Arc::new(Lab::open(&args.name)?);
    let listener = Listener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let target = SocketAddr::from((lab.management_address(CONTROLLER)?, PORT));
    // The controller accepts only this many connections from one address, and all of them come from this
    // process.
    let room = Arc::new(Semaphore::new(CONNECTIONS_OF_ONE));
    service::ready();
    loop {
        // The semaphore is never closed, so this does not fail.
        let place = Arc::clone(&room).acquire_owned().await?;
        let browser = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((browser, _)) => browser,
                Err(error) => {
                    output::complain(format_args!("cannot take a browser's connection: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = stop.requested() => return Ok(()),
        };
        let lab = Arc::clone(&lab);
        tokio::spawn(async move {
            let _place = place;
            // If the controller does not run, the browser's connection ends. The page detects this as an
            // error.
            if let Ok(controller) = connect(lab, target).await {
                carry(browser, controller).await;
            }
        });
    }
}

/// Forwards bytes in both directions until the controller closes the connection. The browser's side may
/// still be open then.
async fn carry(mut browser: TcpStream, mut controller: TcpStream) {
    let ((mut asks, mut reads), (mut answers, mut takes)) = (browser.split(), controller.split());
    let asking = async {
        // A browser that has sent all its requests may still read the responses, so this future does not
        // complete.
        let _ = copy(&mut asks, &mut takes).await;
        let _ = takes.shutdown().await;
        pending::<()>().await;
    };
    tokio::select! {
        _ = copy(&mut answers, &mut reads) => {}
        () = asking => {}
    }
}

/// Connects to the controller from inside its namespace.
async fn connect(lab: Arc<Lab>, target: SocketAddr) -> Result<TcpStream> {
    let inside = move || lab.inside(CONTROLLER, || Stream::connect_timeout(&target, PATIENCE));
    let stream = spawn_blocking(inside).await???;
    stream.set_nonblocking(true)?;
    Ok(TcpStream::from_std(stream)?)
}
