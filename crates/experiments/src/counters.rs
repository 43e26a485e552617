//! Hardware counters of the processor: cycles, instructions, cache misses.
//!
//! `perf stat` counts, attached to this process from outside, which needs neither additional rights nor
//! unsafe code here. Attaching takes time, and perf does not report when it is done. So perf runs a program,
//! `cat`, which it starts only after its counters are on: a line that comes back from `cat` means that
//! counting has begun, and closing the input of `cat` ends both. Threads that start meanwhile are counted,
//! too.
//!
//! Virtual machines often have no counters. Then every count is NaN, tables show a dash, and the setup of the
//! experiment states the reason.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// The counts; NaN where there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) cycles: f64,
    pub(crate) instructions: f64,
    /// References to the last-level cache, and those of them that missed, as perf calls them.
    pub(crate) references: f64,
    pub(crate) misses: f64,
}

const EVENTS: [&str; 4] = ["cycles", "instructions", "cache-references", "cache-misses"];

impl Counts {
    const NONE: Counts =
        Counts { cycles: f64::NAN, instructions: f64::NAN, references: f64::NAN, misses: f64::NAN };

    /// Parses the output of `perf stat -x,`: a line for each event, `count,unit,event,...`.
    fn parse(text: &str) -> Counts {
        let count = |wanted: &str| {
            text.lines()
                .find_map(|line| {
                    let mut fields = line.split(',');
                    let (count, _unit, event) = (fields.next()?, fields.next()?, fields.next()?);
                    // Where the kernel's share may not be counted, the event is called `cycles:u`.
                    let name = event.split(':').next()?;
                    (name == wanted).then(|| count.parse().unwrap_or(f64::NAN))
                })
                .unwrap_or(f64::NAN)
        };
        let [cycles, instructions, references, misses] = EVENTS.map(count);
        Counts { cycles, instructions, references, misses }
    }

    pub(crate) fn miss_percent(&self) -> f64 {
        self.misses * 100.0 / self.references
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// The reason, if it has none.
    missing: Option<String>,
}

impl Counters {
    pub(crate) fn look() -> Counters {
        let missing = match Counting::begin().and_then(Counting::end) {
            Err(reason) => Some(reason),
            Ok(counts) if counts.instructions.is_nan() => {
                Some("perf stat says that the machine does not count them".to_owned())
            }
            Ok(_) => None,
        };
        Counters { missing }
    }

    /// A sentence for the setup of the experiment.
    pub(crate) fn setup(&self) -> String {
        match &self.missing {
            None => "cycles, instructions and cache misses: counted by perf stat, of all threads, until drained where there is a drain"
                .to_owned(),
            Some(reason) => format!("cycles, instructions and cache misses: not counted in this run; {reason}"),
        }
    }

    /// Runs `work` and counts meanwhile, if the machine has counters.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Counts) {
        let counting = if self.missing.is_none() { Counting::begin().ok() } else { None };
        let result = work();
        let counts = counting.and_then(|counting| counting.end().ok()).unwrap_or(Counts::NONE);
        (result, counts)
    }
}

struct Counting {
    perf: Child,
}

impl Counting {
    fn begin() -> Result<Counting, String> {
        let failed = |error: std::io::Error| format!("perf stat cannot be started: {error}");
        let mut perf = Command::new("perf")
            .args(["stat", "-x,", "-e", &EVENTS.join(","), "-p", &std::process::id().to_string(), "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let sent = perf.stdin.as_mut().map(|input| input.write_all(b"\n"));
        let mut line = [0];
        let heard = perf.stdout.as_mut().map(|output| output.read_exact(&mut line));
        match (sent, heard) {
            (Some(Ok(())), Some(Ok(()))) => Ok(Counting { perf }),
            _ => {
                Err(format!("perf stat ended: {}", end(perf).lines().next().unwrap_or("it does not say why")))
            }
        }
    }

    fn end(self) -> Result<Counts, String> {
        Ok(Counts::parse(&end(self.perf)))
    }
}

/// Ends a perf by closing its program's input, and returns its output.
fn end(perf: Child) -> String {
    let output = perf.wait_with_output();
    output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_lines_of_perf() {
        let text = "1200,,cycles,300,100.00,,\n3400,,instructions:u,300,100.00,2.8,insn per cycle\n\
                    200,,cache-references,300,100.00,,\n50,,cache-misses,300,100.00,25.0,of all cache refs\n";
        let counts = Counts::parse(text);
        assert_eq!((counts.cycles, counts.instructions), (1200.0, 3400.0));
        assert_eq!(counts.miss_percent(), 25.0);
    }

    #[test]
    fn missing_counts_are_not_a_number() {
        let counts = Counts::parse("<not supported>,,instructions,0,100.00,,\n");
        assert!(counts.instructions.is_nan() && counts.cycles.is_nan() && counts.miss_percent().is_nan());
    }

    #[test]
    fn work_is_done_whether_the_machine_counts_or_not() {
        let silent = Counters { missing: Some("it is a test".to_owned()) };
        let (result, counts) = silent.during(|| 7);
        assert!(result == 7 && counts.cycles.is_nan());
        assert!(silent.setup().contains("not counted in this run; it is a test"));
        assert_eq!(Counters::look().during(|| 7).0, 7);
    }
}
