use thiserror::Error;

/// The reason why a P4Info cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum P4InfoError {
    /// The text is not a P4Info in protobuf's text format: it is the wrong file, or comes from a newer p4c.
    #[error("not a P4Info in text format: {0}")]
    Syntax(String),
    /// An object has no preamble, so it has neither a name nor an id.
    #[error("a {kind} of the P4Info has no preamble")]
    NoPreamble {
        /// The kind of object.
        kind: &'static str,
    },
    /// Two objects share an id.
    #[error("the {kind} {name} of the P4Info has the id {id:#010x} of another one")]
    DuplicateId {
        /// The kind of object.
        kind: &'static str,
        /// The name of the second object.
        name: String,
        /// The id.
        id: u32,
    },
    /// Two objects of a kind share a name or an alias.
    #[error("two {kind}s of the P4Info are called {name}")]
    DuplicateName {
        /// The kind of object.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// An object refers to an object that is missing.
    #[error("{place} of the P4Info refers to the {kind} {id:#010x}, which is not in it")]
    Dangling {
        /// The object that refers to the missing object.
        place: String,
        /// The kind of the missing object.
        kind: &'static str,
        /// The missing object's id.
        id: u32,
    },
    /// A number is impossible, such as a width of 0 bits.
    #[error("{place} of the P4Info has {what}")]
    Senseless {
        /// The object or field.
        place: String,
        /// The problem with the number.
        what: String,
    },
}
