//! Waiting for stripes: for a moment where other clients are served, and never behind a script that is busy.
//!
//! A script holds the stripes of its keys, or all, as long as it runs. What holds:
//! * CG4. A thread that serves other clients waits for stripes a few milliseconds at most; afterwards the
//!   command goes to a thread that may wait. So SCRIPT KILL is read and executed whatever scripts do.
//! * CG5. A command that would wait behind a script that has run longer than `busy-reply-threshold` is
//!   answered `-BUSY`, as by Redis, and leaves its thread. Commands on other keys go on, where Redis answers
//!   them so too.

use super::group::{Executor, Mode};
use crate::command_kinds::CommandKind;
use crate::session::Session;
use esker_redis_commands::{Command, keys};
use esker_redis_store::locks::{Access, STRIPES, Stripe};
use std::time::Duration;

/// How long a thread that serves other clients waits for a stripe. Groups hold theirs for less, unless they
/// wait for a device.
const RESIDENT_WAIT: Duration = Duration::from_millis(2);

/// How often a thread that may wait looks whether a script is busy meanwhile.
const BUSY_CHECK: Duration = Duration::from_millis(50);

/// The outcome of waiting for stripes.
pub(super) enum Waited {
    /// They are held.
    Held,
    /// A thread that may wait must go on.
    MustWait,
    /// A script keeps them; the text of the error reply.
    Busy(&'static str),
}

impl Executor<'_> {
    fn wanted(&mut self, session: &Session, command: &'static Command, arguments: &[&[u8]]) -> Access {
        keys(command, arguments, &mut self.keys);
        self.stripes.clear();
        let stripes = &self.server().store.stripes;
        self.stripes.extend(self.keys.iter().map(|key| stripes.of(session.db, arguments[key.position])));
        if CommandKind::of(command).changes_keys { Access::Exclusive } else { Access::Shared }
    }

    /// Takes the stripes of a command beside those of the group, if that is possible at once.
    pub(super) fn try_lock(
        &mut self,
        session: &Session,
        command: &'static Command,
        arguments: &[&[u8]],
    ) -> bool {
        let access = self.wanted(session, command, arguments);
        self.held.try_for(&self.stripes, access)
    }

    /// Waits for the stripes of a command; none may be held.
    pub(super) fn lock(
        &mut self,
        session: &Session,
        command: &'static Command,
        arguments: &[&[u8]],
        mode: Mode,
    ) -> Waited {
        if CommandKind::of(command).locks_everything {
            return self.lock_all(mode);
        }
        let access = self.wanted(session, command, arguments);
        let mut wanted = std::mem::take(&mut self.stripes);
        let waited = self.wait_for_stripes(&mut wanted, access, mode);
        self.stripes = wanted;
        waited
    }

    /// Waits for all stripes; none may be held.
    pub(super) fn lock_all(&mut self, mode: Mode) -> Waited {
        self.wait_for_stripes(&mut (0..STRIPES as Stripe).collect(), Access::Exclusive, mode)
    }

    /// Waits for stripes; none may be held.
    pub(super) fn wait_for_stripes(
        &mut self,
        wanted: &mut Vec<Stripe>,
        access: Access,
        mode: Mode,
    ) -> Waited {
        let time = if mode == Mode::Resident { RESIDENT_WAIT } else { BUSY_CHECK };
        loop {
            if self.held.wait_at_most(wanted, access, time) {
                return Waited::Held;
            }
            if let Some(text) = self.server().busy_reply() {
                return Waited::Busy(text);
            }
            if mode == Mode::Resident {
                return Waited::MustWait;
            }
        }
    }
}
