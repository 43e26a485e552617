//! Runs a suite with one bug on, until its first failure.

use super::bank::Suite;
use super::build::Binaries;
use crate::repository;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How a suite ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// This test failed, with this seed, if it has one.
    Failed {
        test: String,
        seed: String,
    },
    /// The program died: an abort or a signal.
    Died,
    /// It did not end in time.
    Hung,
}

impl Outcome {
    /// The test and the seed of a failure.
    pub(super) fn failure(&self) -> Option<(&str, &str)> {
        match self {
            Outcome::Passed => None,
            Outcome::Failed { test, seed } => Some((test, seed)),
            Outcome::Died => Some(("the program died", "")),
            Outcome::Hung => Some(("did not end", "")),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.failure().map_or("passed", |(test, _)| test))
    }
}

/// Runs the tests of a suite with a bug on, or with none, and stops at the first that fails.
pub(super) fn run_suite(
    binaries: &Binaries,
    suite: &Suite,
    bug: Option<&str>,
) -> Result<(Outcome, Duration), String> {
    let began = Instant::now();
    let mut command = Command::new(binaries.of(suite)?);
    // Uncaptured: a failure's seed is read as it happens.
    command.args(suite.filters).args(["--nocapture"]);
    command.env_remove("ESKER_PLANTED").envs(suite.env.iter().copied());
    command.envs(bug.map(|bug| ("ESKER_PLANTED", bug)));
    let folder = suite.package.strip_prefix("esker-").unwrap_or(suite.package);
    command.current_dir(repository::root().join("crates").join(folder));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run {suite}: {error}"))?;
    let outcome = watch(&mut child, suite.limit);
    // Of a program that has ended there is nothing to kill.
    let _ = child.kill();
    let _ = child.wait();
    Ok((outcome, began.elapsed()))
}

/// Reads the output until a test fails, the program ends, or the time is over.
fn watch(child: &mut Child, limit: Duration) -> Outcome {
    let (sender, lines) = channel();
    for output in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)] {
        let sender = sender.clone();
        std::thread::spawn(move || output.into_iter().for_each(|output| forward(output, &sender)));
    }
    drop(sender);
    let ends = Instant::now() + limit;
    let (mut seed, mut passed) = (String::new(), false);
    loop {
        match lines.recv_timeout(ends.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(found) = seed_in(&line) {
                    seed = found;
                }
                if let Some(test) = failed_test(&line) {
                    return Outcome::Failed { test, seed };
                }
                passed |= line.starts_with("test result: ok");
            }
            Err(RecvTimeoutError::Disconnected) if passed => return Outcome::Passed,
            Err(RecvTimeoutError::Disconnected) => return Outcome::Died,
            Err(RecvTimeoutError::Timeout) => return Outcome::Hung,
        }
    }
}

fn boxed(output: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(output)
}

fn forward(output: Box<dyn Read + Send>, sender: &Sender<String>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
    }
}

/// The test that a line of the test harness says has failed.
fn failed_test(line: &str) -> Option<String> {
    let line = &line[line.rfind("test ")?..];
    Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned())
}

/// The seed in `ESKER_SEED=7` or `seed 7`, as failures print it.
fn seed_in(line: &str) -> Option<String> {
    let behind =
        ["ESKER_SEED=", "seed "].iter().find_map(|word| Some(&line[line.find(word)? + word.len()..]))?;
    let seed: String = behind.chars().take_while(char::is_ascii_digit).collect();
    (!seed.is_empty() && !line.contains("runs")).then_some(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_seeds_are_read_from_the_output() {
        assert_eq!(failed_test("test random ... FAILED").as_deref(), Some("random"));
        assert_eq!(failed_test("7 plans test a::b ... FAILED").as_deref(), Some("a::b"));
        assert_eq!(failed_test("test random ... ok"), None);
        assert_eq!(seed_in("reproduce: ESKER_SEED=42 cargo test").as_deref(), Some("42"));
        assert_eq!(seed_in("panicked: seed 104, written log: lost").as_deref(), Some("104"));
        assert_eq!(seed_in("seed 104, written log: 30 runs, one Eio in each"), None);
    }
}
