//! One command of the DSL on a database.

mod execute;
mod load;
mod range;
mod show;

pub use execute::{Begun, Executor, LongAnswer, Outcome, Progress};

/// Bytes of output after which an answer is handed on before more of it is made.
pub const PIECE_BYTES: usize = 64 << 10;
