//! TLS of the ports: one certificate with its rules, of the directives of Redis, for all protocols that want
//! it.
//!
//! Where Redis is served its server has them, so CONFIG SET and SIGHUP change all ports at once and as one.
//! Where it is not, they are of the configuration alone.

use super::plan::{Plan, RedisPlan};
use crate::args::ServeArgs;
use crate::failure::Failure;
use esker_redis_server::StartConfig;
use esker_redis_server::server::Server;
use esker_tls::Tls;
use std::sync::Arc;

/// Directives that count without a server of Redis.
const PREFIX: &str = "tls-";

/// Whether a port beside those of Redis wants TLS.
pub(super) fn is_wanted(args: &ServeArgs) -> bool {
    args.grpc_tls || args.admin_tls
}

/// What is served with TLS beside a server of Redis that is off.
pub(super) fn without_redis(args: &ServeArgs, config: &StartConfig) -> Result<Option<Arc<Tls>>, Failure> {
    let mut names = args.redis_set.chunks_exact(2).map(|pair| pair[0].as_str());
    if let Some(name) = names.find(|name| !(is_wanted(args) && name.starts_with(PREFIX))) {
        return Err(Failure::usage(format!("--redis-set {name} sets nothing, because --redis is off")));
    }
    if !is_wanted(args) {
        return Ok(None);
    }
    load(config).map(|tls| Some(Arc::new(tls)))
}

/// Reads the files that the configuration of a server of Redis names, as a check.
pub(super) fn check(redis: &RedisPlan) -> Result<(), Failure> {
    if redis.listen.tls.is_empty() && !redis.others_need_tls {
        return Ok(());
    }
    load(&redis.config).map(drop)
}

fn load(config: &StartConfig) -> Result<Tls, Failure> {
    let settings = config.tls_settings().map_err(Failure::usage)?;
    Tls::new(settings).map_err(|error| Failure::usage(format!("TLS: {error}")))
}

/// The certificates and rules of this moment; `None` if no port needs them.
pub(super) fn present(plan: &Plan, server: Option<&Server>) -> Option<Arc<Tls>> {
    server.map_or(plan.tls.as_ref(), Server::tls).cloned()
}

/// Reads certificates anew, at a signal. What is wrong with them is logged, and the servers go on with those
/// that they have.
pub(super) fn reload(plan: &Plan, server: Option<&Server>) {
    let read = match (server, &plan.tls) {
        (Some(server), _) => server.reload_tls(),
        (None, Some(tls)) => tls.reload().map(|()| true).map_err(|error| format!("TLS: {error}")),
        (None, None) => Ok(false),
    };
    match read {
        Ok(true) => tracing::info!("SIGHUP: new connections get the certificates that are in the files now"),
        Ok(false) => tracing::info!("SIGHUP: there is nothing to read anew, because no address has TLS"),
        Err(reason) => {
            tracing::error!("SIGHUP: new connections get the certificates as before, because {reason}");
        }
    }
}
