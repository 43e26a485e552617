//! Addresses of the command line: `HOST:PORT`, or off.

use crate::failure::Failure;
use std::net::{SocketAddr, ToSocketAddrs};

/// What an address is to turn a server off.
pub(super) const OFF: &str = "off";

/// The first address of `HOST:PORT`.
pub(super) fn resolve(option: &str, written: &str) -> Result<SocketAddr, Failure> {
    match written.to_socket_addrs().map(|mut addresses| addresses.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Failure::usage(format!("{option} {written}: no address"))),
        Err(error) => Err(Failure::usage(format!("{option} {written}: {error}"))
            .advise("write HOST:PORT, such as 127.0.0.1:8080, or off")),
    }
}
