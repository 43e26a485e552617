//! A worker of the soak: a thread that writes keys of its own and knows what each must answer.

use crate::soak::content::{self, ACCOUNTS, COUNTERS, EXPIRING, LARGE, PACKED, PLAIN, SPACES, Space};
use crate::soak::{Shared, SoakPlan, WORKERS};
use crate::{Outcome, ensure, unix_ms};
use esker::parts::env::{Clock, SeededRandom, SystemClock};
use esker::{Database, Durability, Expiry, Keyspace, Snapshot, Value};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest time that a value with an expiry lives.
const LONGEST_TTL_MS: u64 = 60_000;
/// Keys of one multi-get, one batch, one scan, one range delete.
const SOME_KEYS: u64 = 32;
/// After so many operations the rate is looked at.
const RATE_EVERY: u64 = 64;

/// What a worker knows of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The version of its value, or the count; 0: absent.
    version: u32,
    /// Milliseconds since 1970 at which it expires; 0: never.
    expires_ms: u64,
}

/// A thread of the soak, with its oracle.
#[derive(Debug)]
pub(super) struct Worker {
    number: u64,
    random: SeededRandom,
    rate: Option<u64>,
    /// For each keyspace what is known of each key.
    known: Vec<Vec<Known>>,
    /// The version that the next write takes.
    next_version: u32,
}

impl Worker {
    pub(super) fn new(plan: &SoakPlan, number: u64) -> Worker {
        let keys = |space: &Space| vec![Known::default(); space.keys(plan) as usize];
        Worker {
            number,
            random: SeededRandom::new(plan.seed ^ (number + 1).wrapping_mul(0x2545_f491_4f6c_dd1d)),
            rate: plan.rate,
            known: SPACES.iter().map(keys).collect(),
            next_version: 1,
        }
    }

