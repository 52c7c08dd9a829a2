//! A test CA: it issues the certificates by which a controller, its hosts and its operators
//! authenticate each other.
//!
//! It is meant for trying things out and for small fabrics: one key in a file, no revocation. A fabric with its own
//! PKI does not need it; `docs/deploying.md` says what that PKI's certificates must contain.

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
