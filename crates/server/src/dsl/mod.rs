//! Commands of the DSL on a database.

mod execute;
mod load;
mod range;
mod show;

pub use execute::{Begun, Executor, LongAnswer, Outcome, Progress};

/// Bytes of output that form one piece of an answer.
pub const PIECE_BYTES: usize = 64 << 10;
