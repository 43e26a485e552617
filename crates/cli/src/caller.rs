//! The caller of a command: where its input comes from, its messages go to, and relative paths begin.
//!
//! That is this process, or another one for which the command is executed here because the database is open
//! here ([`crate::control`]).

use crate::failure::Failure;
use crate::format::human_count;
use crate::host::{self, Input};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of another process's input that are asked for at once.
const INPUT_BYTES: usize = 256 << 10;

/// Another process that waits for the end of a command.
pub(crate) trait Remote: fmt::Debug + Send + Sync {
    /// Its working directory.
    fn directory(&self) -> &Path;

    /// Columns of its terminal, if it shows progress.
    fn progress_columns(&self) -> Option<u16>;

    /// Its next piece of input, empty at the end.
    fn input(&self) -> io::Result<Vec<u8>>;

    /// Writes to its standard output.
    fn output(&self, bytes: &[u8]) -> io::Result<()>;

    /// Writes to its standard error.
    fn errors(&self, bytes: &[u8]) -> io::Result<()>;

    /// Whether it has left, or wants the command to end.
    fn is_gone(&self) -> bool;
}

/// The caller of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    remote: Option<Arc<dyn Remote>>,
}

impl Caller {
    /// Another process.
    pub(crate) fn remote(remote: Arc<dyn Remote>) -> Self {
        Self { remote: Some(remote) }
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// Whether what is written to standard output may stand on the terminal that shows progress.
    pub(crate) fn output_may_be_seen(&self) -> bool {
        self.is_remote() || host::stdout_is_terminal()
    }

    /// Whether another process has left, or wants the command to end.
    pub(crate) fn is_gone(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.is_gone())
    }

    /// A path that was typed, as this process finds it. `-` stays.
    pub(crate) fn path(&self, typed: &Path) -> PathBuf {
        match &self.remote {
            Some(remote) if typed != Path::new("-") => remote.directory().join(typed),
            _ => typed.to_path_buf(),
        }
    }

    /// Fails if the input does not exist; see [`host::find_input`].
    pub(crate) fn find_input(&self, typed: &Path) -> Result<(), Failure> {
        host::find_input(&self.path(typed))
    }

    /// A file, or standard input for `-`.
    pub(crate) fn open_input(&self, typed: &Path) -> Result<Input, Failure> {
        match &self.remote {
            Some(remote) if typed == Path::new("-") => {
                let pieces = Pieces { remote: Arc::clone(remote), piece: Vec::new(), at: 0 };
                Ok(Input { reader: Box::new(BufReader::with_capacity(INPUT_BYTES, pieces)), len: None })
            }
            _ => host::open_input(&self.path(typed)),
        }
    }

    /// A value from the command line, or all of standard input for `-`.
    pub(crate) fn content_or_stdin(&self, content: &str) -> Result<Vec<u8>, Failure> {
        if content != "-" {
            return Ok(content.as_bytes().to_vec());
        }
        let mut bytes = Vec::new();
        let read = self.open_input(Path::new("-"))?.reader.read_to_end(&mut bytes);
        read.map_err(|error| Failure::system("cannot read standard input", &error))?;
        Ok(bytes)
    }

    /// Standard error.
    pub(crate) fn errors(&self) -> Box<dyn Write> {
        match &self.remote {
            Some(remote) => Box::new(Errors(Arc::clone(remote))),
            None => Box::new(host::stderr()),
        }
    }

    /// Progress in bytes, if standard error is a terminal; without a length it only counts.
    pub(crate) fn progress_bar(&self, len: Option<u64>) -> ProgressBar {
        let template = match len {
            Some(_) => "{bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}",
            None => "{spinner} {bytes} {binary_bytes_per_sec} {msg}",
        };
        self.bar(len, template)
    }

    /// Progress in pairs, as [`Caller::progress_bar`]. The length may be an estimate.
    pub(crate) fn pairs_bar(&self, len: u64) -> ProgressBar {
        self.bar(Some(len), "{bar:24} {human_pos}/{human_len} pairs {pairs_per_second}/s {eta} {msg}")
    }

    fn bar(&self, len: Option<u64>, template: &str) -> ProgressBar {
        let target = match &self.remote {
            None => ProgressDrawTarget::stderr(),
            Some(remote) => match remote.progress_columns() {
                Some(columns) => {
                    let terminal = Terminal { columns, errors: Errors(Arc::clone(remote)) };
                    ProgressDrawTarget::term_like(Box::new(terminal))
                }
                None => ProgressDrawTarget::hidden(),
            },
        };
        let style = ProgressStyle::with_template(template).expect("the templates are constants").with_key(
            "pairs_per_second",
            |state: &ProgressState, out: &mut dyn fmt::Write| {
                // The writer is a string.
                let _written = write!(out, "{}", human_count(state.per_sec() as u64));
            },
        );
        ProgressBar::with_draw_target(len, target).with_style(style)
    }
}

/// Standard input of another process.
struct Pieces {
    remote: Arc<dyn Remote>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            (self.piece, self.at) = (self.remote.input()?, 0);
        }
        let left = &self.piece[self.at..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Standard error of another process.
#[derive(Debug)]
struct Errors(Arc<dyn Remote>);

impl Write for Errors {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.errors(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The terminal of another process, for bars.
#[derive(Debug)]
struct Terminal {
    columns: u16,
    errors: Errors,
}

impl Terminal {
    fn write(&self, text: &str) -> io::Result<()> {
        self.errors.0.errors(text.as_bytes())
    }

    fn move_by(&self, count: usize, direction: char) -> io::Result<()> {
        if count == 0 { Ok(()) } else { self.write(&format!("\u{1b}[{count}{direction}")) }
    }
}

impl indicatif::TermLike for Terminal {
    fn width(&self) -> u16 {
        self.columns
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.write(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write("\r\u{1b}[2K")
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
