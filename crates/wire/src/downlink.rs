//! The routes that results take.

/// The route that results take from the server to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Downlink {
    /// The server sends one copy to the job's multicast group, and the switches replicate it.
    #[default]
    Multicast,
    /// The server sends one copy to each worker, with its own hop stack.
    Unicast,
}
