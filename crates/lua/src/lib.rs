//! Scripts and functions of Redis 7.0, without sockets and without a store.
//!
//! EVAL and FUNCTION run Lua 5.1 in an environment of which scripts of all users share the parts that they
//! cannot change. Lua itself is that of `lua-5.1.5/`: its sources with the patches beside them, each of which
//! says what it is for. The libraries that C code had long been attacked through, `cjson`, `cmsgpack`,
//! `struct` and `bit`, are written in Rust.
//!
//! Invariants:
//! * LU1. A script can be ended: the host is asked about every millisecond whether it may go on, nothing
//!   catches the error that ends it, and no function works for long without asking.
//! * LU2. A script has bounded memory: values of Lua, texts that functions of Rust make, and replies each
//!   have a limit in [`Limits`].
//! * LU3. A script leaves nothing behind that another one meets: globals, metatables, settings, finalizers.
//!
//! Behaviour and error texts are those of Redis 7.0.15 with its security fixes, which removed `newproxy`,
//! `getfenv` and `setfenv`. What differs: a script may be ended that has written, settings of `cjson` last
//! for one script, replies are nested at most 1,000 deep, and `os.clock` is there as in later versions.
//!
//! # Map
//!
//! [`engine`] runs [`script`]s and [`library`]s for a [`host`]; [`scripts`] and [`libraries`] are what a
//! server keeps of them for all its threads. Inside: `vm` makes the environment, `api` the table `redis`,
//! `register` takes functions of libraries, `define` and `raise` make functions of Rust into functions of
//! scripts; `reply_to_lua` and `lua_to_reply` turn replies into values and back. `bridge` has the unsafe
//! code, `glue/glue.c` what only C may do. [`fuzz`] has the targets of fuzzers.

mod api;
mod bit;
mod bridge;
mod cjson;
mod cmsgpack;
mod define;
pub mod engine;
pub mod flags;
pub mod fuzz;
pub mod host;
mod json_settings;
pub mod libraries;
pub mod library;
mod lru;
mod lua_to_reply;
mod numbers;
mod packed_struct;
mod raise;
mod random;
mod register;
mod reply_to_lua;
pub mod script;
pub mod scripts;
mod state;
mod vm;

pub use engine::{Engine, Invocation, Limits};
pub use flags::Flags;
pub use host::{Host, LogLevel};
pub use libraries::{Libraries, RestorePolicy};
pub use library::{Library, LibraryFunction};
pub use script::{Script, Sha1Hex, sha1_hex};
pub use scripts::Scripts;
