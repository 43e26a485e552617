//! Backward direction: a key is decided when the entry before its newest visible version has been met. See
//! [`super`].

use super::{MAX_STEPS, Visible, VisiblePosition};
use crate::cursor::Cursor;
use crate::meaning::{Meaning, check_hidden, is_large, meaning, split_expiry};
use esker_base::planted;
use esker_base::{Error, Result, Tag};

/// Longest value copied when walking backwards: 32 KiB take as long as the two seeks they save.
pub(super) const MAX_HELD_LEN: usize = 32 << 10;

/// A version of the key being passed backwards.
struct Candidate {
    tag: Tag,
    /// Whether the value, if there is one to return, is in the buffer.
    is_held: bool,
    expiry_ms: u64,
}

impl<C: Cursor> Visible<C> {
    /// Moves back to the last visible key from the cursor's position, which is the last entry of a key.
    pub(super) fn find_backward(&mut self) -> Result<()> {
        if self.single_version {
            return self.find_single::<true>();
        }
        while self.cursor.is_valid() && !self.bounds.is_before(self.cursor.key()) {
            if self.cursor.is_alone() {
                let tag = self.cursor.tag();
                if tag <= self.plain_newest && tag.is_plain_put() {
                    self.position = VisiblePosition::Only;
                    return Ok(());
                }
            }
            self.key.set(self.cursor.key());
            let Some(candidate) = self.pass_versions()? else { continue };
            if self.is_covered(candidate.tag)? {
                continue;
            }
            self.expiry_ms = match meaning(candidate.tag, self.key.as_slice())? {
                Meaning::Absent => continue,
                Meaning::Operand if self.buffer_merged(candidate.tag)? => return Ok(()),
                Meaning::Operand => continue,
                Meaning::Expiring | Meaning::ExpiringLarge if self.reader.is_expired(candidate.expiry_ms) => {
                    continue;
                }
                Meaning::Expiring | Meaning::ExpiringLarge => Some(candidate.expiry_ms),
                Meaning::Present | Meaning::Large => None,
            };
            if !candidate.is_held {
                return self.show_remembered(candidate.tag);
            }
            if is_large(candidate.tag) {
                let pointer = std::mem::take(&mut self.value);
                self.reader.large.fetch(candidate.tag, self.key.as_slice(), &pointer, &mut self.value)?;
            }
            self.tag = candidate.tag;
            self.position = VisiblePosition::Held;
            return Ok(());
        }
        Ok(())
    }

    /// Moves to `self.key` if it is visible, otherwise to the last visible key before it.
    pub(super) fn find_at_or_before_remembered(&mut self) -> Result<()> {
        if self.bounds.is_before(self.key.as_slice()) {
            return Ok(());
        }
        self.cursor.seek(self.key.as_slice(), self.seqno)?;
        if self.cursor.is_valid() && self.key.is(self.cursor.key()) && self.show(self.cursor.tag())? {
            return Ok(());
        }
        self.cursor.seek_before(self.key.as_slice())?;
        self.find_backward()
    }

    /// Moves from `self.key`'s oldest version to the entry before; returns the newest visible version met.
    fn pass_versions(&mut self) -> Result<Option<Candidate>> {
        let newest = Tag::visible_at(self.seqno);
        let mut candidate = None;
        for _ in 0..MAX_STEPS {
            if self.cursor.tag() <= newest {
                candidate = Some(self.hold()?);
            }
            self.cursor.prev_key(self.seqno)?;
            if !self.cursor.is_valid() || !self.key.is(self.cursor.key()) {
                return Ok(candidate);
            }
        }
        if self.cursor.tag() <= newest {
            // There may be many newer visible versions: seek the newest of them.
            self.cursor.seek(self.key.as_slice(), self.seqno)?;
            if self.cursor.is_valid() && self.key.is(self.cursor.key()) {
                candidate = Some(self.hold()?);
            }
        }
        self.cursor.seek_before(self.key.as_slice())?;
        Ok(candidate)
    }

    /// Copies the cursor's value, if it is to be returned and not too long.
    fn hold(&mut self) -> Result<Candidate> {
        let tag = self.cursor.tag();
        check_hidden(tag, self.key.as_slice())?;
        self.value.clear();
        let mut value = self.cursor.value();
        let mut expiry_ms = 0;
        let is_held = value.len() <= MAX_HELD_LEN;
        if !tag.is_plain_put() {
            match meaning(tag, self.key.as_slice()) {
                Ok(Meaning::Expiring | Meaning::ExpiringLarge) => {
                    (expiry_ms, value) = split_expiry(tag, self.key.as_slice(), value)?;
                }
                Ok(Meaning::Large) => {}
                // No value to return; or an error, which is reported only if no newer version is met.
                _ => value = &[],
            }
        }
        if is_held {
            self.value.extend_from_slice(value);
        }
        Ok(Candidate { tag, is_held, expiry_ms })
    }

    /// Whether a range tombstone hides version `tag` of `self.key`.
    fn is_covered(&mut self, tag: Tag) -> Result<bool> {
        match &mut self.range_dels {
            None => Ok(false),
            Some(_) if planted!(BackwardIgnoresRangeDeletes) => Ok(false),
            Some(range_dels) => Ok(tag.seqno() < range_dels.at(self.key.as_slice())?),
        }
    }

    /// Makes version `tag` of `self.key` current by seeking it.
    fn show_remembered(&mut self, tag: Tag) -> Result<()> {
        self.cursor.seek(self.key.as_slice(), tag.seqno())?;
        while self.cursor.is_valid() && self.cursor.tag() > tag && self.key.is(self.cursor.key()) {
            self.cursor.next()?;
        }
        if !self.cursor.is_valid() || self.cursor.tag() != tag || !self.key.is(self.cursor.key()) {
            let key = self.key.as_slice().escape_ascii();
            return Err(Error::internal(format!("version {} of key {key} vanished while read", tag.seqno())));
        }
        if is_large(tag) {
            return self.show_other(tag).map(|_| ());
        }
        self.position =
            if tag.is_plain_put() { VisiblePosition::OnCursor } else { VisiblePosition::OnExpiring };
        Ok(())
    }
}
