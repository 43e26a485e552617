//! Looking ahead: the records of a client's first requests are looked up by one multi-get.

use super::group::{Executor, Mode};
use super::requests::Requests;
use crate::command_kinds::CommandKind;
use crate::session::Session;
use esker_redis_commands::{Command, Names};
use esker_redis_store::locks::Access;
use esker_redis_store::txn::resident_only;

/// Requests whose records are looked up together.
const LOOKED_AHEAD: usize = 32;

impl Executor<'_> {
    /// Takes the stripes of the first requests and looks their records up together, as far as they are
    /// commands of one key that may share a group. What is not found ahead is looked up when it is wanted.
    pub(super) fn look_ahead(&mut self, session: &Session, requests: &Requests, mode: Mode) {
        if requests.remaining() < 2 || session.queue.is_some() {
            return;
        }
        let mut keys: [&[u8]; LOOKED_AHEAD] = [&[]; LOOKED_AHEAD];
        let (mut count, mut last) = (0, None);
        let names = self.server.names();
        for (place, position) in keys.iter_mut().zip(requests.position()..) {
            let Some((command, key)) =
                requests.at(position).and_then(|request| command_of_one_key(names, request))
            else {
                break;
            };
            let access =
                if CommandKind::of(command).changes_keys { Access::Exclusive } else { Access::Shared };
            if last != Some((key, access)) {
                let stripe = self.server.store.stripes.of(session.db, key);
                if !self.held.try_for(&[stripe], access) {
                    break;
                }
                last = Some((key, access));
            }
            *place = key;
            count += 1;
        }
        if count > 1 {
            let (txn, keys) = (&mut self.txn, &keys[..count]);
            let mut look = || txn.look_ahead(session.db, keys.iter().copied());
            // A failure is found once more by the command itself.
            match mode {
                Mode::Waiting => drop(look()),
                Mode::Resident => drop(resident_only(look)),
            }
        }
    }
}

/// The command of a request and its key, if it is one that may share a group and has its only key as its
/// first argument.
fn command_of_one_key<'r>(
    names: &Names,
    mut arguments: impl ExactSizeIterator<Item = &'r [u8]>,
) -> Option<(&'static Command, &'r [u8])> {
    let count = arguments.len();
    let command = names.find(arguments.next()?)?;
    let kind = CommandKind::of(command);
    (kind.has_one_key && kind.shares_a_group && command.accepts(count)).then_some(())?;
    Some((command, arguments.next()?))
}
