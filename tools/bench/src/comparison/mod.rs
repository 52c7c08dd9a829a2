//! Compares all-reduces of several contenders over the same links.
//!
//! [`Report::of`] turns each contender's [`Turn`]s into a row with its median, its spread and its limit, and compares
//! this project's all-reduce with the others', turn by turn. It checks the limits that the project sets itself
//! ([`Gate`]) where they apply.

mod contender;
mod gates;
mod limit;
mod machine;
mod ratios;
mod report;
mod setting;

pub use contender::{Case, Contender};
pub use gates::Gate;
pub use limit::Limit;
pub use machine::Machine;
pub use ratios::Ratios;
pub use report::{Report, Row, Turn};
pub use setting::{Setting, Skipped};
