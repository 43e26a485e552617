//! Metrics, health and the status page over HTTP: bound before the database is opened.

use super::address::{OFF, resolve};
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::host;
use esker_admin::config::DEFAULT_PORT;
use esker_admin::{Config, Listener, Sources, Stop, Token};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};

/// What is to be served over HTTP.
#[derive(Debug)]
pub(super) struct AdminPlan {
    config: Config,
    /// Whether the address is the default one, which another server of this machine may have.
    is_default: bool,
    /// Whether clients must come with TLS.
    pub(super) has_tls: bool,
}

impl AdminPlan {
    /// What the arguments say; `None` if it is off. In the place of redis-server it is off unless asked for.
    pub(super) fn new(args: &ServeArgs) -> Result<Option<AdminPlan>, Failure> {
        let address = match args.admin.as_deref() {
            Some(OFF) => None,
            Some(written) => Some(resolve("--admin", written)?),
            None if !args.redis_conf.is_empty() => None,
            None => Some((Ipv4Addr::LOCALHOST, DEFAULT_PORT).into()),
        };
        let Some(address) = address else {
            if args.admin_token_file.is_some() || !args.admin_host.is_empty() || args.admin_tls {
                return Err(Failure::usage(
                    "--admin-token-file, --admin-host and --admin-tls set nothing, because --admin is off",
                ));
            }
            return Ok(None);
        };
        let token = args.admin_token_file.as_ref().map(|file| {
            let token = Token::new(&host::content_of(file)?);
            token.map_err(|reason| Failure::usage(format!("--admin-token-file {}: {reason}", file.display())))
        });
        let config = Config { address, token: token.transpose()?, host_names: args.admin_host.clone() };
        if config.is_unprotected() {
            let message =
                format!("--admin {address} can be reached from other machines, which needs a token");
            return Err(Failure::usage(message).advise("name a file with one by --admin-token-file FILE"));
        }
        Ok(Some(AdminPlan { config, is_default: args.admin.is_none(), has_tls: args.admin_tls }))
    }

    /// What requests must know.
    pub(super) fn token(&self) -> Option<&Token> {
        self.config.token.as_ref()
    }
}

/// Binds the address; `None` if it is the default one and in use: figures are not worth a server that does
/// not start.
pub(super) fn bind(plan: &AdminPlan) -> Result<Option<Listener>, Failure> {
    let address = plan.config.address;
    match Listener::bind(plan.config.clone()) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if plan.is_default && error.kind() == ErrorKind::AddrInUse => {
            tracing::warn!("metrics and the status page are not served: {address} is in use; see --admin");
            Ok(None)
        }
        Err(error) => {
            let failure = Failure::system(format_args!("cannot listen on {address} for metrics"), &error);
            Err(failure.advise("choose another address with --admin HOST:PORT, or --admin off"))
        }
    }
}

/// What the others know of the server while it serves. It ends the server when it is dropped.
#[derive(Debug)]
pub(super) struct Serving {
    address: SocketAddr,
    has_tls: bool,
    pub(super) stop: Stop,
}

impl Serving {
    pub(super) fn of(listener: &Listener, has_tls: bool) -> Result<Serving, Failure> {
        let address = listener.address();
        let address = address.map_err(|error| Failure::system("cannot read an address", &error))?;
        Ok(Serving { address, has_tls, stop: listener.stop() })
    }

    /// Where the status page is.
    pub(super) fn url(&self) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Serves until it is stopped. A failure is told to the log: the other servers go on without it.
pub(super) fn serve(listener: Listener, sources: Sources) {
    if let Err(error) = listener.serve(sources) {
        tracing::error!(%error, "metrics and the status page are not served");
    }
}
