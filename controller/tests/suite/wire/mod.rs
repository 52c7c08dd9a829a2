//! Jobs whose packets cross real interfaces, and what is seen, forged and sent there.

pub(crate) mod forger;
pub(crate) mod frames;
pub(crate) mod mutants;
pub(crate) mod network;
pub(crate) mod played;
pub(crate) mod sending;
pub(crate) mod team;
