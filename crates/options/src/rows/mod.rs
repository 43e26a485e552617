//! The rows of all options: an option added here is stored, shown, documented and set by name everywhere.

mod database;
mod keyspace;

/// The result of `parse`, or an empty reason: the row's choices say the rest.
fn parsed<T>(parse: impl Fn(&str) -> Option<T>, text: &str) -> Result<T, String> {
    parse(text).ok_or_else(String::new)
}

/// Assigns a value to a field, if there is one.
fn assign<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

/// Names in one line.
fn listed(names: impl IntoIterator<Item = &'static str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Names of kinds, with those for comparison behind the others.
fn listed_kinds(kinds: impl IntoIterator<Item = (&'static str, bool)>) -> String {
    let (reference, ordinary): (Vec<_>, Vec<_>) =
        kinds.into_iter().partition(|&(_, is_reference)| is_reference);
    let listed = |kinds: Vec<(&'static str, bool)>| listed(kinds.into_iter().map(|(name, _)| name));
    format!("{} (for comparison: {})", listed(ordinary), listed(reference))
}

/// A number for a field of 32 bits. Rows allow only what fits.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A number for a field of 16 bits. Rows allow only what fits.
fn short(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// A number for a field of the size of an address.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Whole milliseconds; fractions are rounded up, so that a small time does not become zero.
fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
