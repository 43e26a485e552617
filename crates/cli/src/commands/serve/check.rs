//! `--check-config`: says what a start would refuse, and serves nothing. Mistakes of single options were
//! found when the plan was made.

use super::kept::{Kept, kept};
use super::plan::{Plan, RedisPlan};
use super::{check_access, grpc, redis, tls};
use crate::args::Global;
use crate::failure::{Exit, Failure};
use esker::Database;
use esker_grpc::ServeError;
use std::io::Write;
use std::net::SocketAddr;

/// Prints what is doubtful, or that there is no mistake.
pub(super) fn check(global: &Global, plan: &Plan, out: &mut dyn Write) -> Result<Exit, Failure> {
    check_access(global, plan)?;
    let of_data = Global { data: Some(plan.data.clone()), ..global.clone() };
    let mut warnings: Vec<String> = plan.warnings().cloned().collect();
    match &plan.redis {
        Some(redis) => {
            let told = [tls::check(redis, &of_data)?, check_users(plan, redis, &of_data)?];
            warnings.extend(told.into_iter().flatten());
            warnings.dedup();
        }
        None => check_grpc_alone(plan)?,
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let what =
        global.config.as_ref().map_or("the command line".to_owned(), |path| path.display().to_string());
    writeln!(out, "{what}: no mistake")?;
    Ok(Exit::Done)
}

/// The address of gRPC, if other machines reach it.
fn grpc_beyond(plan: &Plan) -> Option<SocketAddr> {
    plan.grpc.as_ref().map(|grpc| grpc.address()).filter(|address| !address.ip().is_loopback())
}

fn grpc_unprotected(address: SocketAddr) -> Failure {
    grpc::failed(&ServeError::Unprotected { address })
}

/// Beside no server of Redis, tokens are the only callers that gRPC knows.
fn check_grpc_alone(plan: &Plan) -> Result<(), Failure> {
    let has_tokens = plan.grpc.as_ref().is_some_and(|grpc| grpc.tokens().is_some());
    match grpc_beyond(plan).filter(|_| !has_tokens) {
        Some(address) => Err(grpc_unprotected(address)),
        None => Ok(()),
    }
}

/// Rules of users, and whether other machines would need no password. Users that the database keeps are
/// looked at only where they decide: opening it may take long. A sentence if they cannot be.
fn check_users(plan: &Plan, redis: &RedisPlan, global: &Global) -> Result<Option<String>, Failure> {
    let Some(failure) = unprotected(plan, redis, None)? else { return Ok(None) };
    match kept(global, |database| unprotected(plan, redis, Some(database)))? {
        Kept::Locked(sentence) => Ok(Some(sentence)),
        Kept::Read(None) => Ok(None),
        Kept::Read(Some(failure)) => Err(failure),
        Kept::Nothing => Err(failure),
    }
}

/// What is wrong if other machines would need no password, by the users of the configuration and those that
/// the database keeps, if it is given.
pub(super) fn unprotected(
    plan: &Plan,
    redis: &RedisPlan,
    database: Option<&Database>,
) -> Result<Option<Failure>, Failure> {
    let mut config = redis.config.clone();
    if let Some(database) = database {
        config.add_kept(database)?;
    }
    if !config.default_is_open(database).map_err(Failure::usage)? {
        return Ok(None);
    }
    let mut addresses = redis.listen.tcp.iter().chain(&redis.listen.tls);
    if config.is_protected() && addresses.any(|one| !one.address.ip().is_loopback()) {
        return Ok(Some(redis::unprotected()));
    }
    Ok(grpc_beyond(plan).map(grpc_unprotected))
}
