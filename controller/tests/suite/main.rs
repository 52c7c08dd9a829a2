//! The controller's tests, in one program, because each separate program would take half a minute to
//! compile.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "a test that cannot go on has failed")]

mod access;
mod attacks;
mod bmv2;
mod bounds;
mod common;
mod counters;
mod degraded;
mod forgery;
mod generations;
mod groups;
mod jobs;
mod journal;
mod profiles;
mod programs;
mod queue;
mod shared_host;
mod splitter;
mod start;
mod switch_contents;
mod switches;
mod unreachable;
mod wire;
