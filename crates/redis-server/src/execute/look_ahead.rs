//! Looking ahead: the records of a client's first requests are looked up by one multi-get.

use super::group::{Executor, Mode};
use super::requests::Requests;
use crate::command_kinds::CommandKind;
use crate::session::Session;
use esker_redis_commands::{Command, Names};
use esker_redis_store::Txn;
use esker_redis_store::locks::Access;
use esker_redis_store::txn::resident_only;
use esker_redis_store::types::sorted_set;

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
        let mut scores = ScoresAhead { key: &[], members: [&[]; LOOKED_AHEAD], count: 0 };
        let names = self.server.names();
        for (place, position) in keys.iter_mut().zip(requests.position()..) {
            let Some((command, key, rest)) =
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
            scores.add(command, key, rest);
            *place = key;
            count += 1;
        }
        if count > 1 {
            let (txn, keys) = (&mut self.txn, &keys[..count]);
            let mut look = || {
                txn.look_ahead(session.db, keys.iter().copied())?;
                scores.look_up(txn, session.db)
            };
            // A failure is found once more by the command itself.
            match mode {
                Mode::Waiting => drop(look()),
                Mode::Resident => drop(resident_only(look)),
            }
        }
    }
}

/// Members of one sorted set whose scores commands will set.
struct ScoresAhead<'r> {
    key: &'r [u8],
    members: [&'r [u8]; LOOKED_AHEAD],
    count: usize,
}

impl<'r> ScoresAhead<'r> {
    /// Adds the member of a command on a key, if it sets the score of one of the same set as those before.
    fn add(&mut self, command: &Command, key: &'r [u8], mut rest: impl ExactSizeIterator<Item = &'r [u8]>) {
        if rest.len() != 2 || !matches!(command.name(), "zadd" | "zincrby") {
            return;
        }
        if self.count == 0 {
            self.key = key;
        }
        if self.key == key
            && let Some(member) = rest.nth(1)
        {
            self.members[self.count] = member;
            self.count += 1;
        }
    }

    /// Looks the scores up together, of a set whose record was looked up.
    fn look_up(&self, txn: &mut Txn<'_>, db: u16) -> esker::Result<()> {
        match self.count {
            0 | 1 => Ok(()),
            count => sorted_set::look_at_scores(txn, db, self.key, &self.members[..count]),
        }
    }
}

/// The command of a request, its key and what follows it, if it is one that may share a group and has its
/// only key as its first argument.
fn command_of_one_key<'r, A: ExactSizeIterator<Item = &'r [u8]>>(
    names: &Names,
    mut arguments: A,
) -> Option<(&'static Command, &'r [u8], A)> {
    let count = arguments.len();
    let command = names.find(arguments.next()?)?;
    let kind = CommandKind::of(command);
    (kind.has_one_key && kind.shares_a_group && command.accepts(count)).then_some(())?;
    let key = arguments.next()?;
    Some((command, key, arguments))
}
