//! The aggregation protocol: worker and server as state machines without I/O or clocks.
