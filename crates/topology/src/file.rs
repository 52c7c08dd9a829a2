//! The topology file's form: what serde reads, before anything is checked or derived.

use serde::Deserialize;
use toml::Spanned;

use crate::graph::Role;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) name: Spanned<String>,
    pub(crate) description: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) defaults: Defaults,
    #[serde(default, rename = "switch")]
    pub(crate) switches: Vec<SwitchEntry>,
    #[serde(default, rename = "host")]
    pub(crate) hosts: Vec<HostEntry>,
    #[serde(default, rename = "link")]
    pub(crate) links: Vec<LinkEntry>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Defaults {
    pub(crate) rate: Option<Spanned<String>>,
    pub(crate) mtu: Option<Spanned<Whole>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchEntry {
    pub(crate) name: Spanned<String>,
    pub(crate) id: Option<Spanned<Whole>>,
    #[serde(default = "yes")]
    pub(crate) programmable: bool,
    pub(crate) slots: Option<Spanned<Whole>>,
    pub(crate) p4runtime: Option<Spanned<String>>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostEntry {
    pub(crate) name: Spanned<String>,
    pub(crate) role: Option<Role>,
    pub(crate) id: Option<Spanned<Whole>>,
    pub(crate) mac: Option<Spanned<String>>,
    pub(crate) ip: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkEntry {
    pub(crate) ends: Spanned<Pair<Spanned<String>>>,
    pub(crate) rate: Option<Spanned<String>>,
    pub(crate) mtu: Option<Spanned<Whole>>,
    pub(crate) load: Option<Spanned<Load>>,
}

/// A whole number, of which the builder checks that it is in range: serde's words for one that is not,
/// "expected u16", say nothing to people.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number")]
pub(crate) enum Whole {
    Number(i64),
}

/// A link's present load: one rate for both directions, or one from the first end to
/// the second and one back.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a rate such as \"5 Mbit/s\", or two of them")]
pub(crate) enum Load {
    Both(String),
    Each(Pair<String>),
}

/// Exactly two values. For `[T; 2]`, serde would also accept a longer list, and drop the rest.
#[derive(Deserialize)]
#[serde(try_from = "Vec<T>")]
pub(crate) struct Pair<T>(pub(crate) [T; 2]);

impl<T> TryFrom<Vec<T>> for Pair<T> {
    type Error = String;

    fn try_from(list: Vec<T>) -> Result<Self, String> {
        list.try_into().map(Self).map_err(|list: Vec<T>| format!("{} values where two belong", list.len()))
    }
}
