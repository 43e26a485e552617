//! Finding an option by a typed name.

use super::info::OptionScope;
use super::row::Row;
use super::{Scope, shown};
use esker_base::{Error, Result};

/// The most letters of a name that are compared.
const LONGEST_NAME: usize = 64;

/// The row of the option with this name.
///
/// # Errors
/// `InvalidArgument`, with a similar name.
pub(crate) fn find<O: Scope>(name: &str) -> Result<&'static Row<O>> {
    shown::<O>().find(|row| row.is_called(name)).ok_or_else(|| Error::invalid(unknown::<O>(name)))
}

/// The message for an unknown option `name`, with a similar one.
fn unknown<O: Scope>(name: &str) -> String {
    // Longer than any name: the rest is not worth repeating.
    let name: String = name.chars().take(LONGEST_NAME).collect();
    let (own, elsewhere) = (names::<O>(), O::names_elsewhere());
    if let Some((_, other)) = elsewhere.iter().find(|(known, _)| *known == name) {
        return format!("{name} is an option of a {other}, not of a {}", O::SCOPE);
    }
    let near = own.iter().chain(&elsewhere).filter_map(|(known, of)| {
        let distance = distance(&name, known);
        // A third of the letters may be wrong.
        (distance * 3 <= name.chars().count().max(3)).then_some((distance, *of != O::SCOPE, *known, *of))
    });
    match near.min_by_key(|(distance, is_elsewhere, ..)| (*distance, *is_elsewhere)) {
        Some((_, false, known, _)) => format!("there is no option {name}; did you mean {known}?"),
        Some((_, true, known, of)) => {
            format!("there is no option {name}; did you mean {known}, an option of a {of}?")
        }
        None => {
            let own: Vec<&str> = shown::<O>().map(|row| row.name).collect();
            format!("there is no option {name}; there are {}", own.join(", "))
        }
    }
}

/// All accepted names of the options of `O`.
pub(crate) fn names<O: Scope>() -> Vec<(&'static str, OptionScope)> {
    let names = |row: &'static Row<O>| {
        let stored = (row.stored != row.name).then_some(row.stored);
        [row.name].into_iter().chain(stored).chain(row.aliases.iter().copied())
    };
    shown::<O>().flat_map(names).map(|name| (name, O::SCOPE)).collect()
}

/// Edit distance: letters to insert, delete, replace, or swap with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // rows[i][j]: from the first i letters of one to the first j of the other.
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, letter) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, wanted) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(letter != wanted);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i - 1] == *wanted && *letter == to[j - 1] {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyspaceOptions, Options};

    #[test]
    fn distances_count_the_slips_of_a_typist() {
        for (from, to, slips) in [
            ("", "", 0),
            ("", "abc", 3),
            ("block", "block", 0),
            ("blokc", "block", 1),
            ("bloc", "block", 1),
            ("clock", "lock", 1),
            ("tabel", "tables", 2),
        ] {
            assert_eq!(distance(from, to), slips, "{from} {to}");
            assert_eq!(distance(to, from), slips, "{to} {from}");
        }
    }

    #[test]
    fn similar_names_are_suggested() {
        assert_eq!(
            unknown::<KeyspaceOptions>("blok_size"),
            "there is no option blok_size; did you mean block_size?"
        );
        assert_eq!(
            unknown::<Options>("block_size"),
            "block_size is an option of a keyspace, not of a database"
        );
        assert_eq!(
            unknown::<Options>("blok_size"),
            "there is no option blok_size; did you mean block_size, an option of a keyspace?"
        );
        assert!(unknown::<Options>("xyz").contains("there are memory_budget, "));
        let long = "x".repeat(100_000);
        assert!(unknown::<KeyspaceOptions>(&long).contains("there are memtable, "));
    }

    #[test]
    fn no_two_options_share_a_name() {
        let names = [names::<Options>(), names::<KeyspaceOptions>()].concat();
        for (name, _) in &names {
            assert_eq!(names.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
        }
    }
}
