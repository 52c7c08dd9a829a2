//! Parts that all daemons share: settings from options and a file, logs, and signals.

mod cpus;
pub(crate) mod log;
mod reload;
mod settings;
mod stop;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Arg, Args, Command};
use rustix::process::Signal;
use sd_notify::NotifyState;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use cpus::CpuArgs;
use log::LogArgs;
pub(crate) use reload::{Reload, note};
pub use settings::WrongUse;
pub(crate) use settings::{DaemonSettings, SettingsFile, in_words};
pub use stop::Stop;

/// The option for the path of the settings file. It is the only option that cannot be in the file.
const CONFIG: &str = "config";

/// The options of a daemon: its own, and those that all daemons have.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs<S: Args> {
    /// TOML file with settings: every option is a key of the same name; options override the file
    #[arg(long = CONFIG, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    log: LogArgs,

    #[command(flatten)]
    cpus: CpuArgs,

    #[command(flatten)]
    own: S,
}

/// Runs a daemon until `work` completes; `work` must complete when its [`Stop`] requests it.
///
/// # Errors
/// Invalid settings, and the errors of `work`.
pub(crate) fn run<S, W>(args: &DaemonArgs<S>, work: W) -> Result<()>
where
    S: DaemonSettings,
    W: AsyncFnOnce(S, Stop) -> Result<()>,
{
    let file = args.config.as_deref().map(SettingsFile::load).transpose()?.unwrap_or_default();
    file.check_keys(&keys::<S>())?;
    let (log, rest) = file.split::<LogArgs>();
    log::start(&args.log.merge(log)?)?;
    let (cpus, own) = rest.split::<CpuArgs>();
    // The thread is pinned before other threads start, because they inherit its affinity.
    cpus::pin(&args.cpus.merge(cpus)?)?;
    let settings = args.own.merge(own)?;
    let runtime = Runtime::new().context("cannot start the threads that a daemon needs")?;
    runtime.block_on(async {
        outlive_full_files()?;
        work(settings, Stop::new()?).await
    })
}

/// Returns the keys that a settings file of this daemon may contain.
fn keys<S: Args>() -> Vec<String> {
    let options = DaemonArgs::<S>::augment_args(Command::new(""));
    let names = options.get_arguments().filter_map(Arg::get_long).filter(|name| *name != CONFIG);
    names.map(str::to_owned).collect()
}

/// Makes a write beyond the file size limit (`ulimit -f`, `LimitFSIZE=`) an ordinary error. By default
/// it ends the process without a message.
fn outlive_full_files() -> Result<()> {
    // The handler stays installed for the life of the process, even though the listener is dropped.
    let full = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
    full.map(drop).context("cannot listen for signals")
}

/// Reports to the log and to systemd that the daemon is ready.
pub(crate) fn ready() {
    tracing::info!("ready");
    // Without systemd, this call does nothing.
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("at work")]) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

/// Reports to systemd the reason for the daemon's wait, and extends the daemon's start timeout.
pub(crate) fn not_ready_yet(why: &str, longer: Duration) {
    let microseconds = u32::try_from(longer.as_micros()).unwrap_or(u32::MAX);
    let states = [NotifyState::Status(why), NotifyState::ExtendTimeoutUsec(microseconds)];
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

/// Returns a setting that has no default.
///
/// # Errors
/// [`WrongUse`]: the setting is missing in both the options and the file.
pub(crate) fn required<T>(setting: Option<T>, name: &str) -> Result<T> {
    let missing = || WrongUse(format!("--{name} is needed: give it, or `{name}` in the --config file"));
    Ok(setting.ok_or_else(missing)?)
}
