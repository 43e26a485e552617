//! `experiment`: runs experiments and reports their progress.

use crate::args::{ExperimentArgs, Global};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::host;
use crate::interrupt::Interrupt;
use esker_experiments::{ExperimentError, Finding, Scale, Settings, Watcher};
use indicatif::ProgressBar;
use std::io::{self, Write};
use std::process::Command;

pub(crate) fn run(global: &Global, args: &ExperimentArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(codec) = args.memory_of {
        let kib = esker_experiments::compress_for_memory(codec);
        let kib =
            kib.ok_or_else(|| Failure::usage("the system does not tell how much memory a process holds"))?;
        writeln!(out, "{kib}")?;
        return Ok(Exit::Done);
    }
    let settings = Settings {
        scale: if args.quick { Scale::Quick } else { Scale::Full },
        seed: args.seed,
        scratch: global.data.clone().unwrap_or_else(std::env::temp_dir),
        start_child: Some(start_child),
    };
    let interrupt = Interrupt::of(&Caller::default())?;
    let (mut findings, mut done) = (Vec::new(), 0);
    for experiment in args.experiments() {
        if interrupt.is_set() {
            let checked = findings.len();
            return Err(Failure::interrupted(format!(
                "{done} experiments were run, {checked} statements checked"
            )));
        }
        done += 1;
        let mut progress = Progress::new();
        let report = esker_experiments::run(experiment, &settings, &mut progress)?;
        report.print(out)?;
        if let Some(directory) = &args.out {
            let names = report.write_files(directory)?;
            writeln!(out, "  written to {}: {}\n", directory.display(), names.join(", "))?;
        }
        out.flush()?;
        findings.extend(report.findings);
    }
    conclude(&findings, out)
}

/// The end of a run: that all findings hold, or those that do not as a failure of its own.
fn conclude(findings: &[Finding], out: &mut dyn Write) -> Result<Exit, Failure> {
    let wrong: Vec<String> =
        findings.iter().filter(|finding| !finding.holds()).map(ToString::to_string).collect();
    if wrong.is_empty() {
        writeln!(out, "{} statements of the pages were checked, and hold.", findings.len())?;
        return Ok(Exit::Done);
    }
    Err(Failure::finding(format!(
        "{} of {} statements of the pages do not hold:\n  {}",
        wrong.len(),
        findings.len(),
        wrong.join("\n  ")
    )))
}

fn start_child(arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("experiment").args(arguments);
    Ok(command)
}

/// Shows the steps on standard error: a bar on a terminal, else a line each.
struct Progress {
    bar: Option<ProgressBar>,
    is_terminal: bool,
    steps: usize,
    done: usize,
}

impl Progress {
    fn new() -> Progress {
        Progress { bar: None, is_terminal: host::stderr_is_terminal(), steps: 0, done: 0 }
    }
}

impl Watcher for Progress {
    fn begins(&mut self, experiment: &str, steps: usize) {
        self.steps = steps;
        if self.is_terminal {
            let bar = host::step_bar(steps as u64);
            bar.set_prefix(experiment.to_owned());
            self.bar = Some(bar);
        }
    }

    fn step(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            // The bar moves when a step is done, and the message says which one is under way.
            bar.set_position(self.done as u64);
            bar.set_message(what.to_owned());
        }
        self.done += 1;
        if !self.is_terminal {
            // A missing standard error is no failure.
            let _result = writeln!(host::stderr(), "[{}/{}] {what}", self.done, self.steps);
        }
    }

    fn ends(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Failure {
        let message = error.to_string();
        match error {
            ExperimentError::Esker(error) => error.into(),
            ExperimentError::Output(error) => error.into(),
            ExperimentError::WrongAnswer(_) => Failure::defect(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitCode;

    fn finding(name: &'static str, measured: Option<f64>) -> Finding {
        Finding { name, page: "a.md", says: "about one", range: 0.9..=1.1, measured }
    }

    /// `ExitCode` compares by its text alone.
    fn is_code(found: ExitCode, expected: u8) -> bool {
        format!("{found:?}") == format!("{:?}", ExitCode::from(expected))
    }

    #[test]
    fn findings_that_do_not_hold_are_named_and_end_with_code_6() {
        let (mut out, mut told) = (Vec::new(), Vec::new());
        let all = [finding("right", Some(1.0)), finding("off", Some(2.0)), finding("missing", None)];
        let failure = conclude(&all, &mut out).expect_err("two do not hold");
        assert!(is_code(failure.report(&mut told), 6));
        let told = String::from_utf8_lossy(&told);
        assert!(told.starts_with("esker: 2 of 3 statements of the pages do not hold:"), "{told}");
        assert!(told.contains("off (docs/experiments/a.md") && told.contains("missing ("), "{told}");
        assert!(!told.contains("right (") && out.is_empty(), "{told}");
    }

    #[test]
    fn findings_that_hold_end_with_code_0() {
        let mut out = Vec::new();
        let exit = conclude(&[finding("right", Some(1.0))], &mut out).expect("it holds");
        assert!(is_code(exit.into(), 0));
        assert_eq!(out, b"1 statements of the pages were checked, and hold.\n");
    }
}
