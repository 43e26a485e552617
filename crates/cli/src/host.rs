//! Access to the user's files, terminal and environment. The engine must not use them, so lints ban these
//! calls; only this file and `output` lift the bans.

use crate::failure::Failure;
use crate::log::LogQueue;
use crate::log_limit::LogLimit;
use esker::parts::env::Env;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Stderr, Stdin, StdoutLock};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Standard output, buffered: the caller flushes when an answer is due.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

pub(crate) fn stdin() -> Stdin {
    io::stdin()
}

pub(crate) fn stderr() -> Stderr {
    io::stderr()
}

/// Progress in bytes, on standard error and only if that is a terminal; without a length it only counts.
pub(crate) fn progress_bar(len: Option<u64>) -> ProgressBar {
    let template = match len {
        Some(_) => "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}",
        None => "{spinner} {bytes} {binary_bytes_per_sec} {msg}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates are constants");
    let bar = len.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    bar.with_style(style)
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Progress in steps, on standard error.
pub(crate) fn step_bar(steps: u64) -> ProgressBar {
    let template = "{prefix} {bar:30} {pos}/{len} {elapsed} {wide_msg}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(steps).with_style(style)
}

/// Whether the program is used at a terminal.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Width of the terminal: `COLUMNS`, or the width of standard output, or 100 without a terminal.
pub(crate) fn output_width() -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let measured = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    given.or_else(measured).filter(|width| *width > 0).unwrap_or(100)
}

/// An input the user named, `-` for standard input, and its length if it is a file.
pub(crate) struct Input {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) len: Option<u64>,
}

/// Fails if the input does not exist. Does not open it: the writer of a pipe would see its reader close.
pub(crate) fn find_input(path: &Path) -> Result<(), Failure> {
    let metadata = if path == Path::new("-") { None } else { Some(path.metadata()) };
    match metadata.transpose().map_err(|error| cannot_read(path, &error))? {
        Some(metadata) if metadata.is_dir() => Err(cannot_read(path, &io::ErrorKind::IsADirectory.into())),
        _ => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "a user's input file is not part of a database")]
pub(crate) fn open_input(path: &Path) -> Result<Input, Failure> {
    if path == Path::new("-") {
        return Ok(Input { reader: Box::new(io::stdin()), len: None });
    }
    find_input(path)?;
    let cannot = |error| cannot_read(path, &error);
    let file = File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    let len = metadata.is_file().then_some(metadata.len());
    Ok(Input { reader: Box::new(BufReader::with_capacity(256 << 10, file)), len })
}

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::system(format_args!("cannot read {}", path.display()), error)
}

/// A value from the command line, or all of standard input for `-`.
pub(crate) fn content_or_stdin(content: &str) -> Result<Vec<u8>, Failure> {
    if content == "-" { read_stdin() } else { Ok(content.as_bytes().to_vec()) }
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::system("cannot read standard input", &error))?;
    Ok(bytes)
}

/// A variable of the environment; an error if it is not UTF-8.
pub(crate) fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::usage(format!("{name}: {error}"))),
    }
}

#[expect(clippy::disallowed_methods, reason = "a display waits for the next interval, not for a thread")]
pub(crate) fn pause(interval: Duration) {
    std::thread::sleep(interval);
}

pub(crate) fn history_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".esker_history"))
}

/// Starts the log; the queue is to be finished before the program ends.
pub(crate) fn start_log(level: LevelFilter) -> Result<LogQueue, Failure> {
    let terminal = io::stderr().is_terminal();
    let queue = LogQueue::start(io::stderr())?;
    let lines = queue.clone();
    let log = tracing_subscriber::fmt().with_max_level(level).with_ansi(terminal);
    let log = log.with_writer(move || lines.clone()).finish();
    log.with(LogLimit::new(Env::real().clock, queue.clone())).init();
    Ok(queue)
}
