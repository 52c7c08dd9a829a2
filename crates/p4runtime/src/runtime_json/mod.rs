//! Table entries, multicast groups and clone sessions from a file.
//!
//! The file has the JSON format that the exercises of p4lang's tutorials call `s1-runtime.json`.
//! Many P4 programmers have such files.
//!
//! ```
//! # use tributary_p4runtime::runtime_json::RuntimeJson;
//! let file = RuntimeJson::parse(r#"{
//!     "target": "bmv2",
//!     "p4info": "build/basic.p4.p4info.txtpb",
//!     "bmv2_json": "build/basic.json",
//!     "table_entries": [{
//!         "table": "MyIngress.ipv4_lpm",
//!         "match": { "hdr.ipv4.dstAddr": ["10.0.1.1", 32] },
//!         "action_name": "MyIngress.ipv4_forward",
//!         "action_params": { "dstAddr": "08:00:00:00:01:11", "port": 1 }
//!     }],
//!     "multicast_group_entries": [{ "multicast_group_id": 1, "replicas": [{ "egress_port": 1, "instance": 1 }] }],
//!     "clone_session_entries": [{ "clone_session_id": 5, "replicas": [{ "egress_port": 3, "instance": 1 }] }]
//! }"#)?;
//! assert_eq!(file.bmv2_json(), Some("build/basic.json"));
//! # Ok::<(), tributary_p4runtime::runtime_json::RuntimeJsonError>(())
//! ```
//!
//! [`RuntimeJson::updates`] turns the file into updates of a Write, in the order in which the
//! tutorials write them.

mod replication;
mod table;
#[cfg(test)]
mod tests;
mod value;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::p4::v1::{Entity, Update, entity, update};
use crate::p4info::P4Info;

/// The only target that the format has.
const TARGET: &str = "bmv2";

/// The reason why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuntimeJsonError {
    /// The text is not JSON, or does not have the format of such a file. The string names the line.
    #[error("this is no runtime JSON: {0}")]
    Form(String),
    /// The file was made for another target, which is named here.
    #[error("its target is {0:?}, and only \"{TARGET}\" is known")]
    Target(String),
    /// An entry does not fit the program, or is incomplete.
    #[error("{place}: {problem}")]
    Entry {
        /// The list, the entry's number in the list from 1 on, and the entry's table.
        place: String,
        /// The problem, and the possible values.
        problem: String,
    },
}

/// The contents of a file, not yet compared with a program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeJson {
    target: Option<String>,
    p4info: Option<String>,
    bmv2_json: Option<String>,
    #[serde(default)]
    table_entries: Vec<Value>,
    #[serde(default)]
    multicast_group_entries: Vec<Value>,
    #[serde(default)]
    clone_session_entries: Vec<Value>,
}

/// An entry of a file as an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The entry's list and number in the file, for errors.
    pub place: String,
    /// The update to write to the switch.
    pub update: Update,
}

impl RuntimeJson {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`RuntimeJsonError::Form`] and [`RuntimeJsonError::Target`]; [`RuntimeJson::updates`] checks
    /// the entries.
    pub fn parse(text: &str) -> Result<Self, RuntimeJsonError> {
        let file: Self =
            serde_json::from_str(text).map_err(|error| RuntimeJsonError::Form(error.to_string()))?;
        match &file.target {
            Some(target) if target != TARGET => Err(RuntimeJsonError::Target(target.clone())),
            _ => Ok(file),
        }
    }

    /// Returns the path of the P4Info that the file names.
    pub fn p4info(&self) -> Option<&str> {
        self.p4info.as_deref()
    }

    /// Returns the path of the compiled program that the file names.
    pub fn bmv2_json(&self) -> Option<&str> {
        self.bmv2_json.as_deref()
    }

    /// Returns the updates that write the file's entries to a switch with this program.
    ///
    /// They come in the order tables, groups, sessions.
    ///
    /// # Errors
    /// [`RuntimeJsonError::Entry`] names the first entry that does not fit the program.
    pub fn updates(&self, p4info: &P4Info) -> Result<Vec<Entry>, RuntimeJsonError> {
        let mut entries = Vec::new();
        for (place, value) in places("table_entries", &self.table_entries) {
            entries.push(table::entry(&place, value, p4info)?);
        }
        for (place, value) in places("multicast_group_entries", &self.multicast_group_entries) {
            entries.push(replication::group(&place, value)?);
        }
        for (place, value) in places("clone_session_entries", &self.clone_session_entries) {
            entries.push(replication::session(&place, value)?);
        }
        Ok(entries)
    }
}

/// Returns the members of a list, each with its place in the file for errors.
fn places<'a>(list: &'a str, values: &'a [Value]) -> impl Iterator<Item = (String, &'a Value)> {
    (1..).zip(values).map(move |(number, value)| (format!("{list}, entry {number}"), value))
}

/// Reads the keys of an entry. An error names a key that is unknown, missing, or of the wrong type.
fn keys<T: DeserializeOwned>(place: &str, value: &Value) -> Result<T, RuntimeJsonError> {
    T::deserialize(value).map_err(|error| wrong(place, error.to_string()))
}

fn wrong(place: &str, problem: impl Into<String>) -> RuntimeJsonError {
    RuntimeJsonError::Entry { place: place.to_owned(), problem: problem.into() }
}

fn update(kind: update::Type, entity: entity::Entity) -> Update {
    Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity) }) }
}
