//! Changes of TLS: what new connections get when files or directives have changed, while the server runs.

use crate::config::{Setting, failed_setting};
use crate::server::Server;
use crate::tls::{ACTING, tls_settings};
use esker_tls::Tls;
use std::sync::Arc;

impl Server {
    /// Reads certificates, key and authorities as the directives say. It comes before a listener with TLS
    /// addresses serves.
    ///
    /// # Errors
    /// A sentence with the directive or the file.
    pub fn load_tls(&self) -> Result<(), String> {
        let wanted = tls_settings(&|name| self.config.get(name))?;
        let loaded = Tls::new(wanted).map_err(|error| format!("TLS: {error}"))?;
        // A second call changes nothing: reload_tls is for that.
        let _earlier = self.tls.tls.set(Arc::new(loaded));
        Ok(())
    }

    /// What new connections get, for other servers of the process as well; `None` without TLS addresses.
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.tls.get()
    }

    /// Reads certificates, key and authorities anew for new connections; those that are open go on. Whether
    /// there was anything to read: not without TLS.
    ///
    /// # Errors
    /// A sentence with the file; new connections get what they got before.
    pub fn reload_tls(&self) -> Result<bool, String> {
        let Some(tls) = self.tls() else { return Ok(false) };
        let _one_change = self.tls.changing.lock();
        tls.reload().map(|()| true).map_err(|error| format!("TLS: {error}"))
    }

    /// Sets directives while the server runs: all of them, or none if files and rules of TLS do not go
    /// together.
    ///
    /// # Errors
    /// The text of the error reply.
    pub(crate) fn change_settings(&self, settings: &[Setting]) -> Result<(), Vec<u8>> {
        let first = settings.iter().find(|setting| ACTING.contains(&setting.name()));
        let (Some(tls), Some(first)) = (self.tls(), first) else {
            self.apply_settings(settings);
            return Ok(());
        };
        let _one_change = self.tls.changing.lock();
        let value = |name: &str| {
            let new = settings.iter().find(|setting| setting.name() == name);
            new.map_or_else(|| self.config.get(name), |setting| setting.value.clone())
        };
        let changed =
            tls_settings(&value).and_then(|wanted| tls.change(wanted).map_err(|error| error.to_string()));
        changed.map_err(|reason| {
            let reason = format!("Unable to update TLS configuration: {reason}");
            failed_setting(first.name().as_bytes(), &reason)
        })?;
        self.apply_settings(settings);
        Ok(())
    }
}
