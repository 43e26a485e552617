//! Retention: which backups are removed, as a pure function of their ages.

use super::backup::BackupInfo;
use esker_view::time::to_ms;
use std::time::Duration;

/// The rule by which [`Backups::retain`](crate::backup::Backups::retain) keeps backups. A backup stays if any part of the rule keeps
/// it; the newest always stays.
///
/// ```
/// use std::time::Duration;
/// // The last three, and everything of the last week.
/// let rule = esker::backup::Retention::keep_last(3).and_within(Duration::from_secs(7 * 24 * 3600));
/// # let _ = rule;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    last: usize,
    within: Option<Duration>,
}

impl Retention {
    /// Keeps this many of the newest backups; at least one.
    pub fn keep_last(count: usize) -> Retention {
        Retention { last: count.max(1), within: None }
    }

    /// Keeps the backups that are not older than this, and the newest.
    pub fn keep_within(age: Duration) -> Retention {
        Retention { last: 1, within: Some(age) }
    }

    /// Also keeps the backups that are not older than this.
    #[must_use]
    pub fn and_within(self, age: Duration) -> Retention {
        Retention { within: Some(age), ..self }
    }

    /// The backups to remove, of a list in the order in which they were made.
    pub(crate) fn expired<'b>(&self, backups: &'b [BackupInfo], now_ms: u64) -> Vec<&'b BackupInfo> {
        let kept_from = backups.len().saturating_sub(self.last);
        let is_young = |backup: &BackupInfo| {
            self.within.is_some_and(|within| {
                u128::from(now_ms.saturating_sub(to_ms(backup.created))) <= within.as_millis()
            })
        };
        backups[..kept_from].iter().filter(|backup| !is_young(backup)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::backup::BackupId;
    use esker_view::time::from_ms;

    fn expired(rule: Retention, created: &[u64], now_ms: u64) -> Vec<u64> {
        let backups: Vec<BackupInfo> = created
            .iter()
            .zip(1..)
            .map(|(&created_ms, id)| BackupInfo {
                created: from_ms(created_ms),
                ..BackupInfo::of(BackupId(id))
            })
            .collect();
        rule.expired(&backups, now_ms).iter().map(|backup| to_ms(backup.created)).collect()
    }

    #[test]
    fn a_backup_stays_if_any_part_of_the_rule_keeps_it() {
        let ages = [100, 200, 300, 400];
        assert_eq!(expired(Retention::keep_last(2), &ages, 1000), [100, 200]);
        assert_eq!(expired(Retention::keep_last(9), &ages, 1000), [0u64; 0]);
        assert_eq!(expired(Retention::keep_last(0), &ages, 1000), [100, 200, 300]);
        let within = Duration::from_millis(700);
        assert_eq!(expired(Retention::keep_within(within), &ages, 1000), [100, 200]);
        assert_eq!(expired(Retention::keep_within(within), &ages, 9000), [100, 200, 300]);
        assert_eq!(expired(Retention::keep_last(3).and_within(within), &ages, 1000), [100]);
        assert_eq!(expired(Retention::keep_last(1), &[], 1000), [0u64; 0]);
    }
}
