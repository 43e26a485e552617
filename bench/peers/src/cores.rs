//! How far the cores of this machine are from each other.
//!
//! A line of memory that one core has written takes 20 to 50 ns to another core that shares its last cache,
//! and four times that to one that does not. A virtual machine with two processors may have either, and
//! changes from one to the other while it runs: the host moves them. Rates of threads that write to the same
//! store then change by a quarter. So it is measured beside them: between whichever two cores the threads
//! get, of more than two the nearest that were met.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Times that a line goes there and back in one look: half a millisecond and less.
const ROUND_TRIPS: u32 = 1_000;
/// Looks, of which the shortest counts: in others a thread may have been interrupted.
const LOOKS: usize = 12;
/// A thread that has polled so often in vain yields to the other thread: there may be a single processor.
const MOST_LOOKS: u32 = 1 << 14;

/// Alone on its lines.
#[repr(align(128))]
struct Ball(AtomicU32);

impl Ball {
    fn pass(&self, from: u32, to: u32) {
        let mut looks = 0u32;
        while self.0.load(Ordering::Acquire) != from {
            looks += 1;
            if looks.is_multiple_of(MOST_LOOKS) {
                std::thread::yield_now();
            }
        }
        self.0.store(to, Ordering::Release);
    }
}

/// Keeps this thread off a processor for the rest of its life, if there is another: beside a thread that
/// spins there, it would have to wait until it is let run.
fn keep_off(processor: usize) {
    // SAFETY: a set of processors is plain bits, of which none is the empty set; the calls write to it or
    // read it within its size, and nothing keeps it.
    unsafe {
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        let bytes = size_of::<libc::cpu_set_t>();
        if processor >= 8 * bytes || libc::sched_getaffinity(0, bytes, &raw mut processors) != 0 {
            return;
        }
        libc::CPU_CLR(processor, &mut processors);
        // Refused if none is left; then it stays where it is.
        libc::sched_setaffinity(0, bytes, &raw const processors);
    }
}

/// Nanoseconds that a line of memory takes from one thread to another, which writes to it, and back.
pub(crate) fn round_trip_ns() -> f64 {
    let mut shortest = f64::INFINITY;
    for _ in 0..LOOKS {
        let ball = Ball(AtomicU32::new(0));
        // SAFETY: it asks for a number; a negative one says that there is none.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(usize::MAX);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                keep_off(here);
                (0..ROUND_TRIPS).for_each(|_| ball.pass(1, 0));
            });
            // The first trip waits for the other thread to begin.
            ball.pass(0, 1);
            let start = Instant::now();
            (1..ROUND_TRIPS).for_each(|_| ball.pass(0, 1));
            shortest = shortest.min(start.elapsed().as_nanos() as f64 / f64::from(ROUND_TRIPS - 1));
        });
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::round_trip_ns;

    #[test]
    fn a_line_takes_a_while_there_and_back() {
        let ns = round_trip_ns();
        // Where there is a single processor each trip is two changes of threads.
        assert!((1.0..10_000_000.0).contains(&ns), "{ns} ns");
    }
}
