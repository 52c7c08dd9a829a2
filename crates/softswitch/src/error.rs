//! Errors of loading a program, of a control plane's request, and of a switch.

/// The reason why a program was refused. The text names the place in the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The text is not JSON, or lacks something that every BMv2 JSON has.
    #[error("the BMv2 JSON cannot be read: {0}; compile the program again with p4c-bm2-ss")]
    Json(String),
    /// The JSON refers to something it does not define, or contradicts itself.
    #[error(
        "{place}: {problem}; the JSON is damaged, or p4c means something by it that this switch does not know: compile the \
         program again with p4c-bm2-ss, and report it if that changes nothing"
    )]
    Malformed {
        /// The place in the program.
        place: String,
        /// The fault at this place.
        problem: String,
    },
    /// The program uses something that this switch does not support.
    #[error("{place}: {what} is not supported by this switch")]
    Unsupported {
        /// The place in the program.
        place: String,
        /// The unsupported construct.
        what: String,
    },
    /// The P4Info cannot be used.
    #[error(transparent)]
    P4Info(#[from] tributary_p4runtime::p4info::P4InfoError),
    /// The JSON and the P4Info belong to different programs.
    #[error("the BMv2 JSON and the P4Info differ: {0}; give the two files of one compilation")]
    Differs(String),
}

/// The reason why a request of the control plane was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// No program has been committed yet.
    #[error("the switch has no pipeline: set a forwarding pipeline config first")]
    NoPipeline,
    /// The P4Info has no such id.
    #[error("the P4Info has no {what} with id {id:#x}")]
    UnknownId {
        /// Kind of object.
        what: &'static str,
        /// The requested id.
        id: u32,
    },
    /// The object to modify, delete or read does not exist.
    #[error("{0} is not there")]
    NotFound(String),
    /// The object to insert already exists.
    #[error("{0} is there already: modify it instead")]
    AlreadyExists(String),
    /// The request contradicts the program: a wrong width, a missing field, an action of another table.
    #[error("{place}: {problem}")]
    InvalidArgument {
        /// Table, action or group.
        place: String,
        /// The fault of the request.
        problem: String,
    },
    /// The table already holds its maximum number of entries.
    #[error("table {table} is full: it has room for {size} entries")]
    Full {
        /// The table.
        table: String,
        /// The maximum number of entries.
        size: usize,
    },
    /// Another object refers to the object to delete.
    #[error("{0} is in use: remove what refers to it first")]
    InUse(String),
    /// The program fixed the object at compile time, so it cannot be changed.
    #[error("{0} is constant: the program does not let the control plane change it")]
    Constant(String),
    /// An index is beyond the end of an array.
    #[error("{what} has {size} cells: there is no index {index}")]
    OutOfRange {
        /// The array.
        what: String,
        /// The requested index.
        index: i64,
        /// The number of cells of the array.
        size: usize,
    },
    /// The switch's thread has ended.
    #[error("the switch has been shut down")]
    Stopped,
}

/// The reason why a switch could not be started, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// A port's number is too large. Ports are 9 bits wide, and the highest number means drop.
    #[error("there is no port {0}: ports go from 0 to 510")]
    NoSuchPort(u16),
    /// Two links, or a link and the controller, have the same number.
    #[error("port {0} is taken: each link needs a number of its own, and not the CPU port's")]
    PortTaken(u16),
    /// The operating system cannot wait for frames of a port.
    #[error("port {port} cannot be waited for: {reason}")]
    Register {
        /// The port's number.
        port: u16,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// The operating system offers no way to wait for ports.
    #[error("no means to wait for ports (is `ulimit -n` too low?): {0}")]
    Poll(std::io::Error),
    /// The operating system could not create the thread.
    #[error("the switch's thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// The P4Runtime server could not be started.
    #[error(transparent)]
    Server(#[from] crate::server::ServerError),
    /// The switch's thread has panicked, which is a bug of this program.
    #[error("the switch's thread has panicked: see the log, and report it")]
    Panicked,
}
