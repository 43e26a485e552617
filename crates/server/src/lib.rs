//! Text server on top of the library's public API.
//!
//! [`serve`] listens, answers the DSL of [`esker_protocol`] and closes the database when it is told to stop.
//! The same [`dsl::Executor`] runs commands for the shell and for `esker exec`, so a command means the same
//! everywhere.
//!
//! # What holds
//! * V1. The commands of one connection are answered in order, one at a time.
//! * V2. The memory of a connection is bounded: one line of the permitted length, one read after it, and one
//!   piece of output. A client that does not read its answers is not read from. The long lines of all clients
//!   together are bounded by [`Config::long_lines_bytes`], the answers that clients do not take by
//!   [`Limits`]; a silent client holds no buffer.
//! * V3. A command is executed only when its whole line has arrived; a connection that breaks inside a line
//!   has changed nothing by it.
//! * V4. The server stops in bounded time: lines that were received are answered, the rest is not read; then
//!   the database is closed.
//! * V6. Clients leave the database the descriptors it needs: there are fewer of them where the process may
//!   open few files, and those that stay silent, or do not finish a line, are disconnected in time.
//! * V5. No file outside of the load directory is opened for `l`, whatever the path or the links on it.
//!
//! # What waits for what
//! Puts, gets and deletes take about a microsecond and never wait for the network, so they run where their
//! line was parsed; another thread would cost more than the command. A put that would stall, and the long
//! commands (`r`, `s`, `l`), run in pieces of bounded size by `block_in_place`, at most [`BLOCKING_PIECES`]
//! of a kind at a time, so that they delay only each other. Between two pieces a range holds only a snapshot
//! and the key to continue from: a client that reads slowly pins no memtable and no table.
//!
//! # Map
//! [`config`] configuration, [`limits`] what of it may change; `client_limit`, `line_memory` and
//! `unsent_answers` what clients share; [`listener`] accepts and stops, `stop` tells it to; `connection` one
//! client; [`dsl`] commands;
//! [`load_file`] which files `l` may open.

#![forbid(unsafe_code)]

mod client_limit;
pub mod config;
mod connection;
pub mod dsl;
pub mod error;
pub mod limits;
mod line_memory;
pub mod listener;
pub mod load_file;
mod stop;
mod unsent_answers;

pub use config::Config;
pub use connection::BLOCKING_PIECES;
pub use error::ServeError;
pub use limits::Limits;
pub use listener::{Listener, serve};
pub use load_file::{LoadDirectory, LoadFiles};
pub use stop::Stop;
