//! The level of the log, which the directive `loglevel` names and the program that runs the server sets.

use std::fmt;
use std::sync::OnceLock;

/// Sets the level of the process's log, by a word of `loglevel`.
type SetLevel = Box<dyn Fn(&[u8]) + Send + Sync>;

/// What sets the level; nothing unless the program says it.
#[derive(Default)]
pub(crate) struct LogLevel(OnceLock<SetLevel>);

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&self.0.get().is_some()).finish()
    }
}

impl LogLevel {
    /// Says what sets the level. A later call changes nothing.
    pub(crate) fn tell(&self, set: impl Fn(&[u8]) + Send + Sync + 'static) {
        let _already = self.0.set(Box::new(set));
    }

    pub(crate) fn set(&self, word: &[u8]) {
        if let Some(set) = self.0.get() {
            set(word);
        }
    }
}
