//! The number of runs that each level of a fluid tree may hold.

use std::fmt;
use std::str::FromStr;

/// The most runs that a level may be allowed.
pub const MAX_RUNS_PER_LEVEL: u32 = 64;
/// The most levels with a number of their own: deeper levels use the last one.
const MAX_NAMED_LEVELS: usize = 8;

/// Runs that each level above the last may hold, from level 0 on; the last number holds for all deeper
/// levels.
///
/// One number is the fluid tree of Dostoevsky (SIGMOD'18). Several allow what LSM-Bush (SIGMOD'19) proposes:
/// more runs in smaller levels. Printed and parsed as `3` or `8/4/2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsPerLevel {
    runs: [u8; MAX_NAMED_LEVELS],
    named: u8,
}

impl RunsPerLevel {
    /// One run in each level: leveling.
    pub const ONE: RunsPerLevel = RunsPerLevel { runs: [1; MAX_NAMED_LEVELS], named: 1 };

    /// The same number for all levels; a number out of range is clamped.
    pub fn same(runs: u32) -> RunsPerLevel {
        let runs = runs.clamp(1, MAX_RUNS_PER_LEVEL) as u8;
        RunsPerLevel { runs: [runs; MAX_NAMED_LEVELS], named: 1 }
    }

    /// One number for each level. `None` unless they are 1 to 8 numbers of 1 to [`MAX_RUNS_PER_LEVEL`].
    pub fn each(numbers: &[u32]) -> Option<RunsPerLevel> {
        let in_range = numbers.iter().all(|runs| (1..=MAX_RUNS_PER_LEVEL).contains(runs));
        if !in_range || numbers.is_empty() || numbers.len() > MAX_NAMED_LEVELS {
            return None;
        }
        let runs = std::array::from_fn(|at| numbers[at.min(numbers.len() - 1)] as u8);
        // Redundant trailing numbers are removed, so that equal settings compare as equal.
        let last = numbers[numbers.len() - 1];
        let named = numbers.iter().rposition(|runs| *runs != last).map_or(1, |at| at + 2);
        Some(RunsPerLevel { runs, named: named as u8 })
    }

    /// Runs that this level may hold, at least one.
    pub fn of(&self, level: u8) -> u32 {
        u32::from(self.runs[usize::from(level).min(MAX_NAMED_LEVELS - 1)])
    }

    pub(crate) fn is_leveled_below_first(&self) -> bool {
        self.runs[1..].iter().all(|runs| *runs == 1)
    }
}

impl fmt::Display for RunsPerLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, runs) in self.runs[..usize::from(self.named)].iter().enumerate() {
            let slash = if at > 0 { "/" } else { "" };
            write!(f, "{slash}{runs}")?;
        }
        Ok(())
    }
}

impl FromStr for RunsPerLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<RunsPerLevel, String> {
        let numbers: Option<Vec<u32>> = text.split('/').map(|number| number.parse().ok()).collect();
        numbers.and_then(|numbers| RunsPerLevel::each(&numbers)).ok_or_else(|| {
            format!(
                "runs per level are up to {MAX_NAMED_LEVELS} numbers from 1 to {MAX_RUNS_PER_LEVEL}, \
                 as in 3 or 8/4/2, not {text:?}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_as_printed() {
        for (text, printed) in [("3", "3"), ("8/4/2", "8/4/2"), ("3/3", "3"), ("4/1/1", "4/1"), ("64", "64")]
        {
            assert_eq!(text.parse::<RunsPerLevel>().unwrap().to_string(), printed);
        }
        for text in ["", "0", "65", "3/", "/3", "3/0", "1/2/3/4/5/6/7/8/9", "-1"] {
            assert!(text.parse::<RunsPerLevel>().unwrap_err().contains("8/4/2"), "{text}");
        }
        assert_eq!("3/3".parse(), Ok(RunsPerLevel::same(3)));
        assert_eq!(RunsPerLevel::same(1), RunsPerLevel::ONE);
    }

    #[test]
    fn the_last_number_holds_for_deeper_levels() {
        let runs: RunsPerLevel = "8/4/2".parse().unwrap();
        assert_eq!([0, 1, 2, 3, 62].map(|level| runs.of(level)), [8, 4, 2, 2, 2]);
        assert!(!runs.is_leveled_below_first());
        assert!("9/1".parse::<RunsPerLevel>().unwrap().is_leveled_below_first());
    }
}
