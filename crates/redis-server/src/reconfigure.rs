//! The configuration read anew while the server runs: directives that say something else than before are set,
//! as CONFIG SET sets them.
//!
//! What is compared is the configuration before and now. So a value of CONFIG SET stays as long as the
//! configuration says of its directive what it said.

use crate::config::{Setting, default_value, start_setting};
use crate::server::Server;
use crate::start::StartConfig;

/// What another configuration changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedDirectives {
    /// Directives that act from now on.
    pub set: Vec<&'static str>,
    /// Directives that count from the next start on.
    pub at_next_start: Vec<&'static str>,
}

impl Server {
    /// Takes what a configuration says otherwise than the one before it: all of it, or nothing if a directive
    /// cannot be set. A directive that is there no more gets its default.
    ///
    /// # Errors
    /// A sentence with the directive.
    pub fn reconfigure(&self, before: &StartConfig, now: &StartConfig) -> Result<ChangedDirectives, String> {
        let (at_start, settings): (Vec<Setting>, Vec<Setting>) =
            changed(before, now)?.into_iter().partition(Setting::is_fixed);
        let mut at_next_start: Vec<&str> = at_start.iter().map(Setting::name).collect();
        at_next_start.extend(before.differing_lists(now));
        let possible = self.check_possible(&settings).and_then(|()| self.change_settings(&settings));
        possible.map_err(|reply| sentence(&reply))?;
        Ok(ChangedDirectives { set: settings.iter().map(Setting::name).collect(), at_next_start })
    }
}

/// The settings of directives whose values differ.
fn changed(before: &StartConfig, now: &StartConfig) -> Result<Vec<Setting>, String> {
    let mut names: Vec<&str> = before.names_set().chain(now.names_set()).collect();
    names.sort_unstable();
    names.dedup();
    let mut settings = Vec::new();
    for name in names {
        let value = |config: &StartConfig| config.value(name).unwrap_or_else(|| default_value(name)).to_vec();
        let (earlier, later) = (value(before), value(now));
        if earlier == later {
            continue;
        }
        if let Some(setting) = start_setting(name.as_bytes(), &later, Some(&earlier)) {
            settings.push(setting.map_err(|reason| format!("{name}: {reason}"))?);
        }
    }
    Ok(settings)
}

/// The sentence in an error reply of CONFIG SET.
fn sentence(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    let told = text.strip_prefix("ERR CONFIG SET failed (possibly related to argument '");
    match told.and_then(|told| told.split_once("') - ")) {
        Some((name, reason)) => format!("{name}: {reason}"),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(text: &str) -> StartConfig {
        let mut config = StartConfig::default();
        let read = |path: &Path| Err(format!("cannot read {}", path.display()));
        config.add_file(Path::new("redis.conf"), text.as_bytes(), &read).expect(text);
        config
    }

    #[test]
    fn what_differs_is_found_with_the_values_of_now() {
        let before = config("maxclients 5\ntimeout 7\nport 1\nsave 900 1\n");
        let now = config("maxclients 6\nport 2\nsave 900 1\nclient-output-buffer-limit pubsub 1mb 1mb 1\n");
        let settings = changed(&before, &now).expect("right");
        let found: Vec<(&str, String)> = settings
            .iter()
            .map(|setting| (setting.name(), String::from_utf8_lossy(&setting.value).into_owned()))
            .collect();
        let limits = "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 1048576 1";
        assert_eq!(
            found,
            [
                ("client-output-buffer-limit", limits.to_owned()),
                ("maxclients", "6".to_owned()),
                ("port", "2".to_owned()),
                ("timeout", "0".to_owned())
            ]
        );
        assert!(changed(&now, &now).expect("right").is_empty());
    }

    #[test]
    fn replies_become_sentences() {
        let reply = b"ERR CONFIG SET failed (possibly related to argument 'maxclients') - too many";
        assert_eq!(sentence(reply), "maxclients: too many");
        assert_eq!(sentence(b"ERR other"), "ERR other");
    }
}
