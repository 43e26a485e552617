//! Execution: requests become checked calls, calls become groups, groups become batches.
//!
//! Map: [`group`] decides which command comes next and where groups begin, `look_ahead` looks records up
//! together, `calling` calls handlers, `group_end` writes batches; `stripes` takes locks, [`transaction`] is
//! EXEC, `paused` is CLIENT PAUSE, `woken` serves clients that wait for keys.

mod calling;
pub(crate) mod group;
mod group_end;
mod look_ahead;
mod paused;
pub(crate) mod requests;
mod stripes;
pub(crate) mod transaction;
mod woken;
