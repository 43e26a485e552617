//! Operations of a script that write one key, with an expiry of their own.

use crate::operators::Operator;
use crate::oracle::Written;
use crate::runner::{Mark, Runner};
use crate::script::Lifetime;
use crate::{Filler, Key, Outcome, ensure, from_unix_ms};
use esker::{Durability, Expiry, WriteOptions};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Long over, and not the beginning of 1970.
const LONG_OVER: Duration = Duration::from_secs(1);

impl Runner {
    /// The expiry that a call is given. Where the real clock runs, nothing ends soon: it is over since long,
    /// or ends in a day.
    pub(crate) fn expiry(&self, lifetime: Lifetime) -> Outcome<Expiry> {
        let now_ms = self.now()?.time_ms;
        let by_clock = |in_ms: i64, exact: Expiry| match self.moves_clock() {
            true => exact,
            false if in_ms < 1_000 => Expiry::At(SystemTime::UNIX_EPOCH + LONG_OVER),
            false => Expiry::At(from_unix_ms(now_ms) + DAY),
        };
        Ok(match lifetime {
            Lifetime::Default => Expiry::Default,
            Lifetime::Never => Expiry::Never,
            Lifetime::Keep => Expiry::Keep,
            Lifetime::After(ms) => by_clock(ms.into(), Expiry::After(Duration::from_millis(ms.into()))),
            Lifetime::At(ms) => {
                by_clock(ms.into(), Expiry::At(from_unix_ms(now_ms.saturating_add_signed(ms.into()))))
            }
        })
    }

    /// When what is written now with this lifetime ends, where the value that is replaced, if there is one,
    /// ends at `replaced`.
    pub(crate) fn end_ms(
        &self,
        space: usize,
        lifetime: Lifetime,
        replaced: Option<Option<u64>>,
    ) -> Outcome<Option<u64>> {
        Ok(match (self.expiry(lifetime)?, replaced) {
            (Expiry::Never, _) => None,
            (Expiry::Keep, Some(end_ms)) => end_ms,
            (Expiry::After(ttl), _) => Some(self.now()?.time_ms + ttl.as_millis() as u64),
            (Expiry::At(time), _) => Some(crate::unix_ms(time)),
            _ => self.default_end_ms(space)?,
        })
    }

    /// Puts a key with options.
    pub(crate) fn put_one(
        &mut self,
        space: u8,
        key: Key,
        value: Filler,
        lifetime: Lifetime,
        durability: Durability,
    ) -> Outcome {
        let keyspace = self.create(space)?;
        let (space, key, now) = (usize::from(space), key.bytes(), self.now()?);
        let end_ms = self.end_ms(space, lifetime, self.oracle.end(space, &key, now))?;
        let options = WriteOptions::new().durability(durability).expiry(self.expiry(lifetime)?);
        self.mark(Mark::Begun, now.commit + 1);
        keyspace.put_with(&key, value.bytes(), options)?;
        self.acknowledge(space, key, put(value.bytes(), end_ms), durability);
        Ok(())
    }

    /// Merges an operand into a key with options.
    pub(crate) fn merge_one(
        &mut self,
        space: u8,
        key: Key,
        operand: Filler,
        lifetime: Lifetime,
        durability: Durability,
    ) -> Outcome {
        let keyspace = self.create(space)?;
        let Some(operator) = Operator::of(&keyspace.options()) else { return Ok(()) };
        let (space, key, now) = (usize::from(space), key.bytes(), self.now()?);
        let end_ms = self.end_ms(space, lifetime, None)?;
        let options = WriteOptions::new().durability(durability).expiry(self.expiry(lifetime)?);
        self.mark(Mark::Begun, now.commit + 1);
        keyspace.merge_with(&key, operand.bytes(), options)?;
        self.acknowledge(space, key, Written::Merge(operator, operand.bytes(), end_ms), durability);
        Ok(())
    }

    /// Replaces the value of a key by an update that reads it.
    pub(crate) fn update(
        &mut self,
        space: u8,
        key: Key,
        value: Option<Filler>,
        lifetime: Lifetime,
    ) -> Outcome {
        let keyspace = self.create(space)?;
        let (space, key, now) = (usize::from(space), key.bytes(), self.now()?);
        let before = self.oracle.look_up(space, &key, now);
        let before = before.map(|(value, end)| (value.into_owned(), end));
        // By default it keeps what it replaces.
        let kept = if lifetime == Lifetime::Default { Lifetime::Keep } else { lifetime };
        let end_ms = self.end_ms(space, kept, before.as_ref().map(|(_, end)| *end))?;
        let expiry = self.expiry(lifetime)?;
        self.mark(Mark::Begun, now.commit + 1);
        let mut seen = None;
        let found = keyspace.fetch_update_with(&key, expiry, |found| {
            seen = found.map(<[u8]>::to_vec);
            value.map(Filler::bytes)
        })?;
        let expected = before.as_ref().map(|(value, _)| value.as_slice());
        ensure!(found.as_deref() == expected, "an update returns another value than there was");
        ensure!(seen.as_deref() == expected, "an update sees another value than there was");
        let written = match value {
            Some(value) => Some(put(value.bytes(), end_ms)),
            None => before.map(|_| Written::Delete),
        };
        if let Some(written) = written {
            self.acknowledge(space, key, written, Durability::Process);
        }
        Ok(())
    }

    /// Gives a key's value another end.
    pub(crate) fn touch(&mut self, space: usize, key: crate::Key, ttl_ms: Option<u32>) -> Outcome {
        let Some(keyspace) = self.spaces[space].clone() else { return Ok(()) };
        let (key, now) = (key.bytes(), self.now()?);
        let (value, end) =
            (self.oracle.get(space, &key, now).map(Cow::into_owned), self.oracle.end(space, &key, now));
        self.mark(Mark::Begun, now.commit + 1);
        let (was_there, written) = match (ttl_ms, value.clone()) {
            (None, value) => (keyspace.persist(&key)?, value.filter(|_| end != Some(None)).map(Written::Put)),
            (Some(ms), value) => {
                let ttl = self.ttl(ms);
                let there = keyspace.touch(&key, ttl)?;
                let expiry_ms = now.time_ms + ttl.as_millis() as u64;
                (there, value.map(|value| Written::Expiring(value, expiry_ms)))
            }
        };
        ensure!(was_there == value.is_some(), "touched {}, which was there: {}", was_there, value.is_some());
        if let Some(written) = written {
            self.acknowledge(space, key, written, Durability::Process);
        }
        Ok(())
    }

    /// Records that a key was written.
    fn acknowledge(&mut self, space: usize, key: Vec<u8>, written: Written, durability: Durability) {
        let commit = self.oracle.commit(&[(space, key, written)]);
        self.note_unlogged(&BTreeSet::from([space]), durability);
        self.mark(Mark::Acknowledged, commit);
        if durability == Durability::Power {
            self.mark(Mark::Powered, commit);
        }
    }
}

/// A put that ends then, or never.
pub(crate) fn put(value: Vec<u8>, end_ms: Option<u64>) -> Written {
    match end_ms {
        None => Written::Put(value),
        Some(end_ms) => Written::Expiring(value, end_ms),
    }
}
