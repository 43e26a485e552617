//! The options of compaction strategies.

use std::fmt;
use std::str::FromStr;

const MIB: u64 = 1 << 20;

/// The size ratio of adjacent levels in 1/1000: 1.5 to 32. Decisions need no floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeRatio(u32);

impl SizeRatio {
    /// The ratio that most stores use for leveling.
    pub const TEN: SizeRatio = SizeRatio(10_000);
    /// A ratio that suits tiering.
    pub const FOUR: SizeRatio = SizeRatio(4_000);

    /// The golden ratio, to three digits.
    pub const GOLDEN: SizeRatio = SizeRatio(1_618);

    /// The ratio given in 1/1000; `None` outside of 1.5 to 32.
    pub const fn from_permille(permille: u32) -> Option<SizeRatio> {
        if permille >= 1_500 && permille <= 32_000 { Some(SizeRatio(permille)) } else { None }
    }

    /// The ratio in 1/1000.
    pub const fn permille(self) -> u32 {
        self.0
    }

    /// `value` times the ratio, rounded up, saturating.
    pub(crate) fn times(self, value: u128) -> u128 {
        value.saturating_mul(u128::from(self.0)).div_ceil(1000)
    }

    pub(crate) fn divide(self, value: u128) -> u128 {
        value.saturating_mul(1000) / u128::from(self.0)
    }

    /// Runs that a full tiered level holds between merges: one less than the ratio, rounded up, at least one.
    pub const fn tier_runs(self) -> u32 {
        let runs = self.0.div_ceil(1000) - 1;
        if runs == 0 { 1 } else { runs }
    }
}

impl fmt::Display for SizeRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:03}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for SizeRatio {
    type Err = String;

    fn from_str(text: &str) -> Result<SizeRatio, String> {
        let wrong =
            || format!("a size ratio is a number from 1.5 to 32 with at most 3 decimals, not {text:?}");
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let only_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !only_digits(whole) || !only_digits(decimals) || whole.len() > 2 || decimals.len() > 3 {
            return Err(wrong());
        }
        let thousandths: u32 = format!("{decimals:0<3}").parse().map_err(|_| wrong())?;
        let whole: u32 = whole.parse().map_err(|_| wrong())?;
        SizeRatio::from_permille(whole * 1000 + thousandths).ok_or_else(wrong)
    }
}

/// All inputs of planning besides the tree and the strategy itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyOptions {
    /// Bytes of one flush; the unit of level 0's limits.
    pub memtable_bytes: u64,
    /// The size of output tables. If `None` it follows from the last level: 1/1024 of it, a power of two,
    /// from [`StrategyOptions::least_table_bytes`] to 1 GiB.
    pub table_bytes: Option<u64>,
    /// The smallest size of output tables where it follows from the data. Until a table ends, eight bytes of
    /// each key are in memory, then its filter as well, twice: for entries of 16 bytes two thirds of the
    /// table's size.
    pub least_table_bytes: u64,
    /// The approximate limit of the bytes one job rewrites. If `None`, the partitioned strategy uses two
    /// tables and at least 32 MiB, partial leveling likewise, and the golden ratio at most 64 MiB; the others
    /// merge whole levels. If set, the others proceed key range by key range where their rules allow it, so
    /// that they need less transient space and level 0 is not blocked for long.
    pub max_job_bytes: Option<u64>,
    /// Runs in level 0 that start a merge where the strategy does not fix the number. If `None`: 4 for
    /// leveling, 8 for partial leveling, 2 for the golden ratio.
    pub level0_trigger_runs: Option<u32>,
    /// Most runs of one level in a merge. If `None`: twice the trigger in level 0, all of any other level.
    pub max_job_runs: Option<u32>,
    /// Runs in level 0 at which writes stop; merging becomes urgent half-way between the trigger and this.
    pub level0_hard_runs: u32,
    /// The partitioned strategy: runs that make a tier.
    pub tier_runs: u32,
    /// The partitioned strategy: how many bytes may lie above the last level before they are merged, in
    /// 1/1000 of the last level. A flush and the data that arrives during a merge come on top; where flushes
    /// are large against the last level, merging begins earlier, down to two thirds of this. With 190 all
    /// tables stay at 1.23 of the live data at ten million entries of 116 bytes in memtables of 64 MiB, with
    /// writes at full speed. Bytes that overwrite nothing count for less, so that up to 600 of new keys may
    /// lie there.
    pub garbage_permille: u32,
    /// The partitioned strategy: the budget above the last level is at least this, or a tier of flushes if
    /// that is less. The first flush of a growing store is its whole last level; with a relative budget alone
    /// every following flush would rewrite the whole store.
    pub small_garbage_bytes: u64,
    /// When idle, the data above a partition of the last level is merged into it if it is at least this share
    /// of the partition, in 1/1000, so that a trickle of writes with pauses does not rewrite the store in
    /// each pause. 0 merges everything.
    pub idle_permille: u32,
    /// Whether plans may consume slices of tables. Without, jobs grow until they end at table borders.
    pub slices: bool,
    /// The space target: the most bytes of all tables, in 1/1000 of the live data.
    pub max_space_amp_permille: Option<u64>,
    /// How many jobs may run at once.
    pub jobs: u32,
    /// The delete-persistence target: how long after a delete or an expiry its data may stay.
    pub delete_within_ms: Option<u64>,
    /// How long before that deadline the merge is planned; an eighth of the target if `None`.
    pub delete_reserve_ms: Option<u64>,
    /// The most bytes of blob files, in 1/1000 of their live bytes.
    pub blob_space_amp_permille: u32,
}

