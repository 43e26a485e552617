//! Libraries of functions in the store: read once, and written before they are seen.

use super::host::LoadHost;
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::scripts::with_engine;
use crate::server::Server;
use esker_lua::{Engine, Libraries, Library};
use esker_redis_store::Txn;
use esker_redis_store::layout::{Space, system};
use esker_redis_store::notifications::Interest;
use esker_redis_store::txn::Stalls;
use std::sync::Arc;

fn key(name: &[u8]) -> Vec<u8> {
    [&[system::LIBRARY], name].concat()
}

/// Calls `work` with the engine of this thread.
pub(super) fn engine<R>(work: impl FnOnce(&mut Engine) -> Result<R, Vec<u8>>) -> Outcome<R> {
    let done = with_engine(work).ok_or("ERR a script is running on this thread")?;
    done.map_err(Failure::from)
}

/// The libraries.
pub(super) fn libraries(call: &Call<'_, '_>) -> Outcome<Arc<Libraries>> {
    libraries_of(call.server)
}

/// The libraries of a server.
pub(super) fn libraries_of(server: &Server) -> Outcome<Arc<Libraries>> {
    if let Some(libraries) = server.scripting.libraries() {
        return Ok(libraries);
    }
    let _changing = server.scripting.changing();
    let mut read = Libraries::default();
    for item in server.store.space(Space::System).prefix([system::LIBRARY]) {
        let (_, code) = item?;
        let mut host = LoadHost::new(server);
        engine(|engine| read.load(engine, &code, false, &mut host))?;
    }
    Ok(server.scripting.set_libraries(read))
}

/// Changes the libraries. `change` gets a copy of them; what it left is stored and then seen.
pub(super) fn change<R>(
    call: &Call<'_, '_>,
    change: impl FnOnce(&mut Libraries) -> Outcome<R>,
) -> Outcome<R> {
    libraries(call)?;
    let _changing = call.server.scripting.changing();
    let before = libraries_now(call);
    let mut after = (*before).clone();
    let result = change(&mut after)?;
    // A batch of its own: the group's may be executed once more, and would meet the library.
    let mut txn = Txn::new(&call.server.store, Interest::default());
    for library in before.iter().filter(|library| after.library(library.name()).is_none()) {
        txn.delete(Space::System, &key(library.name()))?;
    }
    let is_new = |library: &&Library| {
        before.library(library.name()).is_none_or(|before| before.code() != library.code())
    };
    for library in after.iter().filter(is_new) {
        txn.put(Space::System, &key(library.name()), library.code())?;
    }
    txn.commit(Stalls::Wait)?;
    call.server.scripting.set_libraries(after);
    Ok(result)
}

fn libraries_now(call: &Call<'_, '_>) -> Arc<Libraries> {
    call.server.scripting.libraries().unwrap_or_default()
}
