//! Structured logs on standard error.

use std::io;

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::WrongUse;

const DEFAULT_LEVEL: &str = "info";

/// Settings of the log: its contents and format.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LogArgs {
    /// Level of the log: error, warn, info, debug, trace, or a filter such as
    /// "info,tributary_controller=debug" [default: info]
    #[arg(long, value_name = "LEVEL", env = "TRIBUTARY_LOG")]
    log: Option<String>,

    /// Format of the log [default: human]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people
    Human,
    /// One JSON object a line
    Json,
}

/// Starts logging with the given filter and format.
///
/// # Errors
/// [`WrongUse`]: the filter is invalid.
pub(crate) fn start(args: &LogArgs) -> Result<()> {
    log(args.log.as_deref().unwrap_or(DEFAULT_LEVEL), args.log_format)
}

/// Logs only warnings and errors, for commands that are not daemons.
pub(crate) fn warnings() -> Result<()> {
    log("warn", None)
}

fn log(level: &str, format: Option<LogFormat>) -> Result<()> {
    let filter = check(level).and_then(|()| EnvFilter::try_new(level).map_err(Into::into));
    let filter = filter.map_err(|error| WrongUse(format!("--log {level:?}: {error}")))?;
    // If the log cannot be written, for example because the disk is full, this is not reported. The report
    // itself would panic.
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    let started = match format {
        Some(LogFormat::Json) => log.json().flatten_event(true).try_init(),
        Some(LogFormat::Human) | None => {
            log.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).with_target(false).try_init()
        }
    };
    started.map_err(|error| anyhow!("cannot start the log: {error}"))
}

/// Rejects a single word that is not a level.
///
/// The filter would interpret the word as a module's name, and log nothing else.
fn check(filter: &str) -> Result<()> {
    let words =
        filter.split(',').map(str::trim).filter(|part| !part.is_empty() && !part.contains(['=', '[']));
    for word in words {
        let level = word.parse::<LevelFilter>();
        ensure!(
            level.is_ok(),
            "{word:?} is not a level; levels are off, error, warn, info, debug or trace; of a module: {word}=debug"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_level_and_a_module_has_one() {
        for right in ["info", "off", "WARN", "info,tributary_controller=debug", "", "warn, a::b=trace"] {
            assert!(check(right).is_ok(), "{right}");
        }
        for wrong in ["blah", "info,tributary_controller", "inf"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
