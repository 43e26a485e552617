//! What a script asks of the server that runs it.

use esker_resp::writer::Protocol;
use std::ops::ControlFlow;

/// The host is asked after so many instructions, about a millisecond's.
pub const HOOK_INSTRUCTIONS: i64 = 100_000;

/// The level of a line that `redis.log` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`.
    Debug,
    /// `redis.LOG_VERBOSE`.
    Verbose,
    /// `redis.LOG_NOTICE`.
    Notice,
    /// `redis.LOG_WARNING`.
    Warning,
}

/// The server, as one run of a script sees it.
///
/// The engine calls it while the script runs, on the same thread. It must not run another script by the same
/// engine in between: that run answers an error.
pub trait Host {
    /// Runs the command of `redis.call` or `redis.pcall` and appends its reply in `protocol`. A command
    /// that is refused is answered by an error, as to a client: `-ERR Unknown Redis command called from
    /// script`.
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>);

    /// Whether the user may run the command: `redis.acl_check_cmd`. `None`: there is no such command.
    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool>;

    /// Writes a line of the log, unless its level is below that of the log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Whether the script may go on; otherwise why not, which becomes its error. Asked about every
    /// [`HOOK_INSTRUCTIONS`] instructions, a millisecond or so; nothing in
    /// the script can catch the error.
    fn may_go_on(&mut self) -> ControlFlow<String>;
}
