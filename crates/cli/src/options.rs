//! Options that several subcommands share.

use std::io;
use std::path::Path;

use bytesize::ByteSize;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tributary_api::v1;
use tributary_planner as planner;
use tributary_topology::{Topology, TopologyError};

const DEFAULT_TOPOLOGY: &str = include_str!("../../../topologies/three-tier-8.toml");
const DEFAULT_TOPOLOGY_NAME: &str = "topologies/three-tier-8.toml (built in)";

/// The default path of the socket on which this host's agent accepts training processes.
pub const DEFAULT_SOCKET: &str = "/run/tributary/agent.sock";

/// Reads the topology's text from `file`, or the built-in topology. Also returns its name for error
/// messages.
pub fn topology_text(file: Option<&Path>) -> io::Result<(String, String)> {
    match file {
        Some(file) => Ok((tributary_files::read_text(file)?, file.display().to_string())),
        None => Ok((DEFAULT_TOPOLOGY.to_owned(), DEFAULT_TOPOLOGY_NAME.to_owned())),
    }
}

/// Loads the topology in `file`, or the built-in topology.
pub fn load_topology(file: Option<&Path>) -> Result<Topology, TopologyError> {
    match file {
        Some(file) => Topology::load(file),
        None => Topology::parse(DEFAULT_TOPOLOGY, DEFAULT_TOPOLOGY_NAME),
    }
}

/// Parses the probability with which a link loses a frame.
pub fn probability(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent.trim_end(), 100.0));
    match number.parse::<f64>().map(|number| number / unit) {
        // The limit is 0.5, because with very high losses no operation would complete.
        Ok(p) if (0.0..=0.5).contains(&p) => Ok(p),
        _ => Err("a probability from 0 to 0.5 is needed, or 0% to 50%".to_owned()),
    }
}

/// Parses a fraction from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share from 0 to 1 is needed".to_owned()),
    }
}

/// Parses the size of a gradient.
pub fn size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        // The parser turns numbers that exceed 64 bits into `u64::MAX`, so `u64::MAX` is refused.
        Ok(size) if size.as_u64() > 0 && size.as_u64() < u64::MAX => Ok(size),
        _ => Err("a number of bytes is needed, such as 64MiB, more than 0 and less than 16 EiB".to_owned()),
    }
}

/// Reads and writes sizes in settings files: a number of bytes, or a text as on the command line.
pub mod byte_size {
    use bytesize::ByteSize;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Bytes(u64),
        Text(String),
    }

    /// Writes a size as a number of bytes.
    pub fn serialize<S: Serializer>(size: &Option<ByteSize>, to: S) -> Result<S::Ok, S::Error> {
        size.map(|size| size.as_u64()).serialize(to)
    }

    /// Reads any size that [`size`](super::size) accepts.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ByteSize>, D::Error> {
        let text = match Written::deserialize(from)? {
            Written::Bytes(bytes) => bytes.to_string(),
            Written::Text(text) => text,
        };
        super::size(&text).map(Some).map_err(D::Error::custom)
    }
}

/// Parses one name of a comma-separated list. A space after the comma is allowed.
pub fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a name is needed".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// Parses a job's window.
///
/// # Errors
/// A text for the user, if it is not a power of two.
pub fn window(text: &str) -> Result<u32, String> {
    power_of_two(text, 256)
}

/// Parses a number of threads.
///
/// # Errors
/// A text for the user, if it is not a power of two.
pub fn threads(text: &str) -> Result<u32, String> {
    power_of_two(text, 4)
}

fn power_of_two(text: &str, example: u32) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number) if number.is_power_of_two() => Ok(number),
        _ => Err(format!("a power of two is needed, such as {example}")),
    }
}

/// Where gradients are aggregated on their way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// At every switch where it saves bytes
    Tree,
    /// At the workers' first switches only
    Leaf,
    /// At these, and at the next ones on the way
    TwoLevels,
    /// Nowhere but at the server
    None,
}

/// The delivery of results to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Downlink {
    /// The server sends each result once
    Multicast,
    /// The server sends each result to every worker
    Unicast,
}

impl From<Aggregation> for planner::Aggregation {
    fn from(option: Aggregation) -> Self {
        match option {
            Aggregation::Tree => Self::Tree,
            Aggregation::Leaf => Self::Leaf,
            Aggregation::TwoLevels => Self::TwoLevels,
            Aggregation::None => Self::None,
        }
    }
}

impl From<Aggregation> for v1::Aggregation {
    fn from(option: Aggregation) -> Self {
        match option {
            Aggregation::Tree => Self::Tree,
            Aggregation::Leaf => Self::Leaf,
            Aggregation::TwoLevels => Self::TwoLevels,
            Aggregation::None => Self::None,
        }
    }
}

impl From<Downlink> for planner::Downlink {
    fn from(option: Downlink) -> Self {
        match option {
            Downlink::Multicast => Self::Multicast,
            Downlink::Unicast => Self::Unicast,
        }
    }
}

impl From<Downlink> for v1::Downlink {
    fn from(option: Downlink) -> Self {
        match option {
            Downlink::Multicast => Self::Multicast,
            Downlink::Unicast => Self::Unicast,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert_eq!(size("15EiB"), Ok(ByteSize::eib(15)));
        for wrong in ["0", "16EiB", "99999999999GiB", "18446744073709551616", "much"] {
            assert!(size(wrong).is_err_and(|said| said.contains("less than 16 EiB")), "{wrong}");
        }
    }

    #[test]
    fn names_may_have_spaces_around_them_and_are_not_empty() {
        assert_eq!(name(" w1 "), Ok("w1".to_owned()));
        assert!(name(" ").is_err());
    }
}
