//! TLS of the ports: one certificate with its rules, of the directives of Redis, for all protocols that want
//! it.
//!
//! Where Redis is served its server has them, so CONFIG SET and SIGHUP change all ports at once and as one.
//! Where it is not, they are of the configuration alone.

use super::kept::{Kept, kept};
use super::plan::{Plan, RedisPlan};
use crate::args::{Global, ServeArgs};
use crate::failure::Failure;
use esker_redis_server::StartConfig;
use esker_redis_server::server::Server;
use esker_tls::{Tls, TlsSettings};
use std::sync::Arc;

/// Directives that count without a server of Redis.
const PREFIX: &str = "tls-";

/// Whether a port beside those of Redis wants TLS.
pub(super) fn is_wanted(args: &ServeArgs) -> bool {
    args.grpc_tls || args.admin_tls
}

/// Certificates and rules of the configuration alone.
#[derive(Debug)]
pub(super) struct OwnTls {
    tls: Arc<Tls>,
    settings: TlsSettings,
}

/// What is served with TLS beside a server of Redis that is off.
pub(super) fn without_redis(args: &ServeArgs, config: &StartConfig) -> Result<Option<OwnTls>, Failure> {
    let mut names = args.redis_set.chunks_exact(2).map(|pair| pair[0].as_str());
    if let Some(name) = names.find(|name| !(is_wanted(args) && name.starts_with(PREFIX))) {
        return Err(Failure::usage(format!("--redis-set {name} sets nothing, because --redis is off")));
    }
    if !is_wanted(args) {
        return Ok(None);
    }
    let tls = Arc::new(load(config)?);
    let settings = config.tls_settings().map_err(Failure::usage)?;
    Ok(Some(OwnTls { tls, settings }))
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
    match kept(global, |database| Ok(config.add_kept(database)?))? {
        Kept::Locked(sentence) => Ok(Some(sentence)),
        Kept::Read(()) | Kept::Nothing => Ok(None),
    }
}

fn load(config: &StartConfig) -> Result<Tls, Failure> {
    let settings = config.tls_settings().map_err(Failure::usage)?;
    Tls::new(settings).map_err(|error| Failure::usage(format!("TLS: {error}")))
}

/// The certificates and rules of this moment; `None` if no port needs them.
pub(super) fn present(plan: &Plan, server: Option<&Server>) -> Option<Arc<Tls>> {
    server.map_or(plan.tls.as_ref().map(|own| &own.tls), Server::tls).cloned()
}

/// Takes the rules and files of a configuration that was read anew, where Redis is off.
pub(super) fn change(running: &Plan, read: &Plan) -> Result<(), Failure> {
    let (Some(running), Some(read)) = (&running.tls, &read.tls) else { return Ok(()) };
    let changed = running.tls.change(read.settings.clone());
    changed.map_err(|error| Failure::usage(format!("TLS: {error}")))
}

/// Reads certificates anew, at a signal. What is wrong with them is logged, and the servers go on with those
/// that they have.
pub(super) fn reload(plan: &Plan, server: Option<&Server>) {
    let read = match (server, &plan.tls) {
        (Some(server), _) => server.reload_tls(),
        (None, Some(own)) => own.tls.reload().map(|()| true).map_err(|error| format!("TLS: {error}")),
        (None, None) => Ok(false),
    };
    match read {
        Ok(true) => tracing::info!("SIGHUP: new connections get the certificates that are in the files now"),
        // No address has TLS.
        Ok(false) => {}
        Err(reason) => {
            tracing::error!("SIGHUP: new connections get the certificates as before, because {reason}");
        }
    }
}
