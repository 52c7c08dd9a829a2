//! What commands have in common: options, tables and drawings for people, and how they ask the controller.

pub mod controller;
pub mod drawing;
pub mod options;
pub mod output;
pub mod switches;
