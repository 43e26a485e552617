//! The commands of Redis 7.0.15 as data, and those of Esker beside them, without input or output.
//!
//! A server looks a command up ([`find`], [`resolve`]), asks which of its arguments are keys ([`keys()`]) and
//! channels ([`Channels`]), and whether a user may run it ([`acl`]). It answers `COMMAND` from the same table
//! ([`describe`]). Everything takes bytes and returns values; nothing reads a file, a clock or randomness.
//!
//! ```
//! use esker_redis_commands::{KeyRef, find, keys};
//!
//! let set = find(b"SET").unwrap();
//! assert_eq!((set.name(), set.arity()), ("set", -3));
//! let mut found: Vec<KeyRef> = Vec::new();
//! keys(set, &["set", "colour", "green", "get"], &mut found);
//! assert_eq!(found[0].position, 1);
//! ```
//!
//! # Map
//!
//! [`command`] what is known of a command, [`table`] the table, which is text, and its index;
//! [`Names`] the names that a server gives them; [`keys()`] the
//! positions of keys, by specifications and by the rules of single commands; [`channel`] the positions of
//! channels; [`reply`] a tree for a reply writer; [`describe`] the replies of `COMMAND`; [`acl`] users,
//! rules, checks, the log and the file; [`fuzz`] targets. Patterns, integers and quoted words are those of
//! [`esker_resp`].
//!
//! # Limits
//!
//! No function panics on any bytes or takes memory for a count that a client names: positions of keys are
//! at most as many as there are arguments.

#![forbid(unsafe_code)]

pub mod acl;
pub mod channel;
pub mod command;
pub mod describe;
mod flags;
pub mod fuzz;
mod key_rule;
pub mod key_spec;
mod keys;
mod names;
pub mod reply;
pub mod table;
mod text;

pub use channel::Channels;
pub use command::Command;
pub use flags::{Categories, CommandFlags, KeyFlags};
pub use key_spec::KeyRef;
pub use keys::{has_keys, keys};
pub use names::{Names, RenameError};
pub use reply::Reply;
pub use table::{find, find_full, resolve};
