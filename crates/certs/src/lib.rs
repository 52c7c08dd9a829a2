//! A test CA. It issues the certificates by which a controller, hosts and operators authenticate each
//! other.
//!
//! It is meant for experiments and for small fabrics: it has one key in a file, and cannot revoke certificates. A
//! fabric with its own PKI does not need it. `docs/deploying.md` describes the certificates that such a PKI must issue.

mod authority;
mod error;
mod name;
mod subject;
mod validity;

pub use authority::{Authority, Issued};
pub use error::AuthorityError;
pub use name::Name;
pub use subject::Subject;
pub use validity::Validity;
