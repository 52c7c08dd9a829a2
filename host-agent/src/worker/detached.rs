/// The job goes on without this worker for now, since its process is much slower than the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The generation in which it is not in any more.
    pub generation: u32,
    /// The others process its process's data, too; else nobody does.
    pub data_adopted: bool,
    /// Why, in words.
    pub reason: String,
}
