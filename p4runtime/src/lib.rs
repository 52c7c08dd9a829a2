//! P4Runtime messages and a small client session.
