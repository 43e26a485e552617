//! The log, on standard error mostly, written by a thread of its own: a reader of the log that stalls holds
//! up nothing but the log.
//!
//! Lines wait in a bounded queue. When it is full, lines are left out, and the next one that fits is preceded
//! by their number.

use crate::args::LogFormat;
use esker::parts::env::Env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// Lines that wait at most; at about 150 bytes each half a mebibyte.
const WAITING_LINES: usize = 4096;
/// At the end of the program: how long it waits for lines that nothing reads.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// What of the log is written, how and where.
#[derive(Clone, Debug)]
pub(crate) struct LogSettings {
    pub(crate) level: LevelFilter,
    pub(crate) format: LogFormat,
    pub(crate) target: LogTarget,
}

impl LogSettings {
    /// Lines for people on standard error.
    pub(crate) fn plain(level: LevelFilter) -> LogSettings {
        LogSettings { level, format: LogFormat::Text, target: LogTarget::StandardError }
    }
}

/// Where the log goes.
#[derive(Clone, Debug)]
pub(crate) enum LogTarget {
    StandardError,
    StandardOutput,
    /// To the end of a file.
    File(PathBuf),
}

enum Message {
    Line(Vec<u8>),
    /// Answered once everything before it is written.
    Flush(SyncSender<()>),
}

/// The queue of lines; each write is one line, and is never held up.
#[derive(Clone)]
pub(crate) struct LogQueue {
    lines: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
}

impl LogQueue {
    /// A queue that a new thread writes to `to`.
    pub(crate) fn start(to: impl Write + Send + 'static) -> esker::Result<LogQueue> {
        let (lines, waiting) = sync_channel(WAITING_LINES);
        let left_out = Arc::new(AtomicU64::new(0));
        let queue = LogQueue { lines, left_out: Arc::clone(&left_out) };
        // It ends with the program: the log may be written to until then.
        let _thread = Env::real().spawn("esker-log-text", move || write_lines(to, &waiting, &left_out))?;
        Ok(queue)
    }

    /// Waits until what was written before is out, for a limited time.
    pub(crate) fn finish(&self) {
        let (done, is_done) = sync_channel(1);
        if self.lines.try_send(Message::Flush(done)).is_ok() {
            // If standard error is not read, its lines are lost.
            let _written = is_done.recv_timeout(LAST_WAIT);
        }
    }
}

impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Message::Line(line.to_vec())).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(mut to: impl Write, waiting: &Receiver<Message>, left_out: &AtomicU64) {
    for message in waiting {
        // A missing standard error is no failure.
        let _written = match message {
            Message::Line(line) => {
                let missing = left_out.swap(0, Ordering::Relaxed);
                let told = match missing {
                    0 => Ok(()),
                    _ => writeln!(to, "{missing} lines of the log were left out, because it was not read"),
                };
                told.and_then(|()| to.write_all(&line))
            }
            Message::Flush(done) => {
                let flushed = to.flush();
                let _asked = done.try_send(());
                flushed
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::Sender;

    /// Writes nothing until it is told to.
    struct Stalled {
        release: Mutex<Receiver<()>>,
        is_released: bool,
        out: Sender<Vec<u8>>,
    }

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.is_released {
                self.release.lock().unwrap().recv().unwrap();
                self.is_released = true;
            }
            self.out.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Every line is written or counted, and no write waits for the reader.
    #[test]
    fn a_stalled_reader_holds_up_nothing() {
        const LINES: usize = 3 * WAITING_LINES;
        let (go, release) = std::sync::mpsc::channel();
        let (out, written) = std::sync::mpsc::channel();
        let mut queue =
            LogQueue::start(Stalled { release: Mutex::new(release), is_released: false, out }).unwrap();
        for number in 0..LINES {
            queue.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        go.send(()).unwrap();
        let mut text = Vec::new();
        let (mut lines, mut left_out) = (0, 0);
        // Lines of the loop may be left out as well.
        while lines + left_out < LINES {
            // Once the queue has room, this line is written, with the number before it.
            queue.write_all(b"more\n").unwrap();
            text.extend(written.recv().unwrap());
            text.extend(written.try_iter().flatten());
            let said = String::from_utf8(text.clone()).unwrap();
            lines = said.lines().filter(|line| line.starts_with("line ")).count();
            left_out = said
                .lines()
                .filter_map(|line| line.split_once(" lines of the log were left out"))
                .map(|(number, _)| number.parse::<usize>().unwrap())
                .sum();
        }
        assert!(lines < LINES, "nothing was left out");
        queue.finish();
    }
}
