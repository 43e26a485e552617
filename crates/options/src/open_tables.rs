//! The limit of open tables, derived from the process's limit of open files.

use esker_base::{Error, Result};

/// The least limit: about the runs that a lookup searches, so that one key's tables can be open together.
pub(super) const MIN_OPEN_TABLES: usize = 8;
/// The greatest default, where the process may open any number of files: their descriptors take a quarter of
/// a gigabyte of the kernel's memory. Their indexes are bounded by the memory budget.
const MAX_DEFAULT_OPEN_TABLES: usize = 1 << 20;
/// Files the process needs for itself: log, manifest, standard streams, a few sockets.
const OTHER_FILES: u64 = 32;

/// The default: half of the process's files, less those it certainly needs. So with the headroom of a
/// quarter, three eighths are left to the rest of the process.
pub fn default_open_tables(process_files: u64) -> usize {
    let half = usize::try_from((process_files / 2).saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    half.clamp(MIN_OPEN_TABLES, MAX_DEFAULT_OPEN_TABLES)
}

/// An error unless `tables` may be open in a process that may have `process_files` open.
pub(crate) fn validate_open_tables(tables: usize, process_files: u64) -> Result<()> {
    // With the headroom of a quarter, fifteen sixteenths are tables.
    let most = usize::try_from(process_files / 4 * 3).unwrap_or(usize::MAX);
    if tables < MIN_OPEN_TABLES {
        return Err(Error::invalid(format!(
            "max_open_tables is {tables}, at least {MIN_OPEN_TABLES} are needed"
        )));
    }
    if tables > most {
        return Err(Error::invalid(format!(
            "max_open_tables is {tables}, but the process may have {process_files} files open (`ulimit -n`), which allows {most}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_leaves_files_to_the_process() {
        for (process_files, tables) in
            [(0, 8), (64, 8), (256, 96), (1024, 480), (1 << 20, (1 << 19) - 32), (u64::MAX, 1 << 20)]
        {
            assert_eq!(default_open_tables(process_files), tables);
            assert!(tables == 8 || validate_open_tables(tables, process_files).is_ok());
        }
    }

    #[test]
    fn a_limit_that_cannot_be_kept_is_refused_with_its_numbers() {
        assert!(validate_open_tables(8, 1024).is_ok());
        assert!(validate_open_tables(768, 1024).is_ok());
        assert!(validate_open_tables(usize::MAX / 2, u64::MAX).is_ok());
        for (tables, process_files) in [(0, 1024), (7, 1024), (769, 1024), (8, 8)] {
            let error = validate_open_tables(tables, process_files).unwrap_err().to_string();
            assert!(error.contains(&tables.to_string()), "{error}");
        }
        let error = validate_open_tables(769, 1024).unwrap_err().to_string();
        assert!(error.contains("1024") && error.contains("768"), "{error}");
    }
}
