/// The job continues without this worker for now, since its process is much slower than the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The generation from which on it is not a member.
    pub generation: u32,
    /// True if the other members process its data, too; otherwise the data is left out.
    pub data_adopted: bool,
    /// The reason, as text.
    pub reason: String,
}
