//! Configuration: the directives of redis.conf and their present values.

pub(crate) mod buffer_limits;
mod checked_text;
mod directive;
mod table;

use directive::Directive;
use esker_resp::glob::{Case, matches};
use esker_resp::integer::parse_integer;
use parking_lot::RwLock;
use table::{DIRECTIVES, HIDDEN, PROTECTED};

/// Where a directive stands in the table, by its name or its older one.
fn position(name: &[u8]) -> Option<usize> {
    let is_it = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    DIRECTIVES.iter().position(|directive| is_it(directive.name) || directive.alias.is_some_and(is_it))
}

/// The present values.
#[derive(Debug)]
pub(crate) struct Config {
    values: RwLock<Vec<Vec<u8>>>,
}

impl Default for Config {
    fn default() -> Self {
        let values = DIRECTIVES.iter().map(|directive| directive.default.as_bytes().to_vec()).collect();
        Self { values: RwLock::new(values) }
    }
}

/// The value that a directive has unless it is set; empty for one that does not exist.
pub(crate) fn default_value(name: &str) -> &'static [u8] {
    position(name.as_bytes()).map_or(b"", |position| DIRECTIVES[position].default.as_bytes())
}

/// A directive with a value that it takes.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    position: usize,
    /// The value as CONFIG GET prints it.
    pub(crate) value: Vec<u8>,
}

impl Setting {
    /// The directive's name.
    pub(crate) fn name(&self) -> &'static str {
        DIRECTIVES[self.position].name
    }

    /// Whether the directive counts at the start alone.
    pub(crate) fn is_fixed(&self) -> bool {
        DIRECTIVES[self.position].is_fixed
    }

    /// The value as a number; zero if it is none.
    pub(crate) fn number(&self) -> u64 {
        parse_integer(&self.value).and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
    }

    /// The error reply of CONFIG SET for this setting.
    pub(crate) fn failed(&self, reason: &str) -> Vec<u8> {
        failed_setting(self.name().as_bytes(), reason)
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// A file or the command line, before the server starts.
    Start,
    /// CONFIG SET.
    Command,
}

/// The error reply of CONFIG SET for a directive.
pub(crate) fn failed_setting(name: &[u8], reason: &str) -> Vec<u8> {
    let start = b"ERR CONFIG SET failed (possibly related to argument '";
    [&start[..], name, b"') - ", reason.as_bytes()].concat()
}

/// A directive of a file or of the command line with its value, where `before` is the value that it had;
/// `None` if there is no such directive, an error with the reason if it does not take the value.
pub(crate) fn start_setting(
    name: &[u8],
    value: &[u8],
    before: Option<&[u8]>,
) -> Option<Result<Setting, String>> {
    let position = position(name)?;
    let directive: &Directive = &DIRECTIVES[position];
    let before = before.unwrap_or(directive.default.as_bytes());
    Some(directive.canonical(value, before).map(|value| Setting { position, value }))
}

