//! Client limit: how many clients fit the process's limit of open files beside the database.
//!
//! Clients, tables, blob files, log and manifest share the limit. A client beyond what is left would take the
//! descriptor that the next flush needs, and then writes of all clients fail; so it is refused instead.

/// Descriptors that are neither a client's nor a table's: log segments, manifest, lock, standard streams, the
/// runtime, the listener, tables and copies being written.
const RESERVED_FILES: u64 = 64;
/// The least number of clients, whatever the limit says.
const MIN_CLIENTS: usize = 4;

/// The most clients at once: those that were configured, or those that the limit of open files leaves.
/// `open_tables` is the database's target of open tables; a quarter more may be open, and an eighth as many
/// blob files stay open beside a quarter of it in use. `refusals` clients are being sent away at the same
/// time.
pub(crate) fn most_clients(configured: usize, open_files: u64, open_tables: usize, refusals: usize) -> usize {
    let tables = open_tables as u64;
    let database = tables.saturating_add(tables / 2).saturating_add(RESERVED_FILES);
    let left = open_files.saturating_sub(database).saturating_sub(refusals as u64);
    configured.min(usize::try_from(left).unwrap_or(usize::MAX).max(MIN_CLIENTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_the_database_its_files() {
        // 480 tables are the default with 1,024 files.
        assert_eq!(most_clients(1024, 1024, 480, 64), 1024 - 720 - 64 - 64);
        assert_eq!(most_clients(100, 1024, 480, 64), 100);
        assert_eq!(most_clients(1024, 1 << 20, (1 << 19) - 32, 64), 1024);
        assert_eq!(most_clients(1024, u64::MAX, 1 << 20, 64), 1024);
        assert_eq!(most_clients(1024, 64, 8, 64), MIN_CLIENTS);
    }
}
