//! Network services on top of the library's public API: the text server.
//!
//! [`serve`] listens, answers the DSL of [`esker_protocol`] and closes the database when it is told to stop.
//! The same [`dsl::Executor`] runs commands for the shell and for `esker exec`, so that a command means the
//! same thing wherever it comes from.
//!
//! # What holds
//! * V1. The commands of one connection are answered in order, one at a time.
//! * V2. What a connection can make the server keep in memory is bounded: one line of the permitted length,
//!   one read after it, and one piece of output. A client that does not read its answers is not read from
//!   either.
//! * V3. A command is executed only when its whole line has come; a connection that breaks inside a line has
//!   changed nothing by it.
//! * V4. The server stops in bounded time: lines that were received are answered, the rest is not read; then
//!   the database is closed.
//! * V5. No file outside of the load directory is opened for `l`, whatever the path or the links on it.
//!
//! # What waits for what
//! Puts, gets and deletes take about a microsecond and never wait for the network, so they run where their
//! line was parsed; handing each to another thread would cost more than the command. A put that the database
//! holds back, and the commands that take long (`r`, `s`, `l`), run in pieces of bounded size on threads of
//! their own (`block_in_place`), at most [`BLOCKING_PIECES`] of a kind at a time, so that they delay only
//! each other. Between two pieces a range holds nothing but a snapshot and the key to go on from: a client
//! that reads slowly pins no memtable and no table.
//!
//! # Map
//! [`config`] what can be chosen; [`listener`] accepts and stops; `connection` one client; [`dsl`] one
//! command; [`load_file`] what `l` may open.

#![forbid(unsafe_code)]

pub mod config;
mod connection;
pub mod dsl;
pub mod error;
pub mod listener;
pub mod load_file;

pub use config::Config;
pub use connection::BLOCKING_PIECES;
pub use error::ServeError;
pub use listener::{serve, serve_until_signalled};
pub use load_file::{LoadDirectory, LoadFiles};
