//! An embedded v1model switch that interprets p4c's output and serves P4Runtime.
