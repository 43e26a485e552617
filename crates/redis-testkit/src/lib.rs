//! What tests of the Redis crates share: servers to compare, a client, and randomness from a seed.
//!
//! # Map
//!
//! [`server`] starts `redis-server` 7.0.15 or `esker serve` as a process in a directory of its own and ends
//! it; [`client`] sends requests and reads replies as trees and as bytes, over a [`stream`], which may have
//! TLS; [`certificates`] makes authorities and certificates; [`random`] generates numbers and strings from
//! `ESKER_SEED`.

#![forbid(unsafe_code)]

pub mod certificates;
pub mod client;
pub mod differential;
pub mod random;
pub mod server;
pub mod stream;

pub use client::{Client, ExpectKind, encode};
pub use random::Random;
pub use server::Server;
pub use stream::Stream;
