//! What the database keeps of the configuration, because of CONFIG REWRITE, as a check reads it.

use crate::args::Global;
use crate::commands::open_for_reading;
use crate::failure::Failure;
use esker::Database;

/// What was found.
pub(super) enum Kept<T> {
    Read(T),
    /// There is no database yet.
    Nothing,
    /// Another process has it open; a sentence says so.
    Locked(String),
}

/// Reads what the database keeps.
pub(super) fn kept<T>(
    global: &Global,
    read: impl FnOnce(&Database) -> Result<T, Failure>,
) -> Result<Kept<T>, Failure> {
    if !global.data().exists() {
        return Ok(Kept::Nothing);
    }
    match open_for_reading(global) {
        Ok(database) => {
            let read = read(&database);
            let closed = database.close();
            let read = read?;
            closed?;
            Ok(Kept::Read(read))
        }
        Err(failure) if failure.is_locked() => Ok(Kept::Locked(format!(
            "another process has {} open, so directives that CONFIG REWRITE keeps there are not checked",
            global.data().display()
        ))),
        Err(failure) => Err(failure),
    }
}
