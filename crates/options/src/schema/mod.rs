//! Options as a table: one row for each, and everything that concerns all of them iterates over the rows.
//!
//! Storing, reading back, setting by name, showing, validating, writing to configuration files and the manual
//! are derived from the rows in [`super::rows`], so an option is a field, a method to set it and a row; none
//! of these uses can be forgotten.

mod info;
mod names;
mod row;
pub(super) mod units;

pub use info::{OptionChange, OptionGroup, OptionInfo, OptionScope, OptionValue};
pub(super) use names::{find, names};
pub(super) use row::{Access, Row};

use super::stored::{self, Field};
use esker_base::{Error, Result};

/// Options that have rows.
pub(super) trait Scope: Clone + Default + 'static {
    /// The owner of the options.
    const SCOPE: OptionScope;

    /// The rows, in the order in which they are stored and shown.
    fn rows() -> &'static [Row<Self>];

    /// The names of options of other owners, for the error of a name that this one does not know.
    fn names_elsewhere() -> Vec<(&'static str, OptionScope)>;

    /// Checks beyond the range of one value.
    fn check_more(&self) -> Result<()>;
}

/// Sets an option by any of its names from text.
pub(super) fn set<O: Scope>(options: &mut O, name: &str, text: &str) -> Result<()> {
    find::<O>(name)?.set_text(options, name, text)?;
    options.check_more()
}

/// An error unless every value is allowed.
pub(super) fn check<O: Scope>(options: &O) -> Result<()> {
    O::rows().iter().try_for_each(|row| row.check(options))?;
    options.check_more()
}

/// Every option with its value.
pub(super) fn values<O: Scope>(options: &O) -> Vec<OptionValue> {
    shown::<O>().map(|row| row.value(options)).collect()
}

/// Descriptions of every option.
pub(super) fn describe<O: Scope>() -> Vec<OptionInfo> {
    shown::<O>().map(Row::info).collect()
}

/// The names of options that differ, by when a change of them holds.
pub(super) fn differing<O: Scope>(
    one: &O,
    other: &O,
    holds: impl Fn(OptionChange) -> bool,
) -> Vec<&'static str> {
    let differs = |row: &&Row<O>| holds(row.change) && row.text_of(one) != row.text_of(other);
    shown::<O>().filter(differs).map(|row| row.name).collect()
}

/// The rows that users see.
fn shown<O: Scope>() -> impl Iterator<Item = &'static Row<O>> {
    O::rows().iter().filter(|row| !row.is_hidden)
}

/// The stored form.
pub(super) fn encode<O: Scope>(options: &O) -> Vec<u8> {
    let (mut out, default) = (Vec::new(), O::default());
    for row in O::rows() {
        // Later options are left out where they have their default, so that builds that do not know them can
        // open the keyspace.
        if !row.always_stored && row.text_of(options) == row.text_of(&default) {
            continue;
        }
        match &row.access {
            Access::Number { get, .. } => {
                stored::put(&mut out, row.stored, &Field::Number(get(options).unwrap_or(row.absent_stored)));
            }
            Access::Flag { get, .. } => {
                stored::put(&mut out, row.stored, &Field::Number(u64::from(get(options))));
            }
            Access::Text { get, .. } => stored::put(&mut out, row.stored, &Field::Text(&get(options))),
        }
    }
    out
}

/// Reads what [`encode`] wrote.
pub(super) fn decode<O: Scope>(bytes: &[u8]) -> Result<O> {
    let mut options = O::default();
    for (name, field) in stored::fields(bytes)? {
        let row = O::rows().iter().find(|row| row.stored == name);
        let Some(row) = row else {
            return Err(Error::Unsupported(format!("option {name} = {field}").into()));
        };
        // The detail names the Cargo feature if the value needs one that this build is without.
        row.set_field(&mut options, &field)
            .map_err(|detail| Error::Unsupported(format!("option {name} = {field}: {detail}").into()))?;
    }
    check(&options)?;
    Ok(options)
}
