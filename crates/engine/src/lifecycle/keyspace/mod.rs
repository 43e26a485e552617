//! Keyspaces are created, renamed, changed and dropped; a change of strategy is carried to its end.

pub(crate) mod change;
pub(crate) mod migration;
pub(crate) mod named_options;
