//! Operating system services: processor time of the process, killing a child process, and files of a
//! generated workload.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a process, waits until it prints a line that is `awaited`, and kills it by a signal that it cannot
/// handle. Returns the line; `None` if the process ended without it.
pub(crate) fn kill_after_line(
    mut command: Command,
    awaited: impl Fn(&str) -> bool,
) -> io::Result<Option<String>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let lines = child.stdout.take().map(|out| BufReader::new(out).lines());
    let said = lines.into_iter().flatten().find(|line| line.as_ref().map_or(true, |line| awaited(line)));
    child.kill()?;
    child.wait()?;
    said.transpose()
}

/// Makes a directory and those above it, unless they exist.
#[expect(clippy::disallowed_methods, reason = "the user's directory, not the database's")]
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// An empty file for writing, in place of one that may be there.
#[expect(clippy::disallowed_methods, reason = "the user's file, not the database's")]
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    File::create(path)
}

/// Processor time of a process, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessorTime {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
}

/// Clock ticks a second in which Linux reports processor times to programs, on every architecture.
const TICKS_A_SECOND: f64 = 100.0;

/// Processor time of this process so far. `None` where the system does not report it.
pub(crate) fn processor_time() -> Option<ProcessorTime> {
    parse_stat(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// How long the calling thread was ready to run and had no processor, so far. `None` where the system does
/// not report it.
pub(crate) fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

fn parse_stat(stat: &str) -> Option<ProcessorTime> {
    // The program name, in parentheses, may contain anything; after it `utime` and `stime` are fields 12 and
    // 13.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut next_seconds = || Some(times.next()?.parse::<u64>().ok()? as f64 / TICKS_A_SECOND);
    Some(ProcessorTime { user_seconds: next_seconds()?, system_seconds: next_seconds()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_are_understood() {
        let stat = "4711 (a) b) S 1 4711 4711 0 -1 4194304 90 0 0 0 250 75 0 0 20 0 1 0 7";
        assert_eq!(parse_stat(stat), Some(ProcessorTime { user_seconds: 2.5, system_seconds: 0.75 }));
        assert_eq!(parse_stat("4711 (a) S 1"), None);
    }
}
