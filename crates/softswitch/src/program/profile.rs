//! Action profiles, as the program declares them.

use super::calculation::Calculation;

/// A profile, as the program declares it.
#[derive(Debug, Clone)]
pub(crate) struct ProfileProgram {
    /// The profile's name, for messages.
    pub(crate) name: String,
    /// The hash that chooses between a group's members; `None` if the profile has no groups.
    pub(crate) selector: Option<Calculation>,
    /// The tables that refer to the profile.
    pub(crate) tables: Vec<usize>,
}
