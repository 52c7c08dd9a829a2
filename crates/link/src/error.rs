use std::io;

use thiserror::Error;

/// The reason why a link or a port could not be created.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The loss rate is not a probability.
    #[error("a link cannot lose {0} of its frames: the loss is a probability from 0 to 1")]
    BadLoss(f64),
    /// The queue has no room for a frame.
    #[error("a link's queue holds no frame: give it room for one at least")]
    EmptyQueue,
    /// The kernel refused an event descriptor with which the sender wakes the receiver.
    #[error("no event descriptor for a link (is `ulimit -n` too low? each link takes two): {0}")]
    Doorbell(io::Error),
    /// This network namespace has no interface of this name.
    #[error("there is no network interface {name}: `ip link` lists those that there are")]
    NoInterface {
        /// The requested name.
        name: String,
    },
    /// This process may not open packet sockets.
    #[error(
        "no right to send and receive frames on {name}: \
         run as root, or give the program the right with `setcap cap_net_raw+ep`"
    )]
    NotPermitted {
        /// The requested interface.
        name: String,
    },
    /// The kernel refused a step of opening the interface.
    #[error("cannot {step} on network interface {name}: {reason}")]
    Interface {
        /// The requested interface.
        name: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's reason.
        reason: io::Error,
    },
}
