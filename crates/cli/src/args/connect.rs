//! `--connect`: where a command is executed instead of here, and how its server is trusted.

use clap::Args;
use std::path::PathBuf;

/// TLS of `--connect HOST:PORT`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClientTlsArgs {
    /// Ask HOST:PORT over TLS, for `serve --admin-tls`
    #[arg(long, global = true, requires = "connect")]
    pub(crate) tls: bool,
    /// File with the authority of the server's certificate, as PEM [default: those that the system trusts]
    #[arg(long, global = true, value_name = "FILE", requires = "tls")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Certificate to show to a server that asks for one, as PEM
    #[arg(long, global = true, value_name = "FILE", requires_all = ["tls", "tls_key"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, global = true, value_name = "FILE", requires_all = ["tls", "tls_cert"])]
    pub(crate) tls_key: Option<PathBuf>,
}

/// What `--connect` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Connect {
    /// A server: of the text protocol for the shell, else over HTTP.
    Server(String),
    /// The control socket of a process that has a database open, or the directory of that database.
    Socket(PathBuf),
}

impl Connect {
    /// Reads `HOST:PORT`, or a path, which has a slash.
    pub(super) fn parse(text: &str) -> Result<Connect, String> {
        if text.contains('/') {
            return Ok(Connect::Socket(PathBuf::from(text)));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Connect::Server(text.to_owned()))
            }
            _ => Err("write HOST:PORT, or a path with a slash, such as ./esker-data".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_told_apart() {
        for server in ["127.0.0.1:8080", "localhost:1", "[::1]:8080"] {
            assert_eq!(Connect::parse(server), Ok(Connect::Server(server.to_owned())));
        }
        for path in ["./esker-data", "/srv/db/control.sock", "/a:1"] {
            assert_eq!(Connect::parse(path), Ok(Connect::Socket(path.into())));
        }
        for wrong in ["", "esker-data", "host", ":8080", "host:", "host:70000", "host:http"] {
            assert!(Connect::parse(wrong).is_err(), "{wrong}");
        }
    }
}
