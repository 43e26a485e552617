//! Hazard pointers: the slots of all threads, and the retired values that wait until their slots are cleared.
//! [`super`] defines PB1 to PB6.

use super::fences;
use crate::fork;
use esker_base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use esker_base::sync::{CachePadded, Mutex, MutexGuard};
use std::any::Any;
use std::sync::{Arc, PoisonError};

/// Most threads with slots at a time; further threads use reference counts. A server has tens, a program with
/// a thread for each connection hundreds; the table takes 128 bytes for each, which are touched when a thread
/// first reads. Miri interprets the scan of all of them at each replacement.
#[cfg(not(loom))]
const MAX_THREADS: usize = if cfg!(miri) { 32 } else { 1024 };
/// Guards of a thread without a reference count: as many as fill a line. A nested read takes a second.
#[cfg(not(loom))]
const SLOTS: usize = 7;

#[cfg(loom)]
const MAX_THREADS: usize = 3;
#[cfg(loom)]
const SLOTS: usize = 1;

/// A hazard pointer: the address that a reader reads; null if none.
#[derive(Debug)]
pub(super) struct HazardSlot(AtomicPtr<()>);

impl HazardSlot {
    #[inline]
    fn is_free(&self) -> bool {
        // Acquire: another thread may have cleared it, and its accesses come before the next note (PB6).
        self.0.load(Ordering::Acquire).is_null()
    }

    /// Called by the thread that found it free. Release: a scan that sees it sees all accesses before (PB6).
    #[inline]
    pub(super) fn note(&self, address: *mut ()) {
        self.0.store(address, Ordering::Release);
    }
}

/// The slots of one thread. Padded to 128 bytes, because the prefetcher fetches lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct ThreadSlots {
    slots: [HazardSlot; SLOTS],
    is_claimed: AtomicBool,
}

