//! A server that speaks the protocol of Redis, on an Esker database.
//!
//! # Map
//! [`server`] what all threads share; `clients` the connected ones, `client_line` one of them as CLIENT LIST
//! writes it; `access` users, `users` their rights beyond Redis, `access_changes` what their changes end;
//! `watches` keys of WATCH, `tracking` keys that clients cache; `waiting` blocked clients;
//! `config` directives, `settings` what they change, `tls` what they say of certificates and
//! `tls_changes` how that is replaced; `statistics` counters, `rates` how fast they grow;
//! `observed` what is noted of commands, and `observer` what a thread notes; [`figures`] tells programs
//! all of that;
//! `pubsub` channels; `keyspace_events` changes as messages; `session` one client's state; `command_kinds`
//! what the executor asks of each command; `call` one call of a command; `reply_tree` replies from the
//! command table; `commands` the handlers by family; `failure` errors; `key_cursors` where scans of keys go
//! on; `execute` checks, groups and transactions; [`local_client`] a client within the process; `net` sockets
//! and threads; `checkpoints` copies of the data; `shutdown` is how a command stops the server; `stop` ends
//! the server; `start` the configuration at start, `start_check` what a start would refuse, `reconfigure` a
//! configuration that is read later; `log_level` what
//! `loglevel` sets; `flusher` flushes the log; `background` deletes what has
//! expired; `pausing` commands that CLIENT PAUSE holds back; `file_limit` descriptors for clients;
//! `rebinding` where commands ask for other addresses, and `address_changes` how CONFIG SET does.

#![forbid(unsafe_code)]

mod access;
mod access_changes;
mod address_changes;
mod background;
mod call;
mod checkpoints;
mod checks;
mod client_line;
mod clients;
mod command_kinds;
mod commands;
mod config;
mod execute;
mod failure;
pub mod figures;
mod file_limit;
mod flusher;
mod held_messages;
mod key_cursors;
mod key_uses;
mod keyspace_events;
pub mod local_client;
mod log_level;
mod net;
mod observed;
mod observer;
mod pausing;
mod pubsub;
mod rates;
mod rebinding;
mod reconfigure;
mod reply_tree;
mod script_log;
mod scripts;
pub mod server;
mod session;
mod settings;
mod start;
mod start_check;
mod statistics;
mod stop;
mod tls;
mod tls_changes;
mod tracking;
mod users;
mod waiting;
mod watches;

pub use net::listen_error::ListenError;
pub use net::listener::{ListenConfig, Listener};
pub use net::tcp_listener::TcpAddress;
pub use net::unix_listener::UnixAddress;
pub use reconfigure::ChangedDirectives;
pub use start::{ReadFile, StartConfig};
pub use stop::Stop;
pub use users::UserRights;
