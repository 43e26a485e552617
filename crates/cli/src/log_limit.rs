//! Limit of the log's rate: of each kind of line so many are written in a period, the rest is counted, and
//! the first line of the next period is preceded by the count.
//!
//! What happens for each of a thousand clients or of a thousand refused writes would else fill the disk that
//! the log is on, and hide everything else.

use crate::log::LogQueue;
use esker::parts::env::Clock;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::callsite::Identifier;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Lines of one place in the code that are written in a period.
const MOST_LINES: u32 = 20;
const PERIOD_NS: u64 = 10_000_000_000;

/// What was written of one kind of line.
#[derive(Debug, Default)]
struct Written {
    began_ns: u64,
    lines: u32,
    left_out: u64,
}

impl Written {
    /// Counts a line; `None` if it is left out, else how many were left out since the last one.
    fn admit(&mut self, now_ns: u64) -> Option<u64> {
        if self.lines == 0 || now_ns.saturating_sub(self.began_ns) >= PERIOD_NS {
            (self.began_ns, self.lines) = (now_ns, 0);
        }
        if self.lines >= MOST_LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Leaves out lines of a kind that comes too often.
pub(crate) struct LogLimit {
    clock: Arc<dyn Clock>,
    queue: LogQueue,
    kinds: Mutex<HashMap<Identifier, Written>>,
}

impl LogLimit {
    pub(crate) fn new(clock: Arc<dyn Clock>, queue: LogQueue) -> LogLimit {
        LogLimit { clock, queue, kinds: Mutex::default() }
    }
}

impl<S: Subscriber> Layer<S> for LogLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let now_ns = self.clock.monotonic_ns();
        let admitted = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.entry(event.metadata().callsite()).or_default().admit(now_ns)
        };
        if let Some(left_out) = admitted.filter(|left_out| *left_out > 0) {
            let line = format!("{left_out} lines were left out that are like the next one\n");
            // The queue takes everything.
            let _written = self.queue.clone().write_all(line.as_bytes());
        }
        admitted.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lines_of_a_kind_some_are_written_and_the_rest_is_counted() {
        let mut written = Written::default();
        let most = u64::from(MOST_LINES);
        let admitted = |written: &mut Written, at: u64, lines: u64| {
            (0..lines).filter_map(|_| written.admit(at)).collect::<Vec<u64>>()
        };
        assert_eq!(admitted(&mut written, 5, 1_000), vec![0; MOST_LINES as usize]);
        assert_eq!(admitted(&mut written, 4 + PERIOD_NS, 10), Vec::<u64>::new());
        let next = admitted(&mut written, 5 + PERIOD_NS, 3);
        assert_eq!(next, [1_000 - most + 10, 0, 0]);
        assert_eq!(admitted(&mut written, 5 + 3 * PERIOD_NS, 1), [0]);
    }
}
