//! Random options: every option that a test varies, one row each; a new kind of anything joins by one line.
//!
//! The first choice of a row is the plainest: shrinking a failing case tries it.

use esker::parts::env::SeededRandom;

mod database;
mod keyspace;

pub use database::DATABASE;
pub use keyspace::KEYSPACE;

/// An option and what it may be.
#[derive(Debug)]
pub struct Row<T: 'static> {
    name: &'static str,
    choices: &'static [Choice<T>],
}

/// A value of an option: its name and what it does.
type Choice<T> = (&'static str, fn(T) -> T);

/// What was chosen in each row of a table, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen(Vec<u8>);

impl Chosen {
    /// The plainest choice everywhere.
    pub fn plain<T>(rows: &[Row<T>]) -> Chosen {
        Chosen(vec![0; rows.len()])
    }

    /// A choice in each row.
    pub fn random<T>(rows: &[Row<T>], random: &SeededRandom) -> Chosen {
        Chosen(rows.iter().map(|row| random.below(row.choices.len() as u64) as u8).collect())
    }

    /// This with another choice in one row.
    ///
    /// # Panics
    /// If there is no such row or choice.
    #[must_use]
    pub fn with<T>(mut self, rows: &[Row<T>], row: &str, choice: &str) -> Chosen {
        let at = rows.iter().position(|candidate| candidate.name == row);
        let at = at.unwrap_or_else(|| panic!("no option {row}"));
        let found = rows[at].choices.iter().position(|(name, _)| *name == choice);
        self.0[at] = found.unwrap_or_else(|| panic!("{row} has no choice {choice}")) as u8;
        self
    }

    /// Each way of making one row plainer.
    pub fn simpler(&self) -> impl Iterator<Item = Chosen> + '_ {
        let fancy = (0..self.0.len()).filter(|&row| self.0[row] != 0);
        fancy.map(|row| {
            let mut simpler = self.clone();
            simpler.0[row] = 0;
            simpler
        })
    }

    /// The options that were chosen.
    pub fn apply<T>(&self, rows: &[Row<T>], options: T) -> T {
        rows.iter()
            .zip(&self.0)
            .fold(options, |options, (row, &choice)| row.choices[usize::from(choice)].1(options))
    }

    /// The choices as text.
    pub fn describe<T>(&self, rows: &[Row<T>]) -> String {
        let rows = rows.iter().zip(&self.0);
        let texts: Vec<String> = rows
            .map(|(row, &choice)| format!("{} {}", row.name, row.choices[usize::from(choice)].0))
            .collect();
        texts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::options::{BlockBounds, CacheKind, Codec, IndexKind, MemtableKind, ReadMode};
    use esker::{KeyspaceOptions, Options};
    use esker_filter::FilterKind;

    /// What the choices make of an option, without parameters and by level.
    fn chosen<T>(rows: &[Row<T>], start: impl Fn() -> T, value: impl Fn(&T) -> String) -> Vec<String> {
        let choices = rows.iter().flat_map(|row| row.choices);
        let texts = choices.map(|(_, choose)| value(&choose(start())));
        let names = texts.flat_map(|text| text.split(',').map(str::to_owned).collect::<Vec<String>>());
        names.flat_map(|name| [name.split(':').next().unwrap_or_default().to_owned(), name]).collect()
    }

    fn of_keyspaces(option: &str) -> Vec<String> {
        let value = |options: &KeyspaceOptions| {
            options.values().into_iter().find(|value| value.name == option).map(|value| value.text)
        };
        chosen(KEYSPACE, KeyspaceOptions::default, |options| value(options).unwrap_or_default())
    }

    fn of_databases(option: &str) -> Vec<String> {
        let value = |options: &Options| {
            options.values().into_iter().find(|value| value.name == option).map(|value| value.text)
        };
        chosen(DATABASE, Options::default, |options| value(options).unwrap_or_default())
    }

    /// A new kind of anything joins the generator, or this fails.
    #[test]
    fn every_kind_is_among_the_choices() {
        let codecs = Codec::ALL.iter().map(|codec| match codec {
            Codec::ZstdDictionary { .. } => codec.to_string(),
            _ => codec.to_string().split(':').next().unwrap_or_default().to_owned(),
        });
        for (option, names) in [
            ("memtable", MemtableKind::ALL.iter().map(|kind| kind.name().to_owned()).collect::<Vec<_>>()),
            ("filter", FilterKind::ALL.iter().map(|kind| kind.name().to_owned()).collect()),
            ("index_type", IndexKind::ALL.iter().map(|kind| kind.name().to_owned()).collect()),
            ("block_bounds", BlockBounds::ALL.iter().map(|bounds| bounds.name().to_owned()).collect()),
            ("compression", codecs.collect()),
        ] {
            let chosen = of_keyspaces(option);
            for name in names {
                assert!(chosen.contains(&name), "{option} {name} is not among {chosen:?}");
            }
        }
        for (option, names) in [
            ("cache_kind", CacheKind::ALL.map(|kind| kind.name().to_owned()).to_vec()),
            ("table_reads", ReadMode::ALL.map(|mode| mode.name().to_owned()).to_vec()),
        ] {
            let chosen = of_databases(option);
            for name in names {
                assert!(chosen.contains(&name), "{option} {name} is not among {chosen:?}");
            }
        }
    }
}
