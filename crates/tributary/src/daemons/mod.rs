//! The daemons controller, switch, agent and server, each of which runs until a signal stops it.

pub(crate) mod agent;
pub(crate) mod controller;
mod http;
mod member;
pub(crate) mod metrics;
pub(crate) mod page;
mod parameter_server;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod switch;