/// Bytes that an idle database may rewrite in one idle period beyond what pays off, and in a day: a store of
/// 10 GiB, half as much again above its last level, and a second pause. The tree converges completely as long
/// as this lasts ([`StrategyOptions::idle_permille`] is 0 then).
pub const IDLE_BUDGET_BYTES: u64 = 16 << 30;

impl Default for StrategyOptions {
    fn default() -> StrategyOptions {
        StrategyOptions {
            memtable_bytes: 64 * MIB,
            table_bytes: None,
            least_table_bytes: 16 * MIB,
            max_job_bytes: None,
            level0_trigger_runs: None,
            max_job_runs: None,
            level0_hard_runs: 24,
            tier_runs: 8,
            garbage_permille: 190,
            small_garbage_bytes: 64 * MIB,
            idle_permille: 100,
            slices: true,
            max_space_amp_permille: None,
            jobs: 1,
            delete_within_ms: None,
            delete_reserve_ms: None,
            blob_space_amp_permille: 1500,
        }
    }
}

impl StrategyOptions {
    /// The size of output tables for a last level of this size.
    pub fn table_bytes(&self, last_bytes: u64) -> u64 {
        self.table_bytes.unwrap_or_else(|| {
            let share = (last_bytes / 1024).max(1);
            (1 << share.ilog2()).clamp(self.least_table_bytes.min(1024 * MIB), 1024 * MIB)
        })
    }

    /// When the merge of data that was deleted or expired at `oldest_delete_ms` is due.
    pub fn delete_due_ms(&self, oldest_delete_ms: u64) -> Option<u64> {
        let within = self.delete_within_ms?;
        let reserve = self.delete_reserve_ms.unwrap_or(within / 8);
        Some(oldest_delete_ms.saturating_add(within).saturating_sub(reserve))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_read_back_as_printed() {
        for text in ["1.5", "1.618", "2", "4", "10", "32", "3.05"] {
            assert_eq!(text.parse::<SizeRatio>().unwrap().to_string(), text);
        }
        for text in ["", "1", "1.4999", "33", "32.001", "-2", "2.", ".5", "1e1", "٤"] {
            assert!(text.parse::<SizeRatio>().is_err(), "{text}");
        }
    }

    #[test]
    fn runs_of_a_tier() {
        let runs = |text: &str| text.parse::<SizeRatio>().unwrap().tier_runs();
        assert_eq!([runs("1.5"), runs("2"), runs("2.5"), runs("4"), runs("10")], [1, 1, 2, 3, 9]);
    }

    #[test]
    fn tables_grow_with_the_data() {
        let options = StrategyOptions::default();
        assert_eq!(options.table_bytes(0), 16 * MIB);
        assert_eq!(options.table_bytes(1100 * MIB), 16 * MIB);
        assert_eq!(options.table_bytes(108 << 30), 64 * MIB);
        assert_eq!(options.table_bytes(u64::MAX), 1024 * MIB);
        let small = StrategyOptions { least_table_bytes: 4 * MIB, ..options };
        assert_eq!(
            [0, 1100 * MIB, 9 << 30].map(|bytes| small.table_bytes(bytes)),
            [4 * MIB, 4 * MIB, 8 * MIB]
        );
        assert_eq!(options.max_job_bytes(108 << 30), 128 * MIB);
    }
}
