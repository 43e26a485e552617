//! Memory ledger: accounts of the memory that a database holds beside memtables, block cache and open tables.
//!
//! Each part that needs such memory has an account, and each user of it a [`MemoryHolding`], which says what
//! that user has at present and gives it back when it is dropped, on every path. Metrics show the accounts,
//! and the memory arbiter takes their sum from the block cache.
//!
//! There are three ways to hold memory:
//!
//! * [`MemoryHolding::hold`] counts what the work cannot do without: a block, a piece of a file.
//! * [`MemoryHolding::try_hold`] is for memory that only saves time. It is refused beyond the account's
//!   limit, and so that one user does not take all: beyond a quarter of what the others have left.
//! * [`MemoryAccount::wait_for_turn`] is for pieces that are large beside the budget. They take turns.
//!
//! # Invariants
//! * MB1. What an account holds is the sum of its holdings and turns.
//! * MB2. Memory that only saves time never takes an account beyond its limit.
//! * MB3. A turn that is alone is granted whatever its size. Turns are granted in the order of arrival, and
//!   the holder of one waits for no other: so each waiter gets its turn.
//!
//! # Rejected
//! One counter for all: cursors on several cores would share its line with merges. A counter for each thread:
//! memory is freed by other threads than those that allocated it. Counting each block that a cursor reads:
//! the counts change when a buffer grows or shrinks, which comes with a system call or a merge's block.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of the budget for the windows of all scans: 1/16.
const READ_AHEAD_DIVISOR: u64 = 16;
/// The share of the budget for large values on their way into tables and blob files: 1/8.
const LARGE_VALUES_DIVISOR: u64 = 8;
/// The share of the budget for large values that merges stand on; beyond they wait in files: 1/8.
const LARGE_INPUTS_DIVISOR: u64 = 8;
/// The change after which the block cache is resized: one in so many of the budget.
const UNTOLD_DIVISOR: u64 = 32;
/// A wish is granted up to this part of what the others leave: 1/4.
const WISH_DIVISOR: u64 = 4;

/// The accounts of one database.
#[derive(Debug)]
pub struct MemoryLedger {
    /// Windows of files that scans read ahead.
    pub read_ahead: Arc<MemoryAccount>,
    /// Buffers of flushes, merges and copies: what they read, and the tables and blob files that they write.
    pub jobs: Arc<MemoryAccount>,
    /// Blocks of a mebibyte and more that merges have decompressed: one for each input.
    pub large_inputs: Arc<MemoryAccount>,
    /// Values of a mebibyte and more while they are encoded.
    pub large_values: Arc<MemoryAccount>,
    /// Sort buffers of bulk loads.
    pub loads: Arc<MemoryAccount>,
    /// What the memory arbiter was told last, and the change that it is told of.
    told_bytes: AtomicU64,
    untold_bytes: u64,
}

/// One account: its limit, and what is held.
#[derive(Debug)]
pub struct MemoryAccount {
    limit_bytes: u64,
    held_bytes: AtomicU64,
    turns: Mutex<Turns>,
    ended: Condvar,
}

/// The turns of an account.
#[derive(Debug, Default)]
struct Turns {
    /// Bytes of those granted and not ended.
    bytes: u64,
    /// The number of the next to arrive, and of the next to be granted.
    arrived: u64,
    granted: u64,
}

/// What one user holds of an account; nothing at first.
#[derive(Debug, Default)]
pub struct MemoryHolding {
    account: Option<Arc<MemoryAccount>>,
    bytes: u64,
}

/// The right to hold so many bytes; ends when it is dropped.
#[derive(Debug)]
pub struct MemoryTurn {
    account: Arc<MemoryAccount>,
    bytes: u64,
}

