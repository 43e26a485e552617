//! Context of a running experiment: scale, seed, clock, scratch directory, and progress watcher.

use crate::error::Result;
use crate::settings::Settings;
use crate::statistics::Sample;
use esker::parts::env::{Clock, FileSystem, SeededRandom, StdFileSystem, SystemClock};
use std::path::PathBuf;
use std::process::Stdio;

/// Receives the progress of a run.
pub trait Watcher {
    /// So many steps are ahead.
    fn begins(&mut self, experiment: &str, steps: usize);
    /// A step begins.
    fn step(&mut self, what: &str);
    /// All steps are done.
    fn ends(&mut self);
}

/// Ignores progress.
#[derive(Clone, Copy, Debug)]
pub struct NoProgress;

impl Watcher for NoProgress {
    fn begins(&mut self, _experiment: &str, _steps: usize) {}
    fn step(&mut self, _what: &str) {}
    fn ends(&mut self) {}
}

pub(crate) struct Context<'a> {
    name: &'static str,
    clock: SystemClock,
    /// Created at the first use; removed with the context.
    scratch: PathBuf,
    settings: &'a Settings,
    watcher: &'a mut dyn Watcher,
}

impl<'a> Context<'a> {
    /// For one run of the experiment `name`.
    pub(crate) fn new(
        name: &'static str,
        settings: &'a Settings,
        watcher: &'a mut dyn Watcher,
    ) -> Context<'a> {
        let scratch = settings.scratch.join(format!("esker-experiment-{name}-{}", std::process::id()));
        Context { name, clock: SystemClock::new(), scratch, settings, watcher }
    }

    /// The value for the scale.
    pub(crate) fn pick<T>(&self, tiny: T, quick: T, full: T) -> T {
        self.settings.scale.pick(tiny, quick, full)
    }

    /// A random generator for each `purpose`, the same in each run with this seed.
    pub(crate) fn random(&self, purpose: u64) -> SeededRandom {
        SeededRandom::new(self.settings.seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn clock(&self) -> SystemClock {
        self.clock
    }

    /// A path for a database that does not exist yet.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        StdFileSystem.create_dir_all(&self.scratch)?;
        Ok(self.scratch.join(name))
    }

    /// The standard output of another process of this program with these arguments; `None` if this run cannot
    /// start one.
    pub(crate) fn run_child_process(&self, arguments: &[&str]) -> Result<Option<String>> {
        let Some(start) = self.settings.start_child else { return Ok(None) };
        let output = start(arguments)?.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    pub(crate) fn expect_steps(&mut self, steps: usize) {
        self.watcher.begins(self.name, steps);
    }

    pub(crate) fn step(&mut self, what: &str) {
        self.watcher.step(what);
    }

    /// Measures every subject once a round, so that other load on the machine affects all alike. Each round
    /// begins with another subject and every other round runs backwards, because the second in a row finds
    /// warmer caches. Returns the values of all rounds for each subject; `measure` leaves a subject out by
    /// returning no numbers.
    pub(crate) fn rounds<S>(
        &mut self,
        rounds: usize,
        subjects: &[S],
        name: impl Fn(&S) -> String,
        mut measure: impl FnMut(&SystemClock, &S) -> Result<Vec<f64>>,
    ) -> Result<Vec<Vec<Sample>>> {
        let mut found: Vec<Vec<Vec<f64>>> = vec![Vec::new(); subjects.len()];
        for round in 0..rounds {
            for place in 0..subjects.len() {
                let place = if round % 2 == 1 { subjects.len() - 1 - place } else { place };
                let at = (place + round) % subjects.len();
                self.step(&format!("{}, round {} of {rounds}", name(&subjects[at]), round + 1));
                for (number, value) in measure(&self.clock, &subjects[at])?.into_iter().enumerate() {
                    if found[at].len() <= number {
                        found[at].push(Vec::new());
                    }
                    found[at][number].push(value);
                }
            }
        }
        let sum_up =
            |numbers: Vec<Vec<f64>>| numbers.iter().filter_map(|values| Sample::of(values)).collect();
        Ok(found.into_iter().map(sum_up).collect())
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        self.watcher.ends();
        if StdFileSystem.list(&self.scratch).is_ok() {
            // A directory that cannot be removed stays among the temporary files.
            let _ = StdFileSystem.remove_dir_all(&self.scratch);
        }
    }
}

/// Nanoseconds that `work` takes.
#[inline]
pub(crate) fn time_ns<T>(clock: &SystemClock, work: impl FnOnce() -> T) -> (f64, T) {
    let start = clock.monotonic_ns();
    let result = work();
    ((clock.monotonic_ns() - start) as f64, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Scale;

    #[test]
    fn every_subject_is_measured_in_every_round() {
        let mut watcher = NoProgress;
        let settings =
            Settings { scale: Scale::Tiny, seed: 1, scratch: std::env::temp_dir(), start_child: None };
        let mut context = Context::new("test", &settings, &mut watcher);
        for rounds in 1..6 {
            let mut calls = Vec::new();
            let found = context
                .rounds(rounds, &[10.0, 20.0, 30.0], f64::to_string, |_, &subject| {
                    calls.push(subject);
                    Ok(vec![subject, calls.len() as f64])
                })
                .unwrap();
            assert_eq!(calls.len(), 3 * rounds);
            for (samples, subject) in found.iter().zip([10.0, 20.0, 30.0]) {
                assert_eq!((samples[0].least, samples[0].most), (subject, subject));
                assert_eq!(calls.iter().filter(|&&call| call == subject).count(), rounds);
            }
        }
    }
}
