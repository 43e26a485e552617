//! Arguments of `shell` and `exec`, which execute commands from a terminal or a file.

use crate::format::parse_duration;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Read commands at a prompt, for a database or a server
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker shell
  esker shell --connect 127.0.0.1:8080
  printf 'p 1 2\\ng 1\\n' | esker shell
  esker shell --connect 127.0.0.1:8080 --file commands.txt --timing
  esker shell --connect 127.0.0.1:8080 --wait 10s --json --file commands.txt

Without a terminal, commands are read from standard input and no prompt is shown.
On a database, the shell knows the DSL of the server and the words get, put, scan, ... of this program; \
type help there. On a server it speaks the DSL; with --json each answer is an \
object with the command, its answer or error, and the milliseconds until it came.")]
pub(crate) struct ShellArgs {
    /// Read commands from a file instead of the terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Options of a shell on a server.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RemoteArgs {
    /// Show how long answers took: after each at a terminal, else the sums on standard error
    #[arg(long, requires = "connect")]
    pub(crate) timing: bool,
    /// Try to connect for this time, for a server that is about to start
    #[arg(long, value_name = "TIME", default_value = "0s", hide_default_value = true, value_parser = parse_duration, requires = "connect")]
    pub(crate) wait: Duration,
}

impl RemoteArgs {
    pub(super) fn is_given(self) -> bool {
        self.timing || !self.wait.is_zero()
    }
}

/// Run a file of DSL commands on the database and print the answers
///
/// An error is an answer, but the exit code is 5 then.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  esker exec commands.txt\n  esker generate --puts 1000 --gets 100 | esker exec -"
)]
pub(crate) struct ExecArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
