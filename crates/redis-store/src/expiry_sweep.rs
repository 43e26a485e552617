//! Active expiry: deletes keys when their time has come, without a command that asks for them (KR1).

use crate::layout::{PhysicalDb, Space, expiry_key};
use crate::locks::{Access, Held};
use crate::notifications::{Interest, Told};
use crate::store::Store;
use crate::txn::{Stalls, Txn};
use esker::{Result, SeqNo};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keys of one round, which are looked up and then deleted one after the other.
const KEYS_OF_A_ROUND: usize = 256;

/// Rounds of a database in one sweep: two thousand keys, a twentieth of a second. A sweep walks over what was
/// deleted of the millisecond at which it begins, so fewer would walk more often where many keys have one
/// time.
const ROUNDS_OF_A_SWEEP: usize = 8;

/// How long a key's stripe is waited for. Groups of commands hold theirs for less.
const STRIPE_WAIT: Duration = Duration::from_millis(2);

/// The time of a key, and the key.
type Due = (u64, Vec<u8>);

/// What one key's deletion told, and the number of its batch.
#[derive(Debug)]
pub struct Expired {
    /// Changed keys and events.
    pub told: Told,
    /// The batch; `None` if the key was alive after all.
    pub seqno: Option<SeqNo>,
}

impl Store {
    /// Deletes keys of all databases whose time has come by `now_ms`, at most some hundred of each database.
    /// Each is deleted under its stripe; `observe` is called before that is freed. Returns when the next one
    /// is due: a time up to `now_ms` if more are due already, the greatest time if no key expires.
    ///
    /// # Errors
    /// Those of the engine, `WouldStall` among them; some keys may be deleted already.
    pub fn sweep_expired(
        &self,
        now_ms: u64,
        interest: Interest,
        observe: &mut dyn FnMut(Expired),
    ) -> Result<u64> {
        // An expiry that is set meanwhile lowers it again.
        let from_ms = self.next_expiry_ms.swap(u64::MAX, Ordering::AcqRel);
        let swept = self.sweep_all(from_ms, now_ms, interest, observe);
        // After a failure keys are due still.
        let next_ms = *swept.as_ref().unwrap_or(&from_ms);
        self.next_expiry_ms.fetch_min(next_ms, Ordering::AcqRel);
        swept.map(|_| self.next_expiry_ms.load(Ordering::Acquire))
    }

    /// No key expires before `from_ms`. Returns when the first does that is left.
    fn sweep_all(
        &self,
        from_ms: u64,
        now_ms: u64,
        interest: Interest,
        observe: &mut dyn FnMut(Expired),
    ) -> Result<u64> {
        let mut next_ms = u64::MAX;
        for db in 0..self.databases() {
            next_ms = next_ms.min(self.sweep_database(db, from_ms, now_ms, interest, observe)?);
        }
        Ok(next_ms)
    }

    fn sweep_database(
        &self,
        db: u16,
        from_ms: u64,
        now_ms: u64,
        interest: Interest,
        observe: &mut dyn FnMut(Expired),
    ) -> Result<u64> {
        let physical = self.physical(db);
        let end = expiry_key(PhysicalDb(physical.0 + 1), 0, &[]);
        let mut from = expiry_key(physical, from_ms, &[]);
        let (mut left_ms, mut last_ms) = (u64::MAX, from_ms);
        for _ in 0..ROUNDS_OF_A_SWEEP {
            let (due, later_ms) = self.due(from..end.clone(), now_ms)?;
            for (expiry_ms, key) in &due {
                if !self.expire_in(db, Some(physical), key, interest, observe)? {
                    left_ms = left_ms.min(*expiry_ms);
                }
            }
            let Some((expiry_ms, key)) = due.last().filter(|_| due.len() == KEYS_OF_A_ROUND) else {
                return Ok(left_ms.min(later_ms));
            };
            // The next round begins behind the last key of this one.
            from = expiry_key(physical, *expiry_ms, key);
            from.push(0);
            last_ms = *expiry_ms;
        }
        Ok(left_ms.min(last_ms))
    }

    /// No key expires before this time, in milliseconds since 1970; zero until the first sweep.
    pub fn next_expiry_ms(&self) -> u64 {
        self.next_expiry_ms.load(Ordering::Acquire)
    }

    /// Up to this time, in milliseconds since 1970, expired keys are not deleted; readers do not see them all
    /// the same. The caller holds the stripes of all keys if the time becomes later.
    pub fn keep_expired_until(&self, until_ms: u64) {
        self.kept_expired_until_ms.store(until_ms, Ordering::Release);
    }

    /// What [`Store::keep_expired_until`] has set.
    pub fn kept_expired_until(&self) -> u64 {
        self.kept_expired_until_ms.load(Ordering::Acquire)
    }

    /// Keys that are due, of a range of the index of expiries, each with its time, and when the first that is
    /// not will be.
    fn due(&self, range: Range<Vec<u8>>, now_ms: u64) -> Result<(Vec<Due>, u64)> {
        let mut due = Vec::new();
        for key in self.space(Space::Expiries).keys(range) {
            let key = key?;
            let Some(expiry_ms) = key.get(2..10).and_then(|bytes| bytes.try_into().ok()) else { continue };
            let expiry_ms = u64::from_be_bytes(expiry_ms);
            if expiry_ms > now_ms {
                return Ok((due, expiry_ms));
            }
            due.push((expiry_ms, key[10..].to_vec()));
            if due.len() == KEYS_OF_A_ROUND {
                return Ok((due, now_ms));
            }
        }
        Ok((due, u64::MAX))
    }

    /// Deletes a key if it has expired. `false` if its stripe could not be had soon, or if expired keys are
    /// kept: a later sweep meets the key again. A thread that serves clients calls this as well, and a script
    /// may hold the stripe for ever.
    ///
    /// # Errors
    /// As [`Store::sweep_expired`].
    pub fn expire(
        &self,
        db: u16,
        key: &[u8],
        interest: Interest,
        observe: &mut dyn FnMut(Expired),
    ) -> Result<bool> {
        self.expire_in(db, None, key, interest, observe)
    }

    /// The same; `false` also if the database is not `physical` any more, because it was exchanged.
    fn expire_in(
        &self,
        db: u16,
        physical: Option<PhysicalDb>,
        key: &[u8],
        interest: Interest,
        observe: &mut dyn FnMut(Expired),
    ) -> Result<bool> {
        let mut held = Held::new(&self.stripes);
        if !held.wait_at_most(&mut vec![self.stripes.of(db, key)], Access::Exclusive, STRIPE_WAIT) {
            return Ok(false);
        }
        // Databases are exchanged under all stripes.
        if physical.is_some_and(|physical| physical != self.physical(db)) {
            return Ok(false);
        }
        let mut txn = Txn::new(self, interest);
        if txn.now_ms() <= self.kept_expired_until() {
            return Ok(false);
        }
        let mut entry = txn.entry(db, key)?;
        txn.bury_expired(&mut entry)?;
        let seqno = txn.commit(Stalls::Fail)?;
        observe(Expired { told: txn.take_told(), seqno });
        Ok(true)
    }
}
