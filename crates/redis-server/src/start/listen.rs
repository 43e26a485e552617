//! Addresses, ports and threads of the listener, from the directives of the configuration at start.

use super::StartConfig;
use crate::net::listener::ListenConfig;
use crate::net::tcp_listener::{TcpAddress, with_port};
use crate::net::unix_listener::UnixAddress;
use crate::rebinding::hosts;
use std::net::{Ipv4Addr, SocketAddr};

/// The port of Redis.
const DEFAULT_PORT: u16 = 6379;

impl StartConfig {
    /// Where and how to listen.
    ///
    /// # Errors
    /// A sentence with the directive whose value is no address, port or mode.
    pub fn listen(&self) -> Result<ListenConfig, String> {
        let default = ListenConfig::default();
        let port = self.port("port")?.unwrap_or(DEFAULT_PORT);
        let tls_port = self.port("tls-port")?.unwrap_or_default();
        if port == tls_port && port != 0 {
            return Err(format!(
                "port and tls-port are both {port}; one of them must be another, or 0 for none"
            ));
        }
        let addresses = |port| if port == 0 { Ok(Vec::new()) } else { self.addresses(port) };
        let unix = match self.text("unixsocket") {
            None => None,
            Some(path) => Some(UnixAddress { path: path.into(), mode: self.unix_mode()? }),
        };
        let backlog = self.number("tcp-backlog").unwrap_or(default.backlog.into());
        let io_threads =
            self.number("io-threads").map_or(default.io_threads, |count| count.clamp(1, 128) as usize);
        Ok(ListenConfig {
            tcp: addresses(port)?,
            tls: addresses(tls_port)?,
            unix,
            backlog: backlog.clamp(1, i32::MAX.into()) as i32,
            io_threads,
            ..default
        })
    }

    fn port(&self, name: &str) -> Result<Option<u16>, String> {
        let convert = |port| u16::try_from(port).map_err(|_| format!("{name}: {port} is no port"));
        self.number(name).map(convert).transpose()
    }

    /// The mode of the Unix socket: octal digits.
    fn unix_mode(&self) -> Result<Option<u32>, String> {
        let Some(digits) = self.text("unixsocketperm").filter(|digits| digits != "0") else {
            return Ok(None);
        };
        match u32::from_str_radix(&digits, 8) {
            Ok(mode) if mode <= 0o777 => Ok(Some(mode)),
            _ => Err(format!("unixsocketperm: {digits} is no mode, such as 700")),
        }
    }

    /// The addresses of `bind` with this port; loopback without it.
    fn addresses(&self, port: u16) -> Result<Vec<TcpAddress>, String> {
        let Some(text) = self.text("bind") else {
            return Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()]);
        };
        Ok(with_port(&hosts(&text)?, port))
    }
}
