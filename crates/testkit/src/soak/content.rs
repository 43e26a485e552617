//! The keyspaces of the soak, and the keys and values in them: a value follows from its key and its version.

use crate::soak::SoakPlan;
use crate::{Outcome, ensure};
use esker::merge::MergeOperator;
use esker::parts::base::checksum;
use esker::{Database, Keyspace, KeyspaceOptions};

/// The budget for which [`Space::keys`] are written.
const USUAL_BUDGET_BYTES: u64 = 64 << 20;

/// The accounts that transactions move amounts between.
pub(super) const ACCOUNTS: u64 = 100;
/// What each of them begins with.
const FIRST_AMOUNT: u64 = 1_000;

/// A keyspace of the soak.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) name: &'static str,
    /// Options by name.
    options: &'static [(&'static str, &'static str)],
    /// Keys of each worker, with a budget of [`USUAL_BUDGET_BYTES`].
    keys: u64,
    /// The shortest and the longest value.
    value_bytes: (u64, u64),
    /// Whether values are counters, changed by merges.
    pub(super) counts: bool,
}

/// The places of keyspaces in [`SPACES`].
pub(super) const PLAIN: usize = 0;
pub(super) const LARGE: usize = 1;
pub(super) const PACKED: usize = 2;
pub(super) const COUNTERS: usize = 3;
pub(super) const EXPIRING: usize = 4;

/// All keyspaces. Together some ten times the usual budget.
pub(super) const SPACES: [Space; 5] = [
    Space { name: "plain", options: &[], keys: 160_000, value_bytes: (100, 900), counts: false },
    Space {
        name: "large",
        options: &[("blob_threshold", "4KiB")],
        keys: 4_000,
        value_bytes: (2 << 10, 64 << 10),
        counts: false,
    },
    Space {
        name: "packed",
        options: &[("strategy", "lazy-leveled:4"), ("compression", "zstd"), ("memtable", "skiplist")],
        keys: 80_000,
        value_bytes: (50, 1_500),
        counts: false,
    },
    Space { name: "counters", options: &[], keys: 20_000, value_bytes: (0, 0), counts: true },
    Space { name: "expiring", options: &[], keys: 20_000, value_bytes: (20, 400), counts: false },
];

impl Space {
    /// The keyspace, created with its options if it is missing.
    pub(super) fn open(&self, db: &Database) -> Outcome<Keyspace> {
        let mut options = KeyspaceOptions::default();
        for (name, value) in self.options {
            options = options.set(name, value)?;
        }
        if self.counts {
            options = options.merge_operator(MergeOperator::counter_wrapping());
        }
        Ok(db.keyspace_with(self.name, options)?)
    }

    /// Keys of each worker.
    pub(super) fn keys(&self, plan: &SoakPlan) -> u64 {
        (self.keys * plan.budget_bytes / USUAL_BUDGET_BYTES).max(64)
    }
}

/// The key with this number of a worker.
pub(super) fn key(worker: u64, number: u64) -> Vec<u8> {
    format!("{worker}/{number:08}").into_bytes()
}

/// The value of a key in its version, half of it incompressible.
pub(super) fn value(space: &Space, key: &[u8], version: u32) -> Vec<u8> {
    let mut state = checksum::xxh3_64(key) ^ u64::from(version);
    let (least, most) = space.value_bytes;
    let len = (least + checksum::xxh3_64(&state.to_le_bytes()) % (most - least + 1)) as usize;
    let mut bytes = Vec::with_capacity(len + 16);
    bytes.extend(version.to_le_bytes());
    while bytes.len() < len {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend(state.to_le_bytes());
        bytes.extend(b"a value ");
    }
    bytes.truncate(len.max(4));
    bytes
}

/// The bytes of a key with its value.
pub(super) fn entry_bytes(space: &Space, key: &[u8], version: u32) -> u64 {
    let (least, most) = space.value_bytes;
    let state = checksum::xxh3_64(key) ^ u64::from(version);
    key.len() as u64 + least + checksum::xxh3_64(&state.to_le_bytes()) % (most - least + 1)
}

/// Checks that a value is whole, whatever its version (SK1 for keys of another worker).
pub(super) fn check_whole(space: &Space, key: &[u8], found: &[u8]) -> Outcome {
    let version = found.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let is_whole = version.is_some_and(|version| value(space, key, version) == found);
    ensure!(is_whole, "{}: the value of {} is not whole", space.name, key.escape_ascii());
    Ok(())
}

/// The name of an account.
pub(super) fn account(number: u64) -> Vec<u8> {
    format!("account {number:03}").into_bytes()
}

/// What an account holds.
pub(super) fn amount(found: Option<&[u8]>) -> Option<u64> {
    Some(u64::from_le_bytes(found?.try_into().ok()?))
}

/// The keyspace of the accounts; those that are missing get their first amount.
pub(super) fn open_accounts(db: &Database) -> Outcome<Keyspace> {
    let accounts = db.keyspace("accounts")?;
    for number in 0..ACCOUNTS {
        accounts.put_if_absent(account(number), FIRST_AMOUNT.to_le_bytes())?;
    }
    Ok(accounts)
}

/// Checks the sum of entries that are the accounts (SK2).
pub(super) fn check_accounts(
    place: &str,
    entries: impl Iterator<Item = esker::Result<(esker::Value, esker::Value)>>,
) -> Outcome {
    let (mut count, mut sum) = (0, 0u64);
    for entry in entries {
        let (key, found) = entry?;
        let Some(amount) = amount(Some(&found)) else {
            return Err(crate::Failure::new(format!("{place}: {} is no amount", key.escape_ascii())));
        };
        (count, sum) = (count + 1, sum.wrapping_add(amount));
    }
    let expected = ACCOUNTS * FIRST_AMOUNT;
    ensure!(
        count == ACCOUNTS && sum == expected,
        "SK2: {place}: {count} accounts with {sum}, not {expected}"
    );
    Ok(())
}
