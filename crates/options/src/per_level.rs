//! Settings for each level of a tree.

use esker_version::LevelIndex;
use std::fmt::Display;

/// The number of levels with settings of their own: all above the last.
const MAX_LEVELS: usize = LevelIndex::LAST.get() as usize;

/// A setting for each level: a list from level 0 on, whose last element holds for all deeper levels, and
/// optionally another value for the last level, which holds most of the data.
///
/// Every tree has a last level, however few levels there are above it.
///
/// ```
/// use esker_options::PerLevel;
///
/// let everywhere = PerLevel::all("lz4");
/// let deeper_smaller = PerLevel::levels(["none", "lz4"]).with_last("zstd:10");
/// assert_eq!(deeper_smaller.last(), "zstd:10");
/// assert_ne!(everywhere, deeper_smaller);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PerLevel<T> {
    /// For level 0; always present.
    first: T,
    /// For the levels from 1 on.
    deeper: Vec<T>,
    last: Option<T>,
}

impl<T: Copy> PerLevel<T> {
    /// The same value everywhere.
    pub const fn all(value: T) -> PerLevel<T> {
        PerLevel { first: value, deeper: Vec::new(), last: Some(value) }
    }

    /// One value above the last level, which data passes through, and one for the last.
    pub const fn split(upper: T, last: T) -> PerLevel<T> {
        PerLevel { first: upper, deeper: Vec::new(), last: Some(last) }
    }

    /// A value for each level from level 0 on; the last one holds for all that follow, the last level
    /// included.
    ///
    /// # Panics
    /// If there is none, or more than 63, which are all levels above the last.
    pub fn levels(values: impl IntoIterator<Item = T>) -> PerLevel<T> {
        let mut values = values.into_iter();
        let first = values.next().expect("a choice for level 0");
        let deeper: Vec<T> = values.collect();
        assert!(deeper.len() < MAX_LEVELS, "{} choices, there are {MAX_LEVELS} levels", deeper.len() + 1);
        PerLevel { first, deeper, last: None }
    }

    /// The same with another value for the last level.
    #[must_use]
    pub fn with_last(mut self, value: T) -> PerLevel<T> {
        self.last = Some(value);
        self
    }

    /// The value for the last level.
    pub fn last(&self) -> T {
        self.last.unwrap_or_else(|| self.upper(MAX_LEVELS))
    }

    /// The value for level `level` above the last.
    fn upper(&self, level: usize) -> T {
        match level.min(self.deeper.len()).checked_sub(1) {
            None => self.first,
            Some(at) => self.deeper[at],
        }
    }

    /// The value for a level.
    pub fn pick(&self, level: LevelIndex) -> T {
        if level.is_last() { self.last() } else { self.upper(level.get().into()) }
    }

    /// The list from level 0 on, as [`PerLevel::set_upper`] takes it.
    pub(super) fn upper_text<S: Display>(&self, name: impl Fn(T) -> S) -> String {
        let names = [self.first].into_iter().chain(self.deeper.iter().copied());
        names.map(|value| name(value).to_string()).collect::<Vec<_>>().join(",")
    }

    /// The value for the last level, as [`PerLevel::set_last`] takes it.
    pub(super) fn last_text<S: Display>(&self, name: impl Fn(T) -> S) -> String {
        self.last.map_or_else(|| "same".to_owned(), |value| name(value).to_string())
    }

    /// Sets the values above the last level from comma-separated text.
    pub(super) fn set_upper(
        &mut self,
        text: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<(), String> {
        let values = text.split(',').map(|value| parse(value.trim()));
        let values = values.take(MAX_LEVELS + 1).collect::<Result<Vec<T>, String>>()?;
        if values.len() > MAX_LEVELS {
            return Err(format!("there are {MAX_LEVELS} levels above the last"));
        }
        *self = PerLevel { last: self.last, ..PerLevel::levels(values) };
        Ok(())
    }

    /// Sets the value for the last level from text.
    pub(super) fn set_last(
        &mut self,
        text: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<(), String> {
        self.last = if text == "same" { None } else { Some(parse(text)?) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| format!("{text} is no number"))
    }

    #[test]
    fn the_end_of_the_list_holds_for_deeper_levels() {
        let level = |level| LevelIndex::new(level).unwrap();
        let choices = PerLevel::levels([7, 8, 9]);
        let of = |choices: &PerLevel<u32>| [0, 1, 2, 3, 62, 63].map(|at| choices.pick(level(at)));
        assert_eq!(of(&choices), [7, 8, 9, 9, 9, 9]);
        assert_eq!(of(&choices.with_last(1)), [7, 8, 9, 9, 9, 1]);
        assert_eq!(of(&PerLevel::all(5)), [5; 6]);
        assert_eq!(of(&PerLevel::split(5, 6)), [5, 5, 5, 5, 5, 6]);
        let all = PerLevel::levels(0..63);
        assert_eq!(of(&all), [0, 1, 2, 3, 62, 62]);
    }

    #[test]
    fn texts_come_back() {
        for choices in
            [PerLevel::all(1), PerLevel::split(1, 2), PerLevel::levels([3, 4, 5]), PerLevel::levels(0..63)]
        {
            let mut again = PerLevel::all(99);
            again.set_upper(&choices.upper_text(|value| value.to_string()), number).unwrap();
            again.set_last(&choices.last_text(|value| value.to_string()), number).unwrap();
            assert_eq!(again, choices);
        }
        let mut choices = PerLevel::all(1);
        assert!(choices.set_upper("", number).is_err());
        assert!(choices.set_upper("1,,2", number).is_err());
        assert!(choices.set_upper(&["1"; 64].join(","), number).unwrap_err().contains("63"));
        assert_eq!(choices, PerLevel::all(1), "what is refused changes nothing");
        choices.set_upper(" 1, 2 ,3", number).unwrap();
        assert_eq!(choices, PerLevel::levels([1, 2, 3]).with_last(1));
    }
}
