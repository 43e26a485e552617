//! The stored record of an unfinished change of strategy.

use esker_base::FileNumber;
use esker_strategy::{Migration, Strategy};
use std::fmt;
use std::str::FromStr;

/// The stored state of an unfinished change of strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct MigrationRecord {
    /// The strategy before.
    pub from: Strategy,
    /// Files with a smaller number were written before the change.
    pub first_new: FileNumber,
    /// Bytes that were out of form at the change.
    pub bytes: u64,
    /// Whether old files are left as they are.
    pub is_paused: bool,
}

impl MigrationRecord {
    /// The form that strategies take.
    pub fn migration(&self) -> Migration {
        Migration { first_new: self.first_new, is_paused: self.is_paused }
    }
}

impl fmt::Display for MigrationRecord {
    /// `leveled:10 120 4096 running`: the strategy before, the first new file, bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_paused { "paused" } else { "running" };
        write!(f, "{} {} {} {state}", self.from, self.first_new.get(), self.bytes)
    }
}

impl FromStr for MigrationRecord {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<MigrationRecord, String> {
        let wrong = || format!("{text:?} is no migration");
        let words: Vec<&str> = text.split(' ').collect();
        let [from, first_new, bytes, state @ ("running" | "paused")] = words[..] else { return Err(wrong()) };
        let first_new = FileNumber(first_new.parse().map_err(|_| wrong())?);
        let bytes = bytes.parse().map_err(|_| wrong())?;
        Ok(MigrationRecord { from: from.parse()?, first_new, bytes, is_paused: state == "paused" })
    }
}
