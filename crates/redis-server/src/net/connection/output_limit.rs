//! Output limits: a client that takes too few of its replies and messages is disconnected.

use super::{Connection, Stage};
use crate::client_line::write_line;
use crate::config::buffer_limits::ClientClass;
use crate::server::Server;
use std::sync::atomic::Ordering;

/// Unsent bytes beyond which a client that gets messages is disconnected, if its class has no limit and it
/// subscribes to nothing: invalidations and lines of MONITOR cannot be held back.
const MAX_PUSHED_BYTES: usize = 32 << 20;

/// Unsent bytes that do not count for `client-output-buffer-limit`: Redis has a buffer of this size for each
/// client, and counts what does not fit.
const UNCOUNTED_BYTES: usize = 16 << 10;

impl Connection {
    /// Ends the connection if more waits to be sent than `client-output-buffer-limit` lets its class have.
    pub(crate) fn enforce_output_limit(&mut self, server: &Server) {
        let class = if self.is_subscriber { ClientClass::PubSub } else { ClientClass::Normal };
        let (limit, bytes) =
            (server.output_limits.of(class), self.output.bytes().saturating_sub(UNCOUNTED_BYTES) as u64);
        let is_beyond = |limit_bytes| limit_bytes > 0 && bytes >= limit_bytes;
        let mut is_over = is_beyond(limit.hard_bytes);
        if is_beyond(limit.soft_bytes) {
            let now_ms = server.now_ms();
            let since_ms = *self.over_soft_since_ms.get_or_insert(now_ms);
            is_over |= now_ms.saturating_sub(since_ms) > limit.soft_s * 1000;
        } else {
            self.over_soft_since_ms = None;
        }
        if is_over && self.stage != Stage::Closed {
            self.close_for_output(server);
        }
    }

    /// Ends the connection if messages for it come faster than it takes them, and no other limit counts.
    pub(super) fn enforce_push_limit(&mut self, server: &Server) {
        let is_limited = self.is_subscriber || server.output_limits.of(ClientClass::Normal).hard_bytes > 0;
        if !is_limited && self.output.bytes() > MAX_PUSHED_BYTES {
            self.close_for_output(server);
        }
    }

    #[cold]
    fn close_for_output(&mut self, server: &Server) {
        self.stage = Stage::Closed;
        let mut line = Vec::new();
        self.client.output_bytes.store(self.output.bytes() as u64, Ordering::Relaxed);
        write_line(&self.client, &self.client.shown.lock(), server.now_ms(), &mut line);
        let line = String::from_utf8_lossy(line.trim_ascii_end());
        tracing::warn!("Client {line} scheduled to be closed ASAP for overcoming of output buffer limits.");
    }
}
