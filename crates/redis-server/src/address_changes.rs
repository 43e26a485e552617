//! Changes of `port` and `bind` by CONFIG SET: the server listens elsewhere, and open connections go on.

use crate::config::Setting;
use crate::rebinding::{Addresses, RebindError, hosts};
use crate::server::Server;

/// The directives that say where to listen, and the words of Redis for an address that cannot be had.
const ADDRESSES: [(&str, &str); 2] = [
    ("port", "Unable to listen on this port. Check server logs."),
    ("bind", "Failed to bind to specified addresses."),
];

const NOT_LISTENING: &str = "the server does not listen";
const UNPROTECTED: &str =
    "clients beyond this machine would need no password: protected-mode forbids that; set requirepass first";

/// Whether settings change where the server listens.
pub(crate) fn moves(settings: &[Setting]) -> bool {
    settings.iter().any(|setting| reason_of(setting).is_some())
}

/// Why a directive of addresses cannot be set, in the words of Redis; `None` for other directives.
fn reason_of(setting: &Setting) -> Option<&'static str> {
    ADDRESSES.iter().find(|(name, _)| *name == setting.name()).map(|(_, reason)| *reason)
}

impl Server {
    /// Listens where new values of `port` and `bind` say, if there are any among the settings. The names of
    /// hosts may have to be looked up, so it takes a thread that may wait.
    ///
    /// # Errors
    /// The text of the error reply; the server listens where it did.
    pub(crate) fn change_addresses(&self, settings: &[Setting]) -> Result<(), Vec<u8>> {
        let first = settings.iter().find_map(|setting| reason_of(setting).map(|reason| (setting, reason)));
        let Some((first, reason)) = first else { return Ok(()) };
        let named = |wrong: String| first.failed(&format!("{reason} {wrong}"));
        let addresses = self.addresses(settings).map_err(named)?;
        let (port, tls_port) = (addresses.port, addresses.tls_port);
        let changed = match self.stop() {
            Some(stop) => self.rebinding.ask(addresses, stop),
            None => Err(RebindError::NotListening),
        };
        changed.map_err(|error| match error {
            RebindError::NotListening => first.failed(NOT_LISTENING),
            RebindError::Unprotected => first.failed(UNPROTECTED),
            RebindError::Failed(sentence) => {
                tracing::warn!("CONFIG SET: {sentence}");
                first.failed(reason)
            }
        })?;
        self.note_port(port, tls_port);
        Ok(())
    }

    /// Listens where the present values of `port` and `bind` say again, after other settings beside new ones
    /// could not be made.
    pub(crate) fn restore_addresses(&self) {
        if let (Ok(addresses), Some(stop)) = (self.addresses(&[]), self.stop()) {
            self.note_port(addresses.port, addresses.tls_port);
            if let Err(error) = self.rebinding.ask(addresses, stop) {
                tracing::error!("CONFIG SET: the server cannot listen where it did: {error:?}");
            }
        }
    }

    /// Where to listen by these settings, and by present values where they say nothing.
    fn addresses(&self, settings: &[Setting]) -> Result<Addresses, String> {
        let value = |name: &str| {
            let new = settings.iter().find(|setting| setting.name() == name);
            let value = new.map_or_else(|| self.config.get(name), |setting| setting.value.clone());
            String::from_utf8_lossy(&value).into_owned()
        };
        let port = |name: &str| value(name).parse().map_err(|_| format!("{name}: there is no such port"));
        Ok(Addresses { hosts: hosts(&value("bind"))?, port: port("port")?, tls_port: port("tls-port")? })
    }
}
