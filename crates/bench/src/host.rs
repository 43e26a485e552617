//! The little that a benchmark asks of the operating system: how much memory the process holds, and another process's end.

use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};

/// Starts a process, waits until it says a line on its standard output that is `awaited`, and kills it where it is: it gets no
/// signal that it could act on. Gives the line; `None` if the process ended without it.
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

/// Anonymous memory that the process has resident, in bytes: heap, stacks and caches, but neither program text nor
/// mapped files, which belong to the system's page cache. `None` where the system does not tell.
pub(crate) fn resident_anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    parse_status(&status)
}

fn parse_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_file_is_understood() {
        assert_eq!(parse_status("Name:\tx\nRssAnon:\t    2048 kB\nRssFile:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(parse_status("Name:\tx\n"), None);
    }
}
