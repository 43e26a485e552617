//! Measures the process and the directory while a soak runs: memory, descriptors, bytes on disk.

use crate::soak::{Shared, SoakReport};
use crate::{Outcome, ensure};
use esker::parts::env::{Clock, Env, SystemClock, host};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// SK3.
const MAX_GROWTH_BYTES_PER_MINUTE: f64 = (1 << 20) as f64;

/// Below this time a slope says nothing: memtables and caches are still filling.
const LEAST_TIME_OF_SLOPE: Duration = Duration::from_secs(240);

/// SK4: copies that the keeper has open come and go.
const SPARE_DESCRIPTORS: u64 = 64;

/// SK4 below [`LEAST_TIME_OF_SLOPE`]: the tree is still growing. A keeper that left the files of its copies
/// open would have some forty more for each of its rounds, of which there are three a second.
const SPARE_DESCRIPTORS_WHILE_FILLING: u64 = 256;

/// A line of figures is told so often.
const TELL: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Sample {
    at: Duration,
    anonymous_bytes: u64,
    descriptors: u64,
}

#[derive(Debug)]
pub(super) struct Sampler {
    clock: SystemClock,
    told_at: Duration,
    samples: Vec<Sample>,
}

impl Sampler {
    pub(super) fn new() -> Sampler {
        Sampler { clock: SystemClock::new(), told_at: Duration::ZERO, samples: Vec::new() }
    }

    /// Since the soak began.
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.clock.monotonic_ns())
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, dir: &Path, shared: &Shared, told: &(dyn Fn(&str) + Sync)) -> Outcome {
        let sample = Sample {
            at: self.elapsed(),
            anonymous_bytes: host::anonymous_bytes().unwrap_or(0),
            descriptors: open_descriptors(),
        };
        if sample.at >= self.told_at + TELL {
            self.told_at = sample.at;
            told(&format!(
                "{:>5} s  {:>10} operations  {:>4} rounds  {:>4} MiB anonymous  {:>3} descriptors  {:>5} MiB on disk",
                sample.at.as_secs(),
                shared.operations.load(Ordering::Relaxed),
                shared.rounds.load(Ordering::Relaxed),
                sample.anonymous_bytes >> 20,
                sample.descriptors,
                directory_bytes(dir)? >> 20
            ));
        }
        self.samples.push(sample);
        Ok(())
    }

    /// Judges memory and descriptors (SK3, SK4) and completes the report.
    pub(super) fn judge(&self, time: Duration, report: &mut SoakReport) -> Outcome {
        let (early, late): (Vec<&Sample>, Vec<&Sample>) =
            self.samples.iter().partition(|sample| sample.at < time / 3);
        let most = |samples: &[&Sample]| samples.iter().map(|sample| sample.descriptors).max().unwrap_or(0);
        report.peak_anonymous_bytes =
            self.samples.iter().map(|sample| sample.anonymous_bytes).max().unwrap_or(0);
        report.growth_bytes_per_minute = growth_bytes_per_minute(&late);
        report.peak_descriptors = most(&late);
        let is_filling = time < LEAST_TIME_OF_SLOPE;
        let spare = if is_filling { SPARE_DESCRIPTORS_WHILE_FILLING } else { SPARE_DESCRIPTORS };
        ensure!(
            most(&late) <= most(&early) + spare,
            "SK4: {} descriptors were open, {} in the first third",
            most(&late),
            most(&early)
        );
        ensure!(
            is_filling || report.growth_bytes_per_minute < MAX_GROWTH_BYTES_PER_MINUTE,
            "SK3: anonymous memory grows by {:.0} bytes a minute",
            report.growth_bytes_per_minute
        );
        Ok(())
    }
}

/// The slope of memory over time by least squares.
fn growth_bytes_per_minute(samples: &[&Sample]) -> f64 {
    let count = samples.len().max(1) as f64;
    let minutes = |sample: &&&Sample| sample.at.as_secs_f64() / 60.0;
    let bytes = |sample: &&&Sample| sample.anonymous_bytes as f64;
    let mean_minutes = samples.iter().map(|sample| minutes(&sample)).sum::<f64>() / count;
    let mean_bytes = samples.iter().map(|sample| bytes(&sample)).sum::<f64>() / count;
    let (mut together, mut alone) = (0.0, 0.0);
    for sample in samples {
        let distance = minutes(&sample) - mean_minutes;
        together += distance * (bytes(&sample) - mean_bytes);
        alone += distance * distance;
    }
    if alone > 0.0 { together / alone } else { 0.0 }
}

/// Descriptors that this process has open; 0 where the system does not tell.
fn open_descriptors() -> u64 {
    Env::real().fs.list(Path::new("/proc/self/fd")).map_or(0, |entries| entries.len() as u64)
}

/// Bytes of all files of a directory and those below.
pub(super) fn directory_bytes(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in Env::real().fs.list(dir)? {
        bytes += if entry.is_dir { directory_bytes(&dir.join(&entry.name))? } else { entry.len };
    }
    Ok(bytes)
}