impl Config {
    /// Checks pairs of directives and values.
    ///
    /// # Errors
    /// The text of the error reply, and nothing is to be set.
    pub(crate) fn check<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        source: SettingSource,
    ) -> Result<Vec<Setting>, Vec<u8>> {
        let values = self.values.read();
        let protects = position(b"enable-protected-configs").is_some_and(|at| values[at] == b"no");
        let mut settings: Vec<Setting> = Vec::new();
        for (name, value) in pairs {
            let failed = |reason: &str| failed_setting(name, reason);
            let Some(position) = position(name) else {
                let start = b"ERR Unknown option or number of arguments for CONFIG SET - '";
                return Err([&start[..], name, b"'"].concat());
            };
            let directive: &Directive = &DIRECTIVES[position];
            if source == SettingSource::Command && directive.is_fixed {
                if protects && PROTECTED.contains(&directive.name) {
                    return Err(failed("can't set protected config"));
                }
                // REWRITE does not keep addresses, but they can be changed; its own a server has already.
                if !matches!(directive.name, "port" | "bind") {
                    return Err(failed("can't set immutable config"));
                }
                if directive.canonical(value, b"").is_ok_and(|value| value == values[position]) {
                    continue;
                }
            }
            if settings.iter().any(|setting| setting.position == position) {
                return Err(failed("duplicate parameter"));
            }
            let value = directive.canonical(value, &values[position]).map_err(|reason| failed(&reason))?;
            settings.push(Setting { position, value });
        }
        Ok(settings)
    }

    /// Sets checked values.
    pub(crate) fn set(&self, settings: &[Setting]) {
        let mut values = self.values.write();
        for setting in settings {
            values[setting.position].clone_from(&setting.value);
        }
    }

    /// The value of a directive; empty for one that does not exist.
    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        position(name.as_bytes()).map(|position| self.values.read()[position].clone()).unwrap_or_default()
    }

    /// The value of a directive as a number; zero if it is none.
    pub(crate) fn number(&self, name: &str) -> i64 {
        parse_integer(&self.get(name)).unwrap_or_default()
    }

    /// Names and values of the directives that match one of these patterns, by either of their names.
    /// A name without wildcards is told as it was asked for, and hidden directives by their names alone.
    pub(crate) fn matching(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = self.values.read();
        let mut found = Vec::new();
        for (directive, value) in DIRECTIVES.iter().zip(values.iter()) {
            for name in [Some(directive.name), directive.alias].into_iter().flatten().map(str::as_bytes) {
                let asked = patterns.iter().find(|pattern| pattern.eq_ignore_ascii_case(name));
                let is_matched = || patterns.iter().any(|pattern| matches(pattern, name, Case::Insensitive));
                match asked {
                    Some(asked) => found.push((asked.to_vec(), value.clone())),
                    None if !HIDDEN.contains(&directive.name) && is_matched() => {
                        found.push((name.to_vec(), value.clone()));
                    }
                    None => {}
                }
            }
        }
        found
    }

    /// Directives that CONFIG SET takes and whose values are not the defaults.
    pub(crate) fn changed(&self) -> Vec<(&'static str, Vec<u8>)> {
        let values = self.values.read();
        let pairs = DIRECTIVES.iter().zip(values.iter());
        let changed = pairs.filter(|(directive, value)| {
            !directive.is_fixed && directive.default.as_bytes() != value.as_slice()
        });
        changed.map(|(directive, value)| (directive.name, value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, value: &str) -> Result<Vec<u8>, String> {
        let pair = (name.as_bytes(), value.as_bytes());
        let checked = Config::default().check([pair].into_iter(), SettingSource::Command);
        checked
            .map(|settings| settings[0].value.clone())
            .map_err(|text| String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn the_table_is_ordered_and_takes_its_defaults() {
        assert!(DIRECTIVES.is_sorted_by_key(|directive| directive.name));
        for directive in DIRECTIVES {
            assert_eq!(
                directive.canonical(directive.default.as_bytes(), b"").as_deref(),
                Ok(directive.default.as_bytes())
            );
        }
    }

    #[test]
    fn values_are_checked_by_kind() {
        assert_eq!(check_one("PROTO-MAX-BULK-LEN", "2mb"), Ok(b"2097152".to_vec()));
        assert_eq!(check_one("hash-max-ziplist-entries", "12"), Ok(b"12".to_vec()));
        assert_eq!(check_one("notify-keyspace-events", "EA"), Ok(b"AE".to_vec()));
        assert_eq!(check_one("hz", "0"), Ok(b"1".to_vec()));
        assert_eq!(check_one("repl-backlog-size", "1kb"), Ok(b"16384".to_vec()));
        assert!(check_one("timeout", "2147483648").unwrap_err().contains("between 0 and 2147483647"));
        assert!(check_one("hll-sparse-max-bytes", "9223372036854775808").is_err());
        assert_eq!(check_one("maxmemory", "9223372036854775808"), Ok(b"9223372036854775808".to_vec()));
        assert_eq!(check_one("shutdown-on-sigterm", "FORCE nosave"), Ok(b"nosave force".to_vec()));
        assert_eq!(check_one("shutdown-on-sigterm", "default"), Ok(b"default".to_vec()));
        assert!(check_one("shutdown-on-sigterm", "save nosave").unwrap_err().contains("Can't combine"));
        assert!(check_one("appendfsync", "sometimes").unwrap_err().contains("one of the following"));
        assert!(check_one("databases", "1").unwrap_err().contains("immutable"));
        assert_eq!(check_one("port", "1"), Ok(b"1".to_vec()));
        let own = [(&b"port"[..], &b"6379"[..]), (b"bind", b"127.0.0.1")];
        assert!(
            Config::default().check(own.into_iter(), SettingSource::Command).is_ok_and(|set| set.is_empty())
        );
        assert!(check_one("nothing", "1").unwrap_err().starts_with("ERR Unknown option"));
    }
}
