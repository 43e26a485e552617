//! The Redis protocol and the text formats around it, without input or output.
//!
//! Bytes become requests; results become reply bytes. Nothing here opens a socket or a file, starts a
//! thread or knows the database. Behaviour, limits and error texts are those of Redis 7.0.15; where they
//! differ, the module says so.
//!
//! Invariants:
//! * **No panic and no unbounded memory from bytes.** What is announced is checked against a limit before
//!   memory is asked for, and nothing recurses as deep as its input says.
//! * **Linear time.** Requests and replies are read once, however they arrive; patterns take at most the
//!   product of their lengths.
//! * **No line from users.** Nothing that a user wrote can add a line to a reply.
//!
//! # Map
//!
//! [`request`] parses requests in the connection's buffer, within [`limits`], or ends the connection by a
//! [`protocol_error`]; [`writer`] writes replies in both protocols; [`value_parser`] reads replies into
//! [`value`], as a client does. Numbers: [`integer`], [`double`], [`long_double`] (`INCRBYFLOAT`),
//! [`memory_size`]. [`glob`] matches patterns, [`quoting`] takes quoted words apart, [`redis_conf`] reads
//! configuration files, [`fuzz`] has the targets.

#![forbid(unsafe_code)]

pub mod double;
mod exact_decimal;
pub mod fuzz;
pub mod glob;
pub mod integer;
pub mod limits;
mod line_search;
pub mod long_double;
pub mod memory_size;
pub mod protocol_error;
pub mod quoting;
pub mod redis_conf;
pub mod request;
pub mod value;
pub mod value_parser;
pub mod writer;