impl ThreadSlots {
    #[inline]
    fn free_slot(&'static self) -> Option<&'static HazardSlot> {
        if self.slots[0].is_free() { Some(&self.slots[0]) } else { self.another_free_slot() }
    }

    #[cold]
    fn another_free_slot(&'static self) -> Option<&'static HazardSlot> {
        self.slots[1..].iter().find(|slot| slot.is_free())
    }
}

/// A value that was replaced while a slot held its address.
struct Retired {
    address: *mut (),
    /// Drops the value.
    _keeper: Box<dyn Any + Send>,
}

// SAFETY: the address is compared, never dereferenced.
unsafe impl Send for Retired {}

/// One of 64 bits for an address: the top six of a golden-ratio product, which spreads neighbours.
#[inline]
fn bit_of(address: *mut ()) -> u64 {
    1 << ((address.addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

/// The hazard slots of all threads of the process, for values of all types.
pub(super) struct Hazards {
    /// Bits of all retired addresses, stored only on a change, under the list's lock: all readers read it.
    waiting: CachePadded<AtomicU64>,
    retired: Mutex<Vec<Retired>>,
    /// No entry from here on was ever claimed.
    touched: AtomicUsize,
    /// Entries that are claimed now.
    claimed: AtomicUsize,
    threads: [ThreadSlots; MAX_THREADS],
}

#[cfg(not(loom))]
static HAZARDS: Hazards = Hazards {
    waiting: CachePadded(AtomicU64::new(0)),
    retired: Mutex::new(Vec::new()),
    touched: AtomicUsize::new(0),
    claimed: AtomicUsize::new(0),
    threads: [const {
        ThreadSlots {
            slots: [const { HazardSlot(AtomicPtr::new(std::ptr::null_mut())) }; SLOTS],
            is_claimed: AtomicBool::new(false),
        }
    }; MAX_THREADS],
};

#[cfg(loom)]
loom::lazy_static! {
    static ref HAZARDS: Hazards = Hazards {
        waiting: CachePadded(AtomicU64::new(0)),
        retired: Mutex::new(Vec::new()),
        touched: AtomicUsize::new(0),
        claimed: AtomicUsize::new(0),
        threads: std::array::from_fn(|_| ThreadSlots {
            slots: std::array::from_fn(|_| HazardSlot(AtomicPtr::new(std::ptr::null_mut()))),
            is_claimed: AtomicBool::new(false),
        }),
    };
}

impl Hazards {
    #[inline]
    pub(super) fn of_process() -> &'static Hazards {
        &HAZARDS
    }

    /// A slot of this thread; `None` if all are taken, or the thread has none.
    #[inline]
    pub(super) fn free_slot(&'static self) -> Option<&'static HazardSlot> {
        match own::get() {
            Some(slots_of) => slots_of.free_slot(),
            None => self.claim()?.free_slot(),
        }
    }

    /// Claims an entry for this thread; `None` if none is left.
    #[cold]
    #[inline(never)]
    fn claim(&'static self) -> Option<&'static ThreadSlots> {
        // So that threads beyond the table do not scan all of it each time.
        if self.claimed.load(Ordering::Relaxed) >= MAX_THREADS {
            return None;
        }
        let is_free = |slots_of: &ThreadSlots| {
            let claimed = &slots_of.is_claimed;
            // Loaded first: a compare-exchange takes the line from its reader even if it fails.
            !claimed.load(Ordering::Relaxed)
                && claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let at = self.threads.iter().position(is_free)?;
        self.claimed.fetch_add(1, Ordering::Relaxed);
        // Before any note in it: a scan of the slots after a fence sees this as it sees those.
        self.touched.fetch_max(at + 1, Ordering::Release);
        own::set(&self.threads[at])
    }

    /// Frees the entry for another thread. A guard that moved elsewhere stays noted.
    #[cfg_attr(loom, expect(dead_code, reason = "loom has no end of a thread"))]
    fn give_back(&self, slots_of: &ThreadSlots) {
        self.claimed.fetch_sub(1, Ordering::Relaxed);
        slots_of.is_claimed.store(false, Ordering::Release);
    }

    /// Clears a slot, and drops the retired values that waited for it.
    #[inline]
    pub(super) fn clear(&self, slot: &HazardSlot) {
        // Unchanged since its reader wrote it: the caller has the guard.
        let address = slot.0.load(Ordering::Relaxed);
        slot.0.store(std::ptr::null_mut(), Ordering::Release);
        // PB4: clear, fence, check.
        fences::light();
        if self.waiting.load(Ordering::Relaxed) & bit_of(address) != 0 {
            self.drop_cleared();
        }
    }

    /// Drops a value that no new reader can reach: now, or when the last slot with its address is cleared.
    pub(super) fn retire<T: Send + Sync + 'static>(&self, address: *mut (), keeper: Arc<T>) {
        if fork::was_forked_in_use() || !fences::heavy() {
            // Another thread may have held the lock of the retired values at the fork, or the readers of this
            // one cannot be determined any more: leak it rather than wait for ever or drop it too early.
            std::mem::forget(keeper);
            return;
        }
        if !self.is_noted(address) {
            return;
        }
        {
            let mut retired = self.retired();
            retired.push(Retired { address, _keeper: Box::new(keeper) });
            self.note_waiting(&retired);
        }
        // PB4: enter, fence, check. Without the fence it waits until the next value is retired.
        if fences::heavy() {
            self.drop_cleared();
        }
    }

    fn is_noted(&self, address: *mut ()) -> bool {
        let touched = self.touched.load(Ordering::Acquire);
        let mut slots = self.threads[..touched].iter().flat_map(|slots_of| &slots_of.slots);
        slots.any(|slot| slot.0.load(Ordering::Acquire) == address)
    }

    #[cold]
    #[inline(never)]
    fn drop_cleared(&self) {
        let cleared: Vec<Retired>;
        {
            let mut retired = self.retired();
            cleared = retired.extract_if(.., |value| !self.is_noted(value.address)).collect();
            self.note_waiting(&retired);
        }
        // Without the lock: this may free memory and files, and other values that are published in them.
        drop(cleared);
    }

    fn note_waiting(&self, retired: &[Retired]) {
        let bits = retired.iter().fold(0, |bits, value| bits | bit_of(value.address));
        if self.waiting.load(Ordering::Relaxed) != bits {
            self.waiting.store(bits, Ordering::Relaxed);
        }
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Retired>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(loom))]
mod own {
    use super::{Hazards, ThreadSlots};
    use std::cell::Cell;

    // Every pin reads the first, which has no destructor: each pin would check whether it has run.
    thread_local! {
        static THREAD_SLOTS: Cell<Option<&'static ThreadSlots>> = const { Cell::new(None) };
        static CLAIM: ThreadClaim = const { ThreadClaim };
    }

    struct ThreadClaim;

    impl Drop for ThreadClaim {
        fn drop(&mut self) {
            if let Some(slots_of) = THREAD_SLOTS.take() {
                Hazards::of_process().give_back(slots_of);
            }
        }
    }

    #[inline]
    pub(super) fn get() -> Option<&'static ThreadSlots> {
        THREAD_SLOTS.get()
    }

    /// Not while the thread ends, because no destructor would free it: then the entry is freed again.
    pub(super) fn set(slots_of: &'static ThreadSlots) -> Option<&'static ThreadSlots> {
        if CLAIM.try_with(|_| ()).is_err() {
            Hazards::of_process().give_back(slots_of);
            return None;
        }
        THREAD_SLOTS.set(Some(slots_of));
        Some(slots_of)
    }
}

#[cfg(loom)]
mod own {
    use super::ThreadSlots;
    use std::cell::Cell;

    loom::thread_local! {
        static THREAD_SLOTS: Cell<Option<&'static ThreadSlots>> = Cell::new(None);
    }

    pub(super) fn get() -> Option<&'static ThreadSlots> {
        THREAD_SLOTS.with(Cell::get)
    }

    pub(super) fn set(slots_of: &'static ThreadSlots) -> Option<&'static ThreadSlots> {
        THREAD_SLOTS.with(|own| own.set(Some(slots_of)));
        Some(slots_of)
    }
}
