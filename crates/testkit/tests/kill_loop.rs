//! The kill loop: a child process writes and reports what was acknowledged. It is killed at some moment,
//! while it writes or opens; then the store is opened and every reported write must be there, with no hole
//! and no half batch.
//!
//! `ESKER_KILLS=n` kills this many times; `ESKER_SEED=n` chooses other moments (which the scheduler of the
//! operating system shifts: a seed does not reproduce a failure, more kills do).
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker::parts::env::{Clock, Env, SeededRandom, SystemClock};
use esker_testkit::kill::{self, WRITERS};
use esker_testkit::{Failure, Outcome, TestDir, ensure};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Gives the child its directory; without it the child's test does nothing.
const DIR: &str = "ESKER_KILL_DIR";
/// Gives the child its task: `write` or `open`, and which log.
const RUN: &str = "ESKER_KILL_RUN";

const KILLS: u64 = 40;
const SIGKILL: i32 = 9;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}")))
}

/// Not a test of its own: the body of the killed process.
#[test]
fn child() {
    let (Some(dir), Ok(run)) = (std::env::var_os(DIR), std::env::var(RUN)) else { return };
    let mapped = run.ends_with("mapped");
    if run.starts_with("open") {
        loop {
            kill::open(Path::new(&dir), mapped).unwrap().close().unwrap();
        }
    }
    let db = kill::open(Path::new(&dir), mapped).unwrap();
    kill::write_forever(&db, |writer, number| {
        // One call of the pipe per line; a line that the kill cut short is no acknowledgement.
        writeln!(std::io::stdout().lock(), "acknowledged {writer} {number}").is_ok()
    })
    .unwrap();
}

/// A child and its acknowledgements.
struct ChildProcess {
    child: Child,
    reports: Receiver<(usize, u64)>,
    reader: JoinHandle<()>,
}

impl ChildProcess {
    fn begin(dir: &Path, run: &str) -> ChildProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]).env(DIR, dir).env(RUN, run);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, reports) = channel();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let reader = Env::real().spawn("reports", move || {
            let mut line = String::new();
            while pipe.read_line(&mut line).is_ok_and(|len| len > 0) {
                if let Some(report) = parse(&line) {
                    let _ = sender.send(report);
                }
                line.clear();
            }
        });
        ChildProcess { child, reports, reader: reader.unwrap() }
    }

    /// Waits for this many acknowledgements or this time, kills, and returns what had been acknowledged.
    fn end(mut self, reports: u64, time: Duration, acknowledged: &mut [u64; WRITERS]) -> Outcome {
        let clock = SystemClock::new();
        let end_ns = clock.monotonic_ns() + time.as_nanos() as u64;
        let mut note =
            |(writer, number): (usize, u64)| acknowledged[writer] = acknowledged[writer].max(number);
        let mut seen = 0;
        while seen < reports {
            let left = Duration::from_nanos(end_ns.saturating_sub(clock.monotonic_ns()));
            match self.reports.recv_timeout(left) {
                Ok(report) => note(report),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
            seen += 1;
        }
        self.child.kill().map_err(|error| Failure::new(error.to_string()))?;
        let status = self.child.wait().map_err(|error| Failure::new(error.to_string()))?;
        ensure!(status.signal() == Some(SIGKILL), "the child ended by itself: {status}");
        ensure!(self.reader.join().is_ok(), "the reader of the pipe panicked");
        self.reports.try_iter().for_each(note);
        Ok(())
    }
}

fn parse(line: &str) -> Option<(usize, u64)> {
    let mut words = line.strip_suffix('\n')?.strip_prefix("acknowledged ")?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[test]
fn everything_acknowledged_survives_the_death_of_the_process() {
    let (kills, seed) = (variable("ESKER_KILLS", KILLS), variable("ESKER_SEED", 7));
    let random = SeededRandom::new(seed);
    let dir = TestDir::new("kill");
    let mut acknowledged = [0; WRITERS];
    for number in 0..kills {
        let log = if random.below(2) == 0 { "mapped" } else { "written" };
        // Half of the children are killed after a number of writes, the others after a time, which may be too
        // short to open.
        let (what, reports, time_ms) = match random.below(8) {
            0 => ("open", u64::MAX, random.below(120)),
            1 => ("write", u64::MAX, random.below(40)),
            2 | 3 => ("write", u64::MAX, 20 + random.below(250)),
            _ => ("write", 1 + random.below(4_000), 5_000),
        };
        let run = format!("{what} {log}");
        let context = |failure: Failure| {
            format!(
                "kill {number} of ESKER_SEED={seed} ({run}, {reports} reports or {time_ms} ms): {failure}"
            )
        };
        let ended = ChildProcess::begin(dir.path(), &run).end(
            reports,
            Duration::from_millis(time_ms),
            &mut acknowledged,
        );
        ended.unwrap_or_else(|failure| panic!("{}", context(failure)));
        // Some kills are not followed by a check, so that the next child recovers from a killed recovery.
        if random.below(3) > 0 || number + 1 == kills {
            let verified = kill::open(dir.path(), log == "mapped").map_err(Failure::from).and_then(|db| {
                let found = kill::verify(&db, &acknowledged)?;
                db.close()?;
                Ok(found)
            });
            acknowledged = verified.unwrap_or_else(|failure| panic!("{}", context(failure)));
        }
    }
    println!("{kills} kills, {acknowledged:?} writes survived");
    assert!(acknowledged.iter().all(|&count| count > 0), "the writers never wrote: {acknowledged:?}");
}
