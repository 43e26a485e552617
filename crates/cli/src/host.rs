//! Access to the user's files, terminal and environment. The engine must not use them, so lints ban these
//! calls; only this file and `output` lift the bans.

use crate::args::LogFormat;
use crate::failure::Failure;
use crate::log::{LogQueue, LogSettings, LogTarget};
use crate::log_limit::LogLimit;
use crate::log_lines::{JsonLines, RedisLines};
use esker::parts::env::Env;
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Stderr, Stdin, StdoutLock, Write};
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, registry, reload};

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

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
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

/// Whether a second read would find nothing: of standard input, and of a pipe.
pub(crate) fn can_be_read_once(path: &Path) -> bool {
    path == Path::new("-") || path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
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

/// The words of the command line, beginning with the program's name.
pub(crate) fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// Where relative paths begin.
pub(crate) fn working_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::system("cannot tell the working directory", &error))
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

/// All of a file that the user named, `-` for standard input.
pub(crate) fn content_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = open_input(path)?.reader.read_to_end(&mut bytes);
    read.map_err(|error| cannot_read(path, &error))?;
    Ok(bytes)
}

/// Bytes of the tables and blob files in the directory of a database; 0 if they cannot be listed.
#[expect(clippy::disallowed_methods, reason = "only a display needs it")]
pub(crate) fn bytes_of_tables(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory.join("tables")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|found| found.is_file())
        .map(|found| found.len())
        .sum()
}

/// The path from the root.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // Without the dots that a relative path may begin with.
    let absolute = std::path::absolute(path).map(|path| path.components().collect());
    absolute.map_err(|error| Failure::system(format_args!("cannot find {}", path.display()), &error))
}

/// A file with the number of the process, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    #[expect(clippy::disallowed_methods, reason = "it is not part of a database")]
    pub(crate) fn write(path: &Path) -> Result<PidFile, Failure> {
        let written = std::fs::write(path, format!("{}\n", std::process::id()));
        written.map_err(|error| Failure::system(format_args!("cannot write {}", path.display()), &error))?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    #[expect(clippy::disallowed_methods, reason = "it is not part of a database")]
    fn drop(&mut self) {
        // It may have been removed already.
        let _result = std::fs::remove_file(&self.0);
    }
}

/// Tells the supervisor that started the process, if there is one, how it stands: systemd's protocol of
/// readiness, a datagram to the socket that the environment names.
pub(crate) fn tell_supervisor(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send_datagram(&name, state.as_bytes()) {
        tracing::warn!(socket = ?name, %error, "the supervisor cannot be told {state}");
    }
}

fn send_datagram(name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return socket.send_to_addr(bytes, &address).map(|_| ());
    }
    socket.send_to(bytes, name).map(|_| ())
}

/// Where the log goes; a file is created, and written at its end.
#[expect(clippy::disallowed_types, reason = "the log is not part of a database")]
fn open_log(target: &LogTarget) -> Result<Box<dyn Write + Send>, Failure> {
    Ok(match target {
        LogTarget::StandardError => Box::new(io::stderr()),
        // Not by the handle of the standard library, whose lock this program keeps.
        LogTarget::StandardOutput => {
            let failed = |error| Failure::system("cannot write to standard output", &error);
            Box::new(File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?))
        }
        LogTarget::File(path) => {
            let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
            let failed =
                |error| Failure::system(format_args!("cannot write the log {}", path.display()), &error);
            Box::new(opened.map_err(failed)?)
        }
    })
}

/// The level of the log, which is one for the process.
static LOG_LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Changes the level of the log, once it has started.
pub(crate) fn set_log_level(level: LevelFilter) {
    if let Some(changing) = LOG_LEVEL.get() {
        // It fails if the log is gone, and then nothing is to be changed.
        let _result = changing.modify(|present| *present = level);
    }
}

/// Starts the log; the queue is to be finished before the program ends.
pub(crate) fn start_log(settings: &LogSettings) -> Result<LogQueue, Failure> {
    let colours = matches!(settings.target, LogTarget::StandardError)
        && settings.format == LogFormat::Text
        && io::stderr().is_terminal();
    let queue = LogQueue::start(open_log(&settings.target)?)?;
    let (lines, limit) = (queue.clone(), LogLimit::new(Env::real().clock, queue.clone()));
    let (level, changing) = reload::Layer::new(settings.level);
    let _already = LOG_LEVEL.set(changing);
    let log = registry().with(level);
    let lines = fmt::layer().with_ansi(colours).with_writer(move || lines.clone());
    match settings.format {
        LogFormat::Text => log.with(lines).with(limit).init(),
        LogFormat::Json => log.with(lines.event_format(JsonLines)).with(limit).init(),
        LogFormat::Redis => log.with(lines.event_format(RedisLines)).with(limit).init(),
    }
    Ok(queue)
}
