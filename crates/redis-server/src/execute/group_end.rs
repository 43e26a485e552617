//! The end of a group: its batch is written, what it changed is told, and its stripes are freed. A batch that
//! the engine holds back is tried again by a thread that may wait.

use super::group::{Executor, Mode};
use crate::failure::engine_error_text;
use crate::observed::turns::GroupCut;
use crate::session::{ReplyMode, Session};
use crate::statistics::add;
use crate::waiting::Place;
use esker_redis_store::txn::Stalls;
use esker_resp::writer::{Protocol, ReplyWriter};
use std::sync::Arc;
use std::time::Duration;

/// How long writes of a client are held back before they fail.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// A group of writes that the engine held back.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    /// What holds it back, in the engine's words.
    pub(crate) cause: Arc<str>,
    /// After this time it is worth a further attempt.
    pub(crate) retry_after: Duration,
    /// How long it has been held back, with that time.
    pub(crate) so_far: Duration,
}

impl Executor<'_> {
    /// After [`MustWait`](super::group::End::MustWait) on a thread that may wait: when the group is worth a
    /// further attempt, and how long it has been held back by then. `None` if it was not held back. A stall
    /// that lasts longer than [`STALL_LIMIT`] becomes an error reply.
    pub(crate) fn take_stall(&mut self) -> Option<Stall> {
        let (retry_after, cause) = self.refused.take()?;
        let so_far = std::mem::take(&mut self.stalled) + retry_after;
        Some(Stall { cause, retry_after, so_far })
    }

    /// The next group has been held back so long already.
    pub(crate) fn go_on_after(&mut self, so_far: Duration) {
        self.stalled = so_far;
    }

    /// Writes the group's batch, tells what it changed, and frees its stripes. `false` if a thread that may
    /// wait must do it. `cut` says why the group does not go on to the last request.
    pub(super) fn end_group(
        &mut self,
        session: &mut Session,
        position: usize,
        out: &mut Vec<u8>,
        mode: Mode,
        cut: Option<GroupCut>,
    ) -> bool {
        // Does not wait under the stripes, because readers of these keys would wait as well, but for commands
        // that may not be executed once more.
        let stalls = if session.has_acted && mode == Mode::Waiting { Stalls::Wait } else { Stalls::Fail };
        match self.txn.commit(stalls) {
            Ok(_) => {
                let commands = (position - self.first_request) as u64;
                if commands > 0 {
                    self.observer.turns().count_group(cut);
                    self.turn_commands += commands;
                }
                self.stalled = Duration::ZERO;
                session.has_acted = false;
                self.change_pause(session);
                session.messages.send(&self.server.pubsub);
                session.log_lines.write();
                if self.tell_batch(session.id, None) {
                    self.serve_ready(mode);
                }
                session.log_denied(self.server);
                true
            }
            Err(esker::Error::WouldStall { retry_after, cause })
                if stalls == Stalls::Fail
                    && (mode == Mode::Resident || self.stalled + retry_after < STALL_LIMIT) =>
            {
                self.refused = Some((retry_after, cause));
                false
            }
            Err(error) => {
                self.stalled = Duration::ZERO;
                // None of the group's commands happened, whatever their replies said.
                self.txn.roll_back();
                self.observer.forget();
                self.held.free();
                session.log_lines.write();
                session.forget_effects();
                out.truncate(self.first_reply);
                session.log_denied(self.server);
                let text = engine_error_text(&error);
                for request in self.first_request..position {
                    self.server.observed.commands.count_error(text.as_bytes());
                    let is_left_out = match self.of_first_request.replies {
                        ReplyMode::On | ReplyMode::SkipNext => false,
                        ReplyMode::Off => true,
                        ReplyMode::Skip => request == self.first_request,
                    };
                    if !is_left_out {
                        ReplyWriter::new(out, Protocol::Resp2).error(text.as_bytes());
                    }
                }
                true
            }
        }
    }

    /// Tells what the batch changed that was written for the client `writer`, and frees its stripes. Whether
    /// clients wait for some of it, other than for the key that is being served.
    pub(super) fn tell_batch(&mut self, writer: u64, served: Option<&Place>) -> bool {
        if self.observer.times_batches() {
            self.observer.wrote_batch();
        }
        let mut told = self.txn.take_told();
        if told.dirty > 0 {
            add(&self.server.statistics.changes, told.dirty);
        }
        self.server.touch(&told, writer);
        self.held.free();
        told.changed.retain(|place| Some(place) != served);
        let is_awaited = self.server.after_commit(&told);
        self.observer.tell();
        is_awaited
    }

    /// Whether clients wait for what the last command changed, which told so many changes before.
    pub(super) fn fills_awaited(&self, told_before: usize) -> bool {
        let (waiting, told) = (&self.server.waiting, self.txn.told());
        waiting.is_used() && waiting.is_awaited(&told.changed[told_before..])
    }
}
