//! Messages, clients and server skeletons of `esker.v1`, generated from `proto/esker/v1/esker.proto`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

#[path = "generated/esker.v1.rs"]
#[rustfmt::skip]
mod esker_v1;

pub use esker_v1::*;

/// The descriptors of the service, as reflection tells them.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/esker.v1.bin");
