//! The server of gRPC: bound before the database is opened, and the callers that it knows.

use super::address::{OFF, resolve};
use crate::args::{Global, ServeArgs};
use crate::commands::configured;
use crate::failure::Failure;
use crate::host;
use esker_grpc::{Access, Config, Credentials, Listener, Open, Rights, ServeError, Tokens};
use esker_redis_server::server::Server;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The server of gRPC.
#[derive(Debug)]
pub(super) struct GrpcPlan {
    config: Config,
    tokens: Option<Tokens>,
    /// Whether clients must come with TLS.
    pub(super) has_tls: bool,
}

impl GrpcPlan {
    /// What the arguments say, and the files that they name; `None` if it is off.
    pub(super) fn new(args: &ServeArgs) -> Result<Option<GrpcPlan>, Failure> {
        let Some(written) = args.grpc.as_deref().filter(|written| *written != OFF) else {
            if args.grpc_token_file.is_some() || args.grpc_copies.is_some() || args.grpc_tls {
                return Err(Failure::usage(
                    "--grpc-token-file, --grpc-copies and --grpc-tls say nothing, because --grpc is off",
                ));
            }
            return Ok(None);
        };
        let address = resolve("--grpc", written)?;
        let tokens = args.grpc_token_file.as_deref().map(tokens).transpose()?;
        if let Some(copies) = &args.grpc_copies
            && !copies.is_dir()
        {
            return Err(Failure::usage(format!(
                "--grpc-copies {}: there is no such directory",
                copies.display()
            )));
        }
        let config = Config { address, copies: args.grpc_copies.clone(), ..Config::default() };
        Ok(Some(GrpcPlan { config, tokens, has_tls: args.grpc_tls }))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.config.address
    }

    /// What callers may show instead of a password.
    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Listens; writes are as durable as the options of the database say.
    pub(super) fn bind(&self, global: &Global) -> Result<Listener, Failure> {
        let config = Config { durability: configured(global)?.durability, ..self.config.clone() };
        Listener::bind(config).map_err(|error| failed(&error))
    }

    /// The callers that are known: the users of Redis where that is served, and the tokens.
    pub(super) fn access(
        &self,
        redis: Option<Arc<Server>>,
        listener: Option<&Listener>,
    ) -> Result<Arc<dyn Access>, Failure> {
        let access: Arc<dyn Access> = match (redis, self.tokens.clone()) {
            (None, None) => Arc::new(Open),
            (None, Some(tokens)) => Arc::new(tokens),
            (Some(server), tokens) => Arc::new(RedisUsers { server, tokens }),
        };
        if let Some(listener) = listener {
            let address = listener.address().map_err(|error| failed(&error))?;
            if !address.ip().is_loopback() && access.is_open() {
                return Err(failed(&ServeError::Unprotected { address }));
            }
        }
        Ok(access)
    }
}

fn tokens(path: &Path) -> Result<Tokens, Failure> {
    let named =
        |reason: &dyn fmt::Display| Failure::usage(format!("--grpc-token-file {}: {reason}", path.display()));
    let text = String::from_utf8(host::content_of(path)?).map_err(|_| named(&"it is not UTF-8"))?;
    Tokens::parse(&text).map_err(|reason| named(&reason))
}

/// The failure of a server that could not begin.
pub(super) fn failed(error: &ServeError) -> Failure {
    match error {
        ServeError::Listen { address, source } => {
            Failure::system(format_args!("cannot listen on {address} for gRPC"), source)
                .advise("choose another address with --grpc HOST:PORT, or --grpc off")
        }
        ServeError::Unprotected { .. } => Failure::usage(error.to_string()).advise(
            "set a password with --redis-set requirepass PASSWORD, name tokens with --grpc-token-file, or listen on 127.0.0.1",
        ),
        ServeError::Start(source) => Failure::system("cannot start the server of gRPC", source),
    }
}

/// The users of Redis, and tokens.
struct RedisUsers {
    server: Arc<Server>,
    tokens: Option<Tokens>,
}

impl fmt::Debug for RedisUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisUsers").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

impl Access for RedisUsers {
    fn rights(&self, credentials: &Credentials) -> Option<Rights> {
        let login = match credentials {
            Credentials::None => None,
            Credentials::Password { user, password } => Some((&user[..], &password[..])),
            Credentials::Token(_) => return self.tokens.as_ref()?.rights(credentials),
        };
        let rights = self.server.rights_of(login)?;
        Some(Rights { read: rights.read, write: rights.write, admin: rights.admin })
    }
}
