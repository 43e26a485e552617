//! Protocols without input or output: the CS265 text DSL.
//!
//! Bytes become commands; results become answer bytes. Nothing here opens a socket or a file or knows the
//! database, so the server, the shell and `esker exec` share one grammar, and a fuzzer can drive it.
//!
//! # The language
//!
//! | command | meaning | answer |
//! |---|---|---|
//! | `p K V` | put | `OK` |
//! | `g K` | get | the value; an empty line if there is none |
//! | `r A B` | the pairs with A <= key < B | `K:V K:V ...`; an empty line if there are none |
//! | `d K` | delete | `OK` |
//! | `l "FILE"` | load a file of little-endian 32-bit pairs | `OK` |
//! | `s [LIMIT]` | show counts and contents by level | several lines, the last one empty |
//! | `use [KEYSPACE]` | work on another keyspace | `OK` |
//! | `q` | close this connection | nothing |
//!
//! K, V, A and B are signed 64-bit integers or strings in double quotes, which may contain spaces and the
//! escapes `\"`, `\\`, `\n`, `\t` and `\xHH`. Words are separated by spaces or tabs. A command is one line;
//! an error is answered by one line that starts with `Error:`, and the conversation goes on. A line of HTTP
//! ends it, so that no web page can write to a server on the machine of its reader ([`is_http`]). Lines of
//! white space get no answer.
//!
//! A conversation begins with the protocol's own pairs, of which integers and strings are apart. After
//! `use KEYSPACE`, with a name that is bare or in double quotes, it reads and writes the pairs of that
//! keyspace that other interfaces see: keys and values are strings there, and an integer stands for its
//! decimal digits, so that `r` goes by the order of strings. The keyspace must exist. `use` alone goes back.
//!
//! # Map
//!
//! [`scalar`] what a key or a value can be; [`layout`] how a keyspace stores it; [`command`] parses a line;
//! [`answer`] formats answers; [`lines`] cuts a byte stream into lines of bounded length; [`pairs`] decodes
//! the file that `l` loads.

#![forbid(unsafe_code)]

pub mod answer;
pub mod command;
mod http;
pub mod layout;
pub mod lines;
pub mod pairs;
mod parse_error;
pub mod scalar;
mod words;

pub use command::{Command, ParseError, is_blank, parse_line};
pub use http::is_http;
pub use layout::Layout;
pub use lines::{Line, LineBuffer};
pub use scalar::{Kind, Scalar, ScalarRef};
