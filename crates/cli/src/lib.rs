//! Parts that commands share: options, tables and drawings for users, and calls to the controller.

pub mod controller;
pub mod drawing;
pub mod options;
pub mod output;
pub mod ranks;
pub mod states;
pub mod switches;
