//! A discrete-event simulation of the protocol on a virtual clock.
