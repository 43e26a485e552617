//! `redis.log` of scripts: events of `tracing`, which the program that serves sends where its log goes.
//!
//! Lines are held until the script will not be executed once more, so that each is written once: then its
//! batch is written, or it was stopped.

use esker_lua::LogLevel;
use std::fmt;

/// The longest line, as in Redis.
const LONGEST_LINE: usize = 1_024;

/// Bytes of lines that are held, each with its own cost. A script that writes more goes where nothing makes
/// it come once more.
const MAX_HELD_BYTES: usize = 1 << 20;

/// What a line costs beside its bytes.
const BYTES_OF_A_LINE: usize = 32;

/// Lines of scripts in their order.
#[derive(Debug, Default)]
pub(crate) struct HeldLines {
    lines: Vec<(LogLevel, Box<[u8]>)>,
    bytes: usize,
}

impl HeldLines {
    /// Holds a line; `false` if there is no room.
    pub(crate) fn hold(&mut self, level: LogLevel, text: &[u8]) -> bool {
        let text = shown(text);
        let bytes = self.bytes + text.len() + BYTES_OF_A_LINE;
        let has_room = bytes <= MAX_HELD_BYTES;
        if has_room {
            self.bytes = bytes;
            self.lines.push((level, text.into()));
        }
        has_room
    }

    /// Writes them.
    pub(crate) fn write(&mut self) {
        if !self.lines.is_empty() {
            std::mem::take(self).lines.iter().for_each(|(level, text)| write(*level, text));
        }
    }

    /// Forgets them.
    pub(crate) fn forget(&mut self) {
        if !self.lines.is_empty() {
            *self = Self::default();
        }
    }
}

/// Writes a line of a script.
pub(crate) fn write(level: LogLevel, text: &[u8]) {
    let line = Line(text);
    match level {
        LogLevel::Debug => tracing::trace!(target: "esker_redis_server::script", "{line}"),
        LogLevel::Verbose => tracing::debug!(target: "esker_redis_server::script", "{line}"),
        LogLevel::Notice => tracing::info!(target: "esker_redis_server::script", "{line}"),
        LogLevel::Warning => tracing::warn!(target: "esker_redis_server::script", "{line}"),
    }
}

/// What is written of a text.
fn shown(text: &[u8]) -> &[u8] {
    &text[..text.len().min(LONGEST_LINE)]
}

/// Text in one line, so that no client forges a line of the log or steers a terminal.
pub(crate) struct Line<'t>(pub(crate) &'t [u8]);

impl fmt::Display for Line<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in String::from_utf8_lossy(shown(self.0)).chars() {
            match character.is_control() {
                true => write!(formatter, "{}", character.escape_default())?,
                false => write!(formatter, "{character}")?,
            }
        }
        Ok(())
    }
}
