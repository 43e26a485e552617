//! Keyspaces are created, renamed, changed and dropped; a change of strategy is carried to its end.

pub mod change;
pub mod named_options;
