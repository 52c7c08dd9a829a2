//! A test CA: it makes the certificates with which a controller, its hosts and its operators know each other.
//!
//! It is a CA for trying things out and for small fabrics: one key in a file, no revocation. A fabric with a PKI
//! of its own needs none of it; what its certificates have to say is in `docs/deploying.md`.

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
