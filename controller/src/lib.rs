//! The controller: jobs, slots, and the tables of every switch.
