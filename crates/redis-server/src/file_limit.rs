//! Descriptors: how many clients the process can have beside the files of its database.

use crate::config::Setting;
use crate::server::Server;
use esker::parts::env::host::open_files_limit;
use std::sync::atomic::Ordering;

/// Descriptors that are neither clients nor tables: listeners, pollers, the log and the standard streams. As
/// in Redis.
const RESERVED_FILES: u64 = 32;

/// The database has at least one in so many of the process's descriptors for its tables.
const TABLES_SHARE: u64 = 4;

impl Server {
    /// The most clients for which the process has descriptors. Tables have a share of them, or twice those
    /// that they have now, so that the database may grow; never more than the engine opens, which is a
    /// quarter beyond its limit before it closes unused ones.
    fn clients_that_fit(&self) -> u64 {
        let (files, tables) = (open_files_limit(), self.store.database().metrics().open_tables);
        let most = tables.max_tables as u64 / 4 * 5;
        let reserved = (files / TABLES_SHARE).max(2 * tables.tables as u64).min(most) + RESERVED_FILES;
        files.saturating_sub(reserved).max(1)
    }

    /// Lowers `maxclients` to what the process can have, and says so in the log.
    pub(crate) fn fit_max_clients(&self) {
        let (wanted, fit) = (self.max_clients.load(Ordering::Relaxed), self.clients_that_fit());
        if wanted <= fit {
            return;
        }
        let files = open_files_limit();
        let needed = files + (wanted - fit);
        tracing::warn!(
            "You requested maxclients of {wanted} requiring at least {needed} max file descriptors."
        );
        tracing::warn!(
            "Current maximum open files is {files}, some of which the database needs. maxclients has been \
             reduced to {fit} to compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
        );
        if self.set_directive(b"maxclients", fit.to_string().as_bytes()).is_err() {
            self.max_clients.store(fit, Ordering::Release);
        }
    }

    /// Whether the process can do what settings of CONFIG SET say.
    ///
    /// # Errors
    /// The text of the error reply.
    pub(crate) fn check_possible(&self, settings: &[Setting]) -> Result<(), Vec<u8>> {
        for setting in settings.iter().filter(|setting| setting.name() == "maxclients") {
            let (wanted, fit) = (setting.number(), self.clients_that_fit());
            if wanted > fit {
                return Err(setting.failed(&format!(
                    "The operating system is not able to handle the specified number of clients, try with {fit}"
                )));
            }
        }
        Ok(())
    }
}
