//! TLS of the ports: one certificate with its rules, of the directives of Redis, for all protocols that want
//! it.
//!
//! Where Redis is served its server has them, so CONFIG SET and SIGHUP change all ports at once and as one.
//! Where it is not, they are of the configuration alone.

use super::plan::{Plan, RedisPlan};
use crate::args::{Global, ServeArgs};
use crate::commands;
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

/// Reads the files that the configuration of a server of Redis names, as a check: with the directives that
/// CONFIG REWRITE keeps in the database, as far as that can be read. A sentence tells if it cannot.
pub(super) fn check(redis: &RedisPlan, global: &Global) -> Result<Option<String>, Failure> {
    if redis.listen.tls.is_empty() && !redis.others_need_tls {
        return Ok(None);
    }
    let mut config = redis.config.clone();
    let warning = add_kept(&mut config, global)?;
    match (load(&config), warning) {
        (Ok(_), warning) => Ok(warning),
        // The directive that is missing, or the file that is wrong, may be another one in the database.
        (Err(failure), Some(warning)) => Err(failure.advise(warning)),
        (Err(failure), None) => Err(failure),
    }
}

/// Adds what the database keeps, if there is one. A sentence if another process has it open.
fn add_kept(config: &mut StartConfig, global: &Global) -> Result<Option<String>, Failure> {
    if !global.data().exists() {
        return Ok(None);
    }
    match commands::open_for_reading(global) {
        Ok(database) => {
            let added = config.add_kept(&database);
            let closed = database.close();
            added?;
            closed?;
            Ok(None)
        }
        Err(failure) if failure.is_locked() => Ok(Some(format!(
            "another process has {} open, so directives that CONFIG REWRITE keeps there are not checked",
            global.data().display()
        ))),
        Err(failure) => Err(failure),
    }
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
