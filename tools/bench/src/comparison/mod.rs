//! Compares all-reduces of several contenders over the same links.
//!
//! [`ComparisonReport::of`] turns each contender's [`Turn`]s into a row with its median, its spread and its limit. It
//! compares this project's all-reduce with the other contenders', turn by turn, and checks the project's own
//! limits ([`Gate`]) where they apply.

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
pub use report::{ComparisonReport, Row, Turn};
pub use setting::{ComparisonSetting, Elements, Skipped};
