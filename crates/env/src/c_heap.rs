//! The heap of the C library, for programs that own their process.
//!
//! The allocator of GNU systems keeps freed memory: for each thread an arena, and of each arena what was
//! freed up to twice the largest piece that was ever freed, and all that lies below a piece in use. Beside a
//! memory budget of 64 MiB that was 43 MiB. Only [`trim`] gives back what lies in the middle of an arena.
//!
//! A library leaves the allocator to the program that embeds it. A program that calls [`keep_little`] has
//! chosen, and then background work trims the heap when it has ended.
#![allow(clippy::disallowed_methods, reason = "this crate is the door that the bans lead to")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Least bytes of a piece that is mapped by itself and unmapped when it is freed, and the most free memory
/// that stays at the end of an arena: the allocator's own values at the start of a process, which it raises
/// unless they are set.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const KEPT_BYTES: i32 = 128 << 10;

/// Most arenas: a flush and a merge seldom wait for each other, and the threads of a large machine have one
/// for each processor up to this. The allocator's own limit is eight for each processor.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const ARENAS: std::ops::RangeInclusive<usize> = 2..=8;

/// Least time between two walks over the heap, each of which takes about a millisecond for some tens of
/// mebibytes.
const TRIM_INTERVAL_MS: u64 = 50;
/// So many times as long as a walk took, there is no other: walks take a twenty-fifth of the time of one
/// thread at most, however large the heap is. With a hundredth, a heap of 40 MiB was walked twice a second,
/// and 25 MiB that one merge had freed were still there when the next one had its values.
const TRIM_PAUSE_FACTOR: u64 = 25;

/// When the program chose to keep little.
static CHOSEN_AT: OnceLock<Instant> = OnceLock::new();
/// The earliest time of the next walk, in milliseconds since then; the greatest number during a walk.
static NEXT_TRIM_MS: AtomicU64 = AtomicU64::new(TRIM_INTERVAL_MS);

/// Lets the allocator of the C library keep little of what is freed: for the whole process, so only programs
/// that own theirs call it, before they start threads. Does nothing where the allocator is another one.
pub fn keep_little() {
    CHOSEN_AT.get_or_init(Instant::now);
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    let arenas = std::thread::available_parallelism()
        .map_or(*ARENAS.start(), |count| count.get().clamp(*ARENAS.start(), *ARENAS.end()));
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    for (setting, value) in [
        (libc::M_MMAP_THRESHOLD, KEPT_BYTES),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES),
        (libc::M_ARENA_MAX, arenas as i32),
    ] {
        // SAFETY: the call has no preconditions; a refused setting stays as it was.
        let _ = unsafe { libc::mallopt(setting, value) };
    }
}

/// Returns the free pages of the heap to the system, if the program [chose](keep_little) that and the last
/// walk is long enough ago. For threads in the background: threads that allocate wait meanwhile.
pub fn trim() {
    let Some(chosen_at) = CHOSEN_AT.get() else { return };
    let now_ms = || chosen_at.elapsed().as_millis() as u64;
    let (begin, due) = (now_ms(), NEXT_TRIM_MS.load(Ordering::Relaxed));
    if begin < due
        || NEXT_TRIM_MS.compare_exchange(due, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: the call has no preconditions, and changes no memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
    let end = now_ms();
    let pause_ms = (TRIM_PAUSE_FACTOR * (end - begin)).max(TRIM_INTERVAL_MS);
    NEXT_TRIM_MS.store(end + pause_ms, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_keeps_its_contents_while_the_heap_is_trimmed() {
        trim();
        let first = NEXT_TRIM_MS.load(Ordering::Relaxed);
        assert_eq!(first, TRIM_INTERVAL_MS, "not chosen yet");
        keep_little();
        let piece = |number: u8| vec![number; 100_000 + 3_000 * usize::from(number)];
        let mut pieces: Vec<Vec<u8>> = (0..50).map(piece).collect();
        pieces.retain(|piece| piece[0] % 2 == 0);
        while NEXT_TRIM_MS.load(Ordering::Relaxed) == first {
            trim();
        }
        assert!(NEXT_TRIM_MS.load(Ordering::Relaxed) >= 2 * first, "walks take turns with pauses");
        assert!(pieces.iter().all(|kept| *kept == piece(kept[0])));
    }
}
