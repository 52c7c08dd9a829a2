//! Options of the form NAME=VALUE.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tributary_capture::PortFiles;
use tributary_controller::SwitchAddress;

/// The P4Runtime address of a switch: `NAME=HOST:PORT`, or `NAME=HOST:PORT/DEVICE-ID` if its device id
/// differs from its node id in the topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SwitchAt {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) device_id: Option<u64>,
}

impl SwitchAt {
    /// Returns the address for the controller. `node_id` is the switch's node id in the topology.
    pub(crate) fn address(&self, node_id: u64) -> SwitchAddress {
        let device_id = self.device_id.unwrap_or(node_id);
        SwitchAddress { address: self.address.clone(), device_id }
    }
}

impl FromStr for SwitchAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?}: NAME=HOST:PORT or NAME=HOST:PORT/DEVICE-ID is needed");
        let (name, rest) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
        let (address, device_id) = match rest.split_once('/') {
            Some((address, id)) => (address, Some(id.parse().map_err(|_| bad())?)),
            None => (rest, None),
        };
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !has_port {
            return Err(bad());
        }
        Ok(Self { name: name.into(), address: address.into(), device_id })
    }
}

impl fmt::Display for SwitchAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.address)?;
        self.device_id.map_or(Ok(()), |id| write!(f, "/{id}"))
    }
}

/// A port of a switch: `NUMBER=INTERFACE`, or `NUMBER=pcap:IN,OUT` for captures. Either `IN` or `OUT`
/// may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct PortAt {
    pub(crate) number: u16,
    pub(crate) link: LinkAt,
}

/// The source and destination of a port's frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkAt {
    Interface(String),
    Captures(PortFiles),
}

/// The prefix that distinguishes captures from interfaces.
const CAPTURES: &str = "pcap:";

impl FromStr for PortAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?}: NUMBER=INTERFACE is needed, such as 1=eth0, or NUMBER=pcap:IN.pcap,OUT.pcap, of which one \
                 file may be left out"
            )
        };
        let (number, link) = text.split_once('=').ok_or_else(bad)?;
        let number = number.parse().map_err(|_| bad())?;
        let link = match link.strip_prefix(CAPTURES) {
            Some(files) => LinkAt::Captures(port_files(files).ok_or_else(bad)?),
            None if link.is_empty() => return Err(bad()),
            None => LinkAt::Interface(link.into()),
        };
        Ok(Self { number, link })
    }
}

/// Parses the files in `IN,OUT`, `IN` or `,OUT`.
fn port_files(text: &str) -> Option<PortFiles> {
    let (input, output) = text.split_once(',').unwrap_or((text, ""));
    let file = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
    let files = PortFiles { input: file(input), output: file(output) };
    (files != PortFiles::default() && !output.contains(',')).then_some(files)
}

impl fmt::Display for PortAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.number, self.link)
    }
}

impl fmt::Display for LinkAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = match self {
            Self::Interface(name) => return f.write_str(name),
            Self::Captures(files) => files,
        };
        f.write_str(CAPTURES)?;
        if let Some(input) = &files.input {
            write!(f, "{}", input.display())?;
        }
        files.output.as_ref().map_or(Ok(()), |output| write!(f, ",{}", output.display()))
    }
}

/// Implements the conversions that serde needs to read and write the text form in settings files.
macro_rules! text_in_files {
    ($($kind:ty),*) => {$(
        impl TryFrom<String> for $kind {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$kind> for String {
            fn from(value: $kind) -> Self {
                value.to_string()
            }
        }
    )*};
}

text_in_files!(SwitchAt, PortAt);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["leaf0=10.0.0.1:9559", "leaf0=[::1]:9559/0", "s=host:1/18446744073709551615"] {
            assert_eq!(text.parse::<SwitchAt>().unwrap().to_string(), text);
        }
        for text in ["7=leaf0-eth7", "1=pcap:in.pcap,out.pcap", "1=pcap:in.pcap", "1=pcap:,a=b.pcap"] {
            assert_eq!(text.parse::<PortAt>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_device_id_is_the_nodes_unless_given() {
        let address = |text: &str| text.parse::<SwitchAt>().unwrap().address(5);
        assert_eq!(address("s=h:1"), SwitchAddress { address: "h:1".into(), device_id: 5 });
        assert_eq!(address("s=h:1/0"), SwitchAddress { address: "h:1".into(), device_id: 0 });
    }

    #[test]
    fn half_of_it_is_refused() {
        for text in ["", "leaf0", "=h:1", "leaf0=", "leaf0=host", "leaf0=:1", "leaf0=h:x", "leaf0=h:1/x"] {
            assert!(text.parse::<SwitchAt>().is_err(), "{text}");
        }
        for text in ["", "1", "1=", "=eth0", "eth0=1", "70000=eth0", "1=pcap:", "1=pcap:,", "1=pcap:a,b,c"] {
            assert!(text.parse::<PortAt>().is_err(), "{text}");
        }
    }
}
