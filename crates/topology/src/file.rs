//! The form of the topology file as serde reads it, before the builder checks it and derives missing
//! parts.

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

/// A whole number whose range the builder checks.
/// serde would report a number out of range as "expected u16", which users do not understand.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number")]
pub(crate) enum Whole {
    Number(i64),
}

/// The present load of a link.
/// It is either one rate for both directions, or one rate for each direction. The first of two rates is for the
/// direction from the first end to the second.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a rate such as \"5 Mbit/s\", or two of them")]
pub(crate) enum Load {
    Both(String),
    Each(Pair<String>),
}

/// Exactly two values. serde would accept a longer list for `[T; 2]`, and would drop the additional
/// values.
#[derive(Deserialize)]
#[serde(try_from = "Vec<T>")]
pub(crate) struct Pair<T>(pub(crate) [T; 2]);

impl<T> TryFrom<Vec<T>> for Pair<T> {
    type Error = String;

    fn try_from(list: Vec<T>) -> Result<Self, String> {
        list.try_into().map(Self).map_err(|list: Vec<T>| format!("{} values where two belong", list.len()))
    }
}
