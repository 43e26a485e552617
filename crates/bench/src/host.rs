//! The little that a benchmark asks of the operating system: how much memory the process holds, how much
//! processor time it took, and another process's end.

use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};

/// Starts a process, waits until it says a line on its standard output that is `awaited`, and kills it where
/// it is: it gets no signal that it could act on. Gives the line; `None` if the process ended without it.
pub(crate) fn kill_once_it_said(
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

/// Anonymous memory that the process has resident, in bytes: heap, stacks and caches, but neither program
/// text nor mapped files, which belong to the system's page cache. `None` where the system does not tell.
pub(crate) fn resident_anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    parse_status(&status)
}

fn parse_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Processor time of a process, all of its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessorTime {
    /// In the program itself.
    pub(crate) user_seconds: f64,
    /// In the system, on its behalf.
    pub(crate) system_seconds: f64,
}

/// Clock ticks a second in which Linux tells processor times to programs, on every machine that it runs on.
const TICKS_A_SECOND: f64 = 100.0;

/// Processor time of this process so far. `None` where the system does not tell.
pub(crate) fn processor_time() -> Option<ProcessorTime> {
    parse_stat(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_stat(stat: &str) -> Option<ProcessorTime> {
    // The name of the program, in parentheses, may hold anything; behind it `utime` and `stime` are the
    // fields 12 and 13.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut next_seconds = || Some(times.next()?.parse::<u64>().ok()? as f64 / TICKS_A_SECOND);
    Some(ProcessorTime { user_seconds: next_seconds()?, system_seconds: next_seconds()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_file_is_understood() {
        assert_eq!(parse_status("Name:\tx\nRssAnon:\t    2048 kB\nRssFile:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(parse_status("Name:\tx\n"), None);
    }

    #[test]
    fn processor_times_are_understood() {
        let stat = "4711 (a) b) S 1 4711 4711 0 -1 4194304 90 0 0 0 250 75 0 0 20 0 1 0 7";
        assert_eq!(parse_stat(stat), Some(ProcessorTime { user_seconds: 2.5, system_seconds: 0.75 }));
        assert_eq!(parse_stat("4711 (a) S 1"), None);
    }
}
