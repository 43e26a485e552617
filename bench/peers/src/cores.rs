//! Distance between the cores of this machine.
//!
//! A cache line that one core has written takes 20 to 50 ns to another core with the same last-level cache,
//! and four times that to one without. A virtual machine with two processors may have either, and changes
//! while it runs: the host moves them. Rates of threads that write to the same store then change by a
//! quarter. So it is measured beside them: between the two cores that the threads get, the nearest pair seen.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Round trips in one sample: half a millisecond and less.
const ROUND_TRIPS: u32 = 1_000;
/// Samples, of which the shortest counts: in others a thread may have been interrupted.
const SAMPLES: usize = 12;
/// Polls after which a thread yields to the other thread: there may be a single processor.
const POLLS_PER_YIELD: u32 = 1 << 14;

/// Alone on its cache lines.
#[repr(align(128))]
struct SharedWord(AtomicU32);

impl SharedWord {
    fn pass(&self, from: u32, to: u32) {
        let mut polls = 0u32;
        while self.0.load(Ordering::Acquire) != from {
            polls += 1;
            if polls.is_multiple_of(POLLS_PER_YIELD) {
                std::thread::yield_now();
            }
        }
        self.0.store(to, Ordering::Release);
    }
}

/// Keeps this thread off a processor, if there is another: beside a spinning thread it would have to wait
/// until it is scheduled.
fn exclude_processor(processor: usize) {
    // SAFETY: a set of processors is plain bits, and all zeros is the empty set; the calls write to it or
    // read it within its size, and nothing keeps it.
    unsafe {
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        let bytes = size_of::<libc::cpu_set_t>();
        if processor >= 8 * bytes || libc::sched_getaffinity(0, bytes, &raw mut processors) != 0 {
            return;
        }
        libc::CPU_CLR(processor, &mut processors);
        // Refused if no processor is left; then the thread stays where it is.
        libc::sched_setaffinity(0, bytes, &raw const processors);
    }
}

/// Nanoseconds that a cache line takes from one thread to another, which writes to it, and back.
pub(crate) fn round_trip_ns() -> f64 {
    let mut shortest = f64::INFINITY;
    for _ in 0..SAMPLES {
        let word = SharedWord(AtomicU32::new(0));
        // SAFETY: a call without pointers; a negative result means that the number is unknown.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(usize::MAX);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                exclude_processor(here);
                (0..ROUND_TRIPS).for_each(|_| word.pass(1, 0));
            });
            // The first trip waits for the other thread to begin.
            word.pass(0, 1);
            let start = Instant::now();
            (1..ROUND_TRIPS).for_each(|_| word.pass(0, 1));
            shortest = shortest.min(start.elapsed().as_nanos() as f64 / f64::from(ROUND_TRIPS - 1));
        });
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::round_trip_ns;

    #[test]
    fn the_round_trip_of_a_line_takes_a_plausible_time() {
        let ns = round_trip_ns();
        // With a single processor each trip is two context switches.
        assert!((1.0..10_000_000.0).contains(&ns), "{ns} ns");
    }
}