    /// Works until the life is over.
    pub(super) fn work(&mut self, shared: &Shared) -> Outcome {
        let (clock, mut done) = (SystemClock::new(), 0);
        while !shared.is_over() {
            self.step(shared).map_err(|failure| failure.during(format!("worker {}", self.number)))?;
            done += 1;
            if done % RATE_EVERY == 0 {
                shared.operations.fetch_add(RATE_EVERY, Ordering::Relaxed);
                if let Some(rate) = self.rate {
                    let due = Duration::from_secs_f64(done as f64 / rate as f64);
                    shared.pause(due.saturating_sub(Duration::from_nanos(clock.monotonic_ns())));
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, shared: &Shared) -> Outcome {
        match self.random.below(100) {
            0..30 => self.put(shared),
            30..45 => self.get(shared),
            45..50 => self.multi_get(shared),
            50..55 => self.scan(shared, false),
            55..59 => self.scan(shared, true),
            59..65 => self.delete(shared),
            65 => self.delete_range(shared),
            66..75 => self.batch(shared),
            75..83 => self.count(shared),
            83..88 => self.put_expiring(shared),
            88..91 => self.get_of_another(shared),
            91..98 => Self::transfer(shared, &self.random),
            _ => self.durable_put(shared),
        }
    }

    /// One of the keyspaces whose values are neither counters nor expire: small values mostly.
    fn some_space(&self) -> usize {
        match self.random.below(10) {
            0..5 => PLAIN,
            5..9 => PACKED,
            _ => LARGE,
        }
    }

    /// One of all keyspaces.
    fn any_space(&self) -> usize {
        [PLAIN, PLAIN, PLAIN, LARGE, PACKED, PACKED, COUNTERS, EXPIRING][self.random.below(8) as usize]
    }

    fn some_key(&self, space: usize) -> usize {
        self.random.below(self.known[space].len() as u64) as usize
    }

    /// Some keys that follow each other.
    fn some_keys(&self, space: usize) -> Range<usize> {
        let first = self.some_key(space);
        first..(first + 1 + self.random.below(SOME_KEYS) as usize).min(self.known[space].len())
    }

    fn key(&self, number: usize) -> Vec<u8> {
        content::key(self.number, number as u64)
    }

    fn new_version(&mut self) -> u32 {
        self.next_version += 1;
        self.next_version
    }

    fn put(&mut self, shared: &Shared) -> Outcome {
        let space = self.some_space();
        let (number, version) = (self.some_key(space), self.new_version());
        let key = self.key(number);
        shared.spaces[space].put(&key, content::value(&SPACES[space], &key, version))?;
        self.known[space][number] = Known { version, expires_ms: 0 };
        Ok(())
    }

    fn durable_put(&mut self, shared: &Shared) -> Outcome {
        // Seldom, because it waits for the device.
        if self.random.below(50) > 0 {
            return self.get(shared);
        }
        let (number, version) = (self.some_key(PLAIN), self.new_version());
        let key = self.key(number);
        shared.spaces[PLAIN].put_with(
            &key,
            content::value(&SPACES[PLAIN], &key, version),
            Durability::Power,
        )?;
        self.known[PLAIN][number] = Known { version, expires_ms: 0 };
        Ok(())
    }

    fn put_expiring(&mut self, shared: &Shared) -> Outcome {
        let space = EXPIRING;
        let (number, version) = (self.some_key(space), self.new_version());
        let key = self.key(number);
        let expires_ms = unix_ms(shared.db.now()) + self.random.below(LONGEST_TTL_MS);
        let expiry = Expiry::At(crate::from_unix_ms(expires_ms));
        shared.spaces[space].put_with(&key, content::value(&SPACES[space], &key, version), expiry)?;
        self.known[space][number] = Known { version, expires_ms };
        Ok(())
    }

    fn count(&mut self, shared: &Shared) -> Outcome {
        let space = COUNTERS;
        let (number, by) = (self.some_key(space), 1 + self.random.below(9) as u32);
        shared.spaces[space].merge(self.key(number), by.to_string())?;
        self.known[space][number].version += by;
        Ok(())
    }

    fn delete(&mut self, shared: &Shared) -> Outcome {
        let space = self.any_space();
        let number = self.some_key(space);
        shared.spaces[space].delete(self.key(number))?;
        self.known[space][number] = Known::default();
        Ok(())
    }

    fn delete_range(&mut self, shared: &Shared) -> Outcome {
        let space = self.any_space();
        let numbers = self.some_keys(space);
        shared.spaces[space].delete_range(self.key(numbers.start)..self.key(numbers.end))?;
        self.known[space][numbers].fill(Known::default());
        Ok(())
    }

    fn batch(&mut self, shared: &Shared) -> Outcome {
        let mut batch = shared.db.batch();
        let mut written = Vec::new();
        for _ in 0..1 + self.random.below(SOME_KEYS) {
            let space = self.some_space();
            let number = self.some_key(space);
            let key = self.key(number);
            let version = if self.random.below(8) == 0 { 0 } else { self.new_version() };
            match version {
                0 => batch.delete(&shared.spaces[space], &key),
                _ => batch.put(&shared.spaces[space], &key, content::value(&SPACES[space], &key, version)),
            }
            written.push((space, number, version));
        }
        shared.db.write(&batch)?;
        for (space, number, version) in written {
            self.known[space][number] = Known { version, expires_ms: 0 };
        }
        Ok(())
    }

    fn get(&mut self, shared: &Shared) -> Outcome {
        let space = self.any_space();
        let number = self.some_key(space);
        let before_ms = unix_ms(shared.db.now());
        let found = shared.spaces[space].get(self.key(number))?;
        self.check(space, number, found.as_deref(), before_ms, unix_ms(shared.db.now()))
    }

    fn multi_get(&mut self, shared: &Shared) -> Outcome {
        let space = self.any_space();
        let numbers: Vec<usize> =
            (0..1 + self.random.below(SOME_KEYS)).map(|_| self.some_key(space)).collect();
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| self.key(*number)).collect();
        let before_ms = unix_ms(shared.db.now());
        let found = shared.spaces[space].multi_get(&keys)?;
        let after_ms = unix_ms(shared.db.now());
        for (number, found) in numbers.into_iter().zip(found) {
            self.check(space, number, found.as_deref(), before_ms, after_ms)?;
        }
        Ok(())
    }

    fn scan(&mut self, shared: &Shared, is_reverse: bool) -> Outcome {
        let space = self.any_space();
        let numbers = self.some_keys(space);
        let before_ms = unix_ms(shared.db.now());
        let range = shared.spaces[space].range(self.key(numbers.start)..self.key(numbers.end));
        let found: Vec<(Value, Value)> = match is_reverse {
            true => range.rev().collect::<esker::Result<_>>()?,
            false => range.collect::<esker::Result<_>>()?,
        };
        let after_ms = unix_ms(shared.db.now());
        let mut found = found.into_iter().peekable();
        let ordered: Box<dyn Iterator<Item = usize>> =
            if is_reverse { Box::new(numbers.rev()) } else { Box::new(numbers) };
        for number in ordered {
            let value = found.next_if(|(key, _)| **key == *self.key(number)).map(|(_, value)| value);
            self.check(space, number, value.as_deref(), before_ms, after_ms)?;
        }
        let over = found.next().map(|(key, _)| key);
        ensure!(
            over.is_none(),
            "SK1: {}: a scan gives {over:?}, out of order or of its range",
            SPACES[space].name
        );
        Ok(())
    }

    /// A key of another worker may have any version, but a whole value.
    fn get_of_another(&mut self, shared: &Shared) -> Outcome {
        let space = self.some_space();
        let other = (self.number + 1 + self.random.below(WORKERS - 1)) % WORKERS;
        let key = content::key(other, self.some_key(space) as u64);
        match shared.spaces[space].get(&key)? {
            Some(found) => content::check_whole(&SPACES[space], &key, &found),
            None => Ok(()),
        }
    }

    /// Moves an amount from one account to another (SK2).
    fn transfer(shared: &Shared, random: &SeededRandom) -> Outcome {
        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        let wanted = random.below(50);
        if from == to {
            return Ok(());
        }
        let (from, to, accounts) = (content::account(from), content::account(to), &shared.accounts);
        let has_all = shared.db.transact(|tx| {
            let left = content::amount(tx.get(accounts, &from)?.as_deref());
            let right = content::amount(tx.get(accounts, &to)?.as_deref());
            let (Some(left), Some(right)) = (left, right) else { return Ok(false) };
            let moved = wanted.min(left);
            tx.put(accounts, &from, (left - moved).to_le_bytes())?;
            tx.put(accounts, &to, (right + moved).to_le_bytes())?;
            Ok(true)
        })?;
        ensure!(has_all, "SK2: an account is missing");
        Ok(())
    }

    /// Compares an answer with what is known of its key (SK1). The read happened between two times.
    fn check(&self, space: usize, number: usize, found: Option<&[u8]>, from_ms: u64, to_ms: u64) -> Outcome {
        let known = self.known[space][number];
        let key = self.key(number);
        let expected = match (known.version, SPACES[space].counts) {
            (0, _) => None,
            (count, true) => Some(count.to_string().into_bytes()),
            (version, false) => Some(content::value(&SPACES[space], &key, version)),
        };
        let may_be_gone = known.expires_ms > 0 && known.expires_ms <= to_ms;
        let must_be_gone = known.expires_ms > 0 && known.expires_ms <= from_ms;
        let is_right = match found {
            None => expected.is_none() || may_be_gone,
            Some(found) => expected.as_deref() == Some(found) && !must_be_gone,
        };
        ensure!(
            is_right,
            "SK1: {}: {} should have version {} (until {}), and the answer between {from_ms} and {to_ms} is {}",
            SPACES[space].name,
            key.escape_ascii(),
            known.version,
            known.expires_ms,
            found.map_or("nothing".to_owned(), |found| format!(
                "{} bytes, {:?}...",
                found.len(),
                found.first_chunk::<4>()
            ))
        );
        Ok(())
    }

    /// Compares all keys of this worker in a keyspace, by one scan of a snapshot (SK1).
    pub(super) fn check_all(&self, space: usize, keyspace: &Keyspace, snapshot: &Snapshot) -> Outcome {
        let view = keyspace.at(snapshot);
        let mut entries = view.prefix(format!("{}/", self.number)).peekable();
        let moment_ms = unix_ms(snapshot.time());
        for number in 0..self.known[space].len() {
            let key = self.key(number);
            let is_next = |entry: &esker::Result<(Value, Value)>| match entry {
                Ok((found, _)) => **found == *key,
                Err(_) => true,
            };
            let found = entries.next_if(is_next).transpose()?.map(|(_, value)| value);
            self.check(space, number, found.as_deref(), moment_ms, moment_ms)?;
        }
        let over = entries.next().transpose()?.map(|(key, _)| key);
        ensure!(over.is_none(), "SK1: {}: {over:?} was never written", SPACES[space].name);
        Ok(())
    }

    /// Bytes of the keys and values of this worker that are alive.
    pub(super) fn live_bytes(&self, db: &Database) -> u64 {
        let now_ms = unix_ms(db.now());
        let mut bytes = 0;
        for (space, known) in SPACES.iter().zip(&self.known) {
            for (number, known) in known.iter().enumerate() {
                if known.version > 0 && (known.expires_ms == 0 || known.expires_ms > now_ms) {
                    bytes += content::entry_bytes(space, &self.key(number), known.version);
                }
            }
        }
        bytes
    }
}
