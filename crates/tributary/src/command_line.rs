//! The command line for users. Some messages of clap are replaced by plainer ones.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, Error, Parser};

/// Returns the command with all its subcommands. The defaults of list options are shown in the syntax
/// of the option; clap would separate the values with spaces.
pub(crate) fn command<C: CommandFactory>() -> Command {
    with_lists(C::command())
}

/// Parses the command line.
///
/// # Errors
/// The command line is wrong, or requests help or the version.
pub(crate) fn parse<P: Parser>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<P, Error> {
    let mut command = command::<P>();
    let given = command.try_get_matches_from_mut(words).map_err(in_words)?;
    P::from_arg_matches(&given).map_err(|error| error.format(&mut command))
}

fn with_lists(command: Command) -> Command {
    command.mut_args(with_list).mut_subcommands(with_lists)
}

fn with_list(option: Arg) -> Arg {
    let defaults = option.get_default_values();
    let (Some(between), [_, _, ..]) = (option.get_value_delimiter(), defaults) else { return option };
    let parts: Vec<_> = defaults.iter().map(|part| part.to_string_lossy()).collect();
    let default = parts.join(&between.to_string());
    let help = option.get_help().map(|help| format!("{help} ")).unwrap_or_default();
    let long = option.get_long_help().map(|long| format!("{long}\n\n[default: {default}]"));
    let option = option.hide_default_value(true).help(format!("{help}[default: {default}]"));
    match long {
        Some(long) => option.long_help(long),
        None => option,
    }
}

/// Replaces the standard library's "invalid digit found in string" by the kind of number that is
/// needed.
fn in_words(error: Error) -> Error {
    let Some(cause) = error.source() else { return error };
    let Some(needed) = needed(cause) else { return error };
    // The text that clap puts in front of the cause names the option and its value, so it is kept.
    let said = error.to_string().replace(&cause.to_string(), needed);
    Error::raw(ErrorKind::ValueValidation, said.strip_prefix("error: ").unwrap_or(&said))
}

/// Returns the kind of number that is needed; `None` if the value is wrong for another reason.
fn needed(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if cause.is::<ParseFloatError>() {
        return Some("a number is needed");
    }
    Some(match cause.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::PosOverflow => "a smaller number is needed",
        IntErrorKind::NegOverflow => "a larger number is needed",
        IntErrorKind::Zero => "a whole number of at least 1 is needed",
        _ => "a whole number is needed",
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[derive(Debug, Parser)]
    struct Example {
        #[command(subcommand)]
        command: Subcommand,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Subcommand {
        Run {
            /// Step times
            #[arg(long, value_delimiter = ',', default_values_t = [1.0, 1.5])]
            speeds: Vec<f64>,

            #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
            interval: u64,

            #[arg(long)]
            epoch: Option<NonZeroU64>,
        },
    }

    fn run(option: &str) -> Result<Vec<f64>, String> {
        let given = parse::<Example>(["example", "run", option]).map_err(|error| error.to_string())?;
        let Subcommand::Run { speeds, .. } = given.command;
        Ok(speeds)
    }

    #[test]
    fn a_lists_default_is_shown_as_it_would_be_given() {
        let help = run("--help").unwrap_err();
        assert!(help.contains("Step times [default: 1,1.5]"), "{help}");
        assert!(!help.contains("1 1.5"), "{help}");
        assert!(help.contains("[default: 1]"), "what is no list stays: {help}");
        assert_eq!(run("--interval=2"), Ok(vec![1.0, 1.5]));
        assert_eq!(run("--speeds=1,1.5,3"), Ok(vec![1.0, 1.5, 3.0]));
    }

    #[test]
    fn a_wrong_number_is_told_what_is_needed() {
        for (option, told) in [
            ("--interval=0.5", "'--interval <INTERVAL>': a whole number is needed"),
            ("--epoch=0", "'--epoch <EPOCH>': a whole number of at least 1 is needed"),
            ("--epoch=99999999999999999999", "'--epoch <EPOCH>': a smaller number is needed"),
            ("--speeds=1,fast", "'--speeds <SPEEDS>': a number is needed"),
            ("--interval=0", "0 is not in 1.."),
        ] {
            let said = run(option).unwrap_err();
            assert!(said.starts_with("error: invalid value '") && said.contains(told), "{said}");
            assert_eq!(said.matches("try '--help'").count(), 1, "{said}");
        }
    }
}
