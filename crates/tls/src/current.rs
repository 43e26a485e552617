//! The configuration that new connections get, replaced while the server runs.
//!
//! What holds:
//! * TL1. A configuration is replaced whole or not at all: certificate, key, authorities and rules of a
//!   connection are of one successful load.

use crate::error::TlsError;
use crate::settings::TlsSettings;
use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use std::sync::Arc;

/// Settings and the configuration that was last made of them.
#[derive(Debug)]
pub struct Tls {
    /// Held while files are read: of two changes the later one counts.
    settings: Mutex<TlsSettings>,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files of the settings.
    ///
    /// # Errors
    /// What is wrong, with the file or the rule.
    pub fn new(settings: TlsSettings) -> Result<Self, TlsError> {
        let config = RwLock::new(settings.load()?);
        Ok(Self { settings: Mutex::new(settings), config })
    }

    /// The configuration for a new connection.
    pub fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read())
    }

    /// Reads the files anew.
    ///
    /// # Errors
    /// What is wrong, with the file or the rule; new connections get what they got before.
    pub fn reload(&self) -> Result<(), TlsError> {
        let settings = self.settings.lock();
        let config = settings.load()?;
        *self.config.write() = config;
        Ok(())
    }

    /// Takes other settings.
    ///
    /// # Errors
    /// What is wrong, with the file or the rule; new connections get what they got before.
    pub fn change(&self, settings: TlsSettings) -> Result<(), TlsError> {
        let mut present = self.settings.lock();
        let config = settings.load()?;
        *self.config.write() = config;
        *present = settings;
        Ok(())
    }
}
