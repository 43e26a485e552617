//! The server of the Redis protocol: bound before the database is opened, prepared when it is open.

use super::plan::{RedisPlan, level_of};
use crate::failure::Failure;
use crate::host;
use esker::Database;
use esker_redis_server::server::Server;
use esker_redis_server::{ListenError, Listener};
use esker_redis_store::Store;
use std::path::{Path, PathBuf};

/// Binds the addresses. One that is in use is noticed before the database is touched.
pub(super) fn bind(plan: &RedisPlan) -> Result<Listener, Failure> {
    let bound = Listener::bind(plan.listen.clone());
    bound.map_err(|ListenError { place, source }| {
        let is_socket =
            plan.listen.unix.as_ref().is_some_and(|socket| socket.path.as_os_str() == place.as_str());
        if plan.is_stand_in && is_socket {
            tracing::error!("Failed opening Unix socket: {source}");
        } else if plan.is_stand_in {
            // Programs that start redis-server look for this line, and try another port then.
            tracing::error!("Failed listening on port {} ({place}), aborting.", plan.port());
        }
        let failure = Failure::system(format_args!("cannot listen on {place} for clients of Redis"), &source);
        failure.advise(if is_socket {
            "choose another path by the directive unixsocket, or \"\" for none"
        } else if plan.is_stand_in {
            "choose another port by the directives port and bind, or port 0 for none"
        } else {
            "choose another address with --redis HOST:PORT, or --redis off"
        })
    })
}

/// Opens the data of Redis in the database, and sets what the configuration says.
pub(super) fn prepare(
    plan: &RedisPlan,
    data: &Path,
    listener: &Listener,
    database: &Database,
) -> Result<Server, Failure> {
    let server = Server::new(Store::open(database.clone(), plan.databases)?);
    server.set_checkpoint_directory(checkpoints_of(data));
    server.on_log_level(|word| host::set_log_level(level_of(word)));
    server.load_settings()?;
    server.configure(&plan.config).map_err(Failure::usage)?;
    if let Some(level) = plan.log_level {
        host::set_log_level(level);
    }
    let failed = |error| Failure::system("cannot read an address", &error);
    let tls = listener.tls_addresses().map_err(failed)?;
    if !tls.is_empty() || plan.others_need_tls {
        server.load_tls().map_err(Failure::usage)?;
    }
    let addresses = [listener.addresses().map_err(failed)?, tls].concat();
    if server.is_unprotected(&addresses) {
        return Err(unprotected());
    }
    Ok(server)
}

/// The failure of a server that other machines would reach without a password.
pub(super) fn unprotected() -> Failure {
    let message = "clients of Redis beyond this machine would need no password: protected-mode forbids that";
    Failure::usage(message).advise(
        "set a password with --redis-set requirepass PASSWORD, listen on 127.0.0.1, or set protected-mode to no",
    )
}

/// The directory of the checkpoints that SAVE makes: beside the database, with this behind its name.
fn checkpoints_of(data: &Path) -> PathBuf {
    // Without a slash at its end.
    let mut name = data.components().as_path().as_os_str().to_owned();
    name.push("-checkpoints");
    name.into()
}

/// Where a listener can be reached, and by which protocol.
pub(super) fn places(listener: &Listener) -> Vec<String> {
    let plain = |place: String| format!("by the protocol of Redis on {place}");
    let tcp = listener.addresses().unwrap_or_default().into_iter().map(|address| address.to_string());
    let unix = listener.unix_path().map(|path| path.display().to_string());
    let tls = listener.tls_addresses().unwrap_or_default().into_iter();
    let tls = tls.map(|address| format!("by the protocol of Redis with TLS on {address}"));
    tcp.chain(unix).map(plain).chain(tls).collect()
}
