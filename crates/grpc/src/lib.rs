//! gRPC server and messages of Esker, by the library's public API.
//!
//! [`Listener`] serves the services `esker.v1.KeyValue` and `esker.v1.Admin`, health and reflection;
//! [`proto`] has the messages and the clients of both, generated from `proto/esker/v1/esker.proto`.
//!
//! # What holds
//! NG1 and NG2 say what messages hold ([`held_bytes`]), NG3 and NG4 when streams wait and end ([`stream`]),
//! NG5 to NG7 how long snapshots live ([`snapshots`]), NG8 and NG9 where calls run ([`pools`]), NG10 and NG11
//! how writes wait ([`writes`]).
//!
//! # What waits for what
//! A get that memory can answer, and a small write, run where their request was decoded: another thread would
//! cost more than the call. What would read a file, flush the log or take long goes to a thread of a pool.
//! A write that would be held back holds no thread while it waits. A scan goes to a thread page by page.
//!
//! # Map
//! [`config`] limits; [`listener`] accepts and stops, `stop` tells it to; `connection` one client, `preface`
//! its beginning; `dispatch` from paths to services; [`access`] what callers may do, `tokens` one way to know
//! them; `call` one call, `deadline` its end; `status` errors; `requests` what messages say; `held_bytes`,
//! `pools` and `snapshots` what all calls share, gathered in `shared`; `key_value` and `admin` the services;
//! `writes`, `scan` with `resume_token`, `changes` and `stream` parts of the first, `reports` of the second.

#![forbid(unsafe_code)]

pub mod access;
mod admin;
mod call;
mod changes;
pub mod config;
mod connection;
mod deadline;
mod dispatch;
pub mod error;
mod held_bytes;
mod key_value;
pub mod listener;
mod pools;
mod preface;
pub mod proto;
mod reports;
mod requests;
mod resume_token;
mod scan;
mod shared;
mod snapshots;
mod status;
mod stop;
mod stream;
mod tokens;
mod writes;

pub use access::{Access, Credentials, Open, Rights};
pub use config::Config;
pub use error::ServeError;
pub use listener::Listener;
pub use stop::Stop;
pub use tokens::Tokens;