impl MemoryLedger {
    /// The accounts of a database with this memory budget.
    pub fn for_budget(budget_bytes: u64) -> Arc<MemoryLedger> {
        Arc::new(MemoryLedger {
            read_ahead: MemoryAccount::new(budget_bytes / READ_AHEAD_DIVISOR),
            jobs: MemoryAccount::new(u64::MAX),
            large_inputs: MemoryAccount::new(budget_bytes / LARGE_INPUTS_DIVISOR),
            large_values: MemoryAccount::new(budget_bytes / LARGE_VALUES_DIVISOR),
            loads: MemoryAccount::new(u64::MAX),
            told_bytes: AtomicU64::new(0),
            untold_bytes: budget_bytes / UNTOLD_DIVISOR,
        })
    }

    /// Accounts without limits.
    pub fn unlimited() -> Arc<MemoryLedger> {
        MemoryLedger::for_budget(u64::MAX)
    }

    /// Bytes of all accounts.
    pub fn held_bytes(&self) -> u64 {
        let all = [&self.read_ahead, &self.jobs, &self.large_inputs, &self.large_values, &self.loads];
        all.iter().map(|account| account.held_bytes()).sum()
    }

    /// As [`MemoryLedger::held_bytes`]; the caller resizes the block cache accordingly.
    pub fn tell_bytes(&self) -> u64 {
        let bytes = self.held_bytes();
        self.told_bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// Whether the block cache should be resized, because much more or less is held than was told.
    pub fn has_untold_bytes(&self) -> bool {
        self.held_bytes().abs_diff(self.told_bytes.load(Ordering::Relaxed)) > self.untold_bytes
    }
}

impl MemoryAccount {
    /// An account with nothing in it.
    pub fn new(limit_bytes: u64) -> Arc<MemoryAccount> {
        Arc::new(MemoryAccount {
            limit_bytes,
            held_bytes: AtomicU64::new(0),
            turns: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Bytes held at present.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Waits until so many bytes fit the limit beside the other turns, or there is none, and holds them.
    /// The caller has no turn of this account and takes no lock until the turn has ended.
    pub fn wait_for_turn(self: &Arc<Self>, bytes: u64) -> MemoryTurn {
        let mut turns = self.turns.lock();
        let number = turns.arrived;
        turns.arrived += 1;
        while turns.granted != number
            || (turns.bytes > 0 && turns.bytes.saturating_add(bytes) > self.limit_bytes)
        {
            self.ended.wait(&mut turns);
        }
        turns.granted += 1;
        turns.bytes += bytes;
        drop(turns);
        // The next one may fit as well.
        self.ended.notify_all();
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        MemoryTurn { account: Arc::clone(self), bytes }
    }
}

impl MemoryHolding {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds so many bytes from now on, instead of those before.
    pub fn hold(&mut self, account: &Arc<MemoryAccount>, bytes: u64) {
        if bytes == self.bytes {
            return;
        }
        let account = self.account.get_or_insert_with(|| Arc::clone(account));
        // Wraps for a holding that shrinks.
        account.held_bytes.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Gives everything back.
    #[inline]
    pub fn release(&mut self) {
        if self.bytes > 0
            && let Some(account) = &self.account
        {
            account.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            self.bytes = 0;
        }
    }

    /// As [`MemoryHolding::hold`], unless that is more than before and takes more than a quarter of what the
    /// other users leave of the limit (MB2); then nothing changes.
    pub fn try_hold(&mut self, account: &Arc<MemoryAccount>, bytes: u64) -> bool {
        if bytes > self.bytes {
            let account = self.account.get_or_insert_with(|| Arc::clone(account));
            let (own, limit) = (self.bytes, account.limit_bytes);
            let granted = |held: u64| {
                let left = limit.saturating_sub(held - own);
                (bytes <= left / WISH_DIVISOR).then(|| held - own + bytes)
            };
            if account.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, granted).is_err() {
                return false;
            }
            self.bytes = bytes;
            return true;
        }
        self.hold(account, bytes);
        true
    }
}

impl Drop for MemoryHolding {
    #[inline]
    fn drop(&mut self) {
        self.release();
    }
}

impl Drop for MemoryTurn {
    fn drop(&mut self) {
        self.account.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.turns.lock().bytes -= self.bytes;
        self.account.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use std::sync::mpsc;

    /// MB1 and MB2, on random holdings that grow, shrink and end.
    #[test]
    fn an_account_is_the_sum_of_its_holdings_and_wishes_stay_within_the_limit() {
        const LIMIT: u64 = 1000;
        let (account, random) = (MemoryAccount::new(LIMIT), SeededRandom::new(3));
        let (mut holdings, mut refused): (Vec<MemoryHolding>, u32) = (Vec::new(), 0);
        for _ in 0..5_000 {
            if holdings.len() < 8 {
                holdings.push(MemoryHolding::default());
            }
            let at = random.below(holdings.len() as u64) as usize;
            let before = account.held_bytes();
            match random.below(4) {
                0 => drop(holdings.swap_remove(at)),
                1 => holdings[at].hold(&account, random.below(300)),
                _ => {
                    let (own, wanted) = (holdings[at].bytes(), random.below(300));
                    let is_held = holdings[at].try_hold(&account, wanted);
                    assert_eq!(holdings[at].bytes(), if is_held { wanted } else { own });
                    assert!(is_held || wanted > own, "memory can always be given back");
                    assert!(!is_held || wanted <= own || before - own + wanted <= LIMIT, "MB2");
                    refused += u32::from(!is_held);
                }
            }
            assert_eq!(account.held_bytes(), holdings.iter().map(MemoryHolding::bytes).sum::<u64>(), "MB1");
        }
        assert!(refused > 100, "{refused}");
        drop(holdings);
        assert_eq!(account.held_bytes(), 0);
    }

    #[test]
    fn many_wishes_are_all_granted_something() {
        let account = MemoryAccount::new(4 << 20);
        let mut holdings: Vec<MemoryHolding> = Vec::new();
        for _ in 0..12 {
            let mut holding = MemoryHolding::default();
            let mut wanted = 2 << 20;
            while !holding.try_hold(&account, wanted) {
                wanted /= 2;
            }
            assert!(wanted >= 8 << 10, "{wanted} after {}", holdings.len());
            holdings.push(holding);
        }
    }

    #[test]
    fn a_change_is_told_once() {
        let ledger = MemoryLedger::for_budget(3200);
        let mut held = MemoryHolding::default();
        for (bytes, is_news) in [(100, false), (101, true), (200, false), (0, true)] {
            held.hold(&ledger.jobs, bytes);
            assert_eq!(ledger.has_untold_bytes(), is_news, "{bytes}");
            if is_news {
                assert_eq!(ledger.tell_bytes(), bytes);
                assert!(!ledger.has_untold_bytes());
            }
        }
    }

    /// MB3: what is larger than the limit is granted alone, and those that came later wait for it.
    #[test]
    fn turns_are_granted_in_order_and_a_large_one_is_alone() {
        let account = MemoryAccount::new(100);
        let first = account.wait_for_turn(60);
        let second = account.wait_for_turn(40);
        assert_eq!(account.held_bytes(), 100);
        let (told, order) = mpsc::channel();
        let wait_for = |bytes: u64, behind: u64| {
            let (account, told) = (Arc::clone(&account), told.clone());
            let waiting = Arc::clone(&account);
            let thread = crate::Env::real().spawn("turn", move || {
                let turn = waiting.wait_for_turn(bytes);
                told.send((bytes, waiting.held_bytes())).unwrap();
                drop(turn);
            });
            while account.turns.lock().arrived <= behind {
                std::thread::yield_now();
            }
            thread.unwrap()
        };
        let threads = [wait_for(500, 2), wait_for(10, 3)];
        drop(first);
        assert!(order.try_recv().is_err(), "the small one does not overtake the large one");
        drop(second);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let seen: Vec<(u64, u64)> = order.try_iter().collect();
        assert_eq!(seen.iter().map(|turn| turn.0).collect::<Vec<_>>(), [500, 10]);
        assert!(seen[0].1 == 500 && account.held_bytes() == 0, "{seen:?}");
    }
}
