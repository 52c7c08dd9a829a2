//! The controller: jobs, slots, and the tables of every switch.

mod ids;
mod slots;
mod token;
