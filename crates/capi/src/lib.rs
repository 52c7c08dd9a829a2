//! The C library `libtributary`. `include/tributary.h` documents its functions.
//!
//! `functions.rs` has the functions, which check pointers. All other files are safe code, except for copies from and to
//! the caller's memory.

mod error;
mod functions;
mod job;
mod memory;
mod request;
mod runtime;
