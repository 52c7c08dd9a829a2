/// The state of a worker without which the job continues, because its process is much slower than the
/// others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The first generation of which the worker is not a member.
    pub generation: u32,
    /// True if the other members also process the worker's data; false if its data is left out.
    pub data_adopted: bool,
    /// The reason, as text.
    pub reason: String,
}
