//! Access control lists: users, their passwords, and the commands, keys and channels they may use.
//!
//! A [`User`] has passwords and selectors; a [`Selector`] allows commands, keys and channels. A command is
//! allowed if one selector allows all of it ([`User::check`]). [`Users`] is the set of users; rules change it
//! all or nothing ([`Users::set_user`]), it is written as lines of a file and read from them
//! ([`Users::load`], [`Users::save`]). [`Log`] keeps what was denied.
//!
//! ```
//! use esker_redis_commands::acl::{Denied, Users};
//! use esker_redis_commands::find;
//!
//! let mut users = Users::new(false);
//! users.set_user(b"ann", &["on", ">secret", "~colour:*", "+@read"]).unwrap();
//! assert!(users.authenticate(b"ann", b"secret"));
//! let ann = users.user(b"ann").unwrap();
//! let get = find(b"get").unwrap();
//! assert_eq!(ann.check(get, &["GET", "colour:1"], &mut Vec::new()), Ok(()));
//! assert_eq!(ann.check(get, &["GET", "taste:1"], &mut Vec::new()), Err(Denied::Key(1)));
//! ```
//!
//! # Differences from Redis
//!
//! * Commands in a description come in the order of the table, not of a hash table.
//! * A pattern with an embedded NUL is compared as a whole, where Redis compares literal channel patterns up
//!   to the NUL.
//! * A file with a selector that is not closed is refused, where Redis 7.0 ends.
//! * What is written can be read again: a first argument with white space is refused, and so are a quote or a
//!   final `)` in a rule of a selector; `%RW~*` before other patterns is written as it is.
//! * The log keeps the first 4 KiB of an object or a user's name.

mod auth;
mod check;
mod command_set;
mod describe;
mod file;
mod log;
mod ordered;
mod replies;
mod rule;
mod selector;
mod sha256;
mod user;
mod users;

pub use auth::WRONG_PASSWORD;
pub use check::Denied;
pub use log::{Context, Event, Log, Reason};
pub use replies::{category_list, genpass};
pub use rule::RuleError;
pub use selector::{Access, Selector};
pub use user::User;
pub use users::Users;
