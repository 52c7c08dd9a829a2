//! Helpers for jobs whose packets cross real interfaces: recording, forging, and sending frames.

pub(crate) mod forger;
pub(crate) mod frames;
pub(crate) mod mutants;
pub(crate) mod network;
pub(crate) mod played;
pub(crate) mod sending;
pub(crate) mod team;
