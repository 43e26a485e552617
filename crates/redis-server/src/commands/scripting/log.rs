//! `redis.log` of scripts: events of `tracing`, which the program that serves sends where its log goes.

use esker_lua::LogLevel;
use std::fmt;

/// The longest line, as in Redis.
const LONGEST_LINE: usize = 1_024;

/// Writes a line of a script.
pub(super) fn write(level: LogLevel, text: &[u8]) {
    let line = Line(text);
    match level {
        LogLevel::Debug => tracing::trace!(target: "esker_redis_server::script", "{line}"),
        LogLevel::Verbose => tracing::debug!(target: "esker_redis_server::script", "{line}"),
        LogLevel::Notice => tracing::info!(target: "esker_redis_server::script", "{line}"),
        LogLevel::Warning => tracing::warn!(target: "esker_redis_server::script", "{line}"),
    }
}

/// Text in one line, so that no client forges a line of the log or steers a terminal.
pub(in crate::commands) struct Line<'t>(pub(in crate::commands) &'t [u8]);

impl fmt::Display for Line<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0[..self.0.len().min(LONGEST_LINE)];
        for character in String::from_utf8_lossy(text).chars() {
            match character.is_control() {
                true => write!(formatter, "{}", character.escape_default())?,
                false => write!(formatter, "{character}")?,
            }
        }
        Ok(())
    }
}
