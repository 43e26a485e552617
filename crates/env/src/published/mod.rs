//! Published values: read constantly, replaced rarely, pinned through hazard pointers.
//!
//! # Why
//! Every read of a keyspace begins with the current view. A lock around an `Arc` changes two lines that all
//! readers share four times: 25 to 35 ns alone, and 0.2 us where two processors read, which then complete
//! only a third more reads than one. A reader must not write to a line that another reader writes to.
//!
//! # Design
//! Hazard pointers (Michael, IEEE TPDS 2004). Each thread has a few slots ([`hazards`]). A reader notes in
//! one the address that it is about to read, and checks whether that is still current; if so, the value is
//! protected until the note is cleared. A replacement scans all slots afterwards. If none holds the old
//! address, the value is dropped at once; otherwise it is retired, and the reader that clears the last note
//! of it drops it. So memory and files are freed when the last reader is done, as with a reference count, and
//! without a background thread.
//!
//! Between its note and its second load a reader needs a full fence, because otherwise the processor may load
//! first and note afterwards; the fence would take as long as the locked instructions of an `Arc`. So readers
//! omit it, and the replacement compensates: it makes the kernel interrupt all processors that run threads of
//! this process ([`fences`]), which takes microseconds and happens a few times a second.
//!
//! # Invariants
//! * PB1. `current` owns one count of its value. A value that is no longer current is owned by the thread
//!   that replaced it, then perhaps by the list of retired values, until it is dropped.
//! * PB2. A reader uses a value only if it was current after the reader's note of it was visible to all
//!   threads: noted, fenced, checked again.
//! * PB3. A value is dropped only after a scan of all slots that began after it was replaced and fenced, and
//!   found no note of it (RV7).
//! * PB4. While a value is retired, a further check will happen: it is entered before a fence and a scan of
//!   the slots; a reader that clears a note found by this scan does so before a fence and a check whether
//!   that value may be retired, so it sees that it is.
//! * PB5. A retired address is not that of a current value: its memory is not free yet. A note of it is one
//!   of PB2, or of a reader that is about to check again, and then to clear it.
//! * PB6. A note is written with Release over one that scans read with Acquire: the accesses under the note
//!   before it happen before the drop of its value.
//!
//! # Requirements
//! A reader takes the lock of retired values only if the value that it read may be among them: by a bit of
//! the address, so one in 64 others takes it in vain while a reader holds an old one. The drop of a value may
//! run under any lock that its last reader holds: it must take no lock under which a value is pinned or
//! loaded. After `fork` without `exec` nothing may be read, because notes and locks of other threads stay as
//! they were.
//!
//! # Rejected
//! *Epochs*, with pins of the same cost: replaced values wait until the epoch advances, one slow reader keeps
//! everything replaced since, and a thread is needed to advance it. *The crate `arc-swap`*: hazard pointers
//! as well, at the readers' expense: with it two threads read 1.97 times as much as one, but gets of absent
//! keys on one thread became 13 % slower than with the lock. *An `Arc` cached in each thread* with a
//! generation beside it: idle threads keep memtables and files.

mod fences;
mod hazards;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use self::hazards::{HazardSlot, Hazards};
use esker_base::sync::atomic::{AtomicPtr, Ordering};
use esker_base::sync::{Mutex, MutexGuard};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// A value that readers [pin](Published::pin) without shared writes, and that is replaced as a whole.
pub struct Published<T: Send + Sync + 'static> {
    current: AtomicPtr<T>,
    /// Serialises replacements. Readers take it only if no slot is left.
    changing: Mutex<()>,
    /// Owns what `current` points to.
    _owned: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes its first value.
    pub fn new(value: T) -> Published<T> {
        fences::choose();
        Published {
            current: AtomicPtr::new(Arc::into_raw(Arc::new(value)).cast_mut()),
            changing: Mutex::new(()),
            _owned: PhantomData,
        }
    }

    /// The current value, protected until the guard is dropped: a few nanoseconds, for one read. Loads of the
    /// same thread after this one are ordered after it. A guard takes one of the thread's seven slots; a
    /// guard that outlives a call should be [kept](ReadGuard::kept).
    #[inline]
    pub fn pin(&self) -> ReadGuard<T> {
        let hazards = Hazards::of_process();
        loop {
            let Some(slot) = hazards.free_slot() else { return self.counted() };
            let noted = self.current.load(Ordering::Acquire);
            slot.note(noted.cast());
            fences::light();
            let current = self.current.load(Ordering::Acquire);
            if current == noted {
                // SAFETY: `current` came from an `Arc` and is not null.
                return ReadGuard { value: unsafe { NonNull::new_unchecked(current) }, slot: Some(slot) };
            }
            // It was replaced meanwhile, and may be retired because of this note.
            hazards.clear(slot);
        }
    }

    /// The current value with a reference count.
    pub fn load(&self) -> Arc<T> {
        self.pin().into_arc()
    }

    /// Whether the value of `guard` is still the current one. A replacement that happened before a load which
    /// this thread made with Acquire is noticed.
    #[inline]
    pub fn is_current(&self, guard: &ReadGuard<T>) -> bool {
        // A guarded value is not freed, so no other value has its address.
        std::ptr::eq(self.current.load(Ordering::Acquire), guard.value.as_ptr())
    }

    /// Replaces the current value by one derived from it. Updates are serialised.
    pub fn update(&self, derive: impl FnOnce(&T) -> T) {
        let old;
        {
            let _changing = self.changing();
            // SAFETY: the count of `current` (PB1) is not released under the lock.
            let current = unsafe { &*self.current.load(Ordering::Acquire) };
            let new = Arc::into_raw(Arc::new(derive(current))).cast_mut();
            old = self.current.swap(new, Ordering::AcqRel);
        }
        // Dropping may free memory and files, so it happens without the lock.
        retire(old);
    }

    /// For a thread without a free slot: under the lock of replacements the current value stays.
    #[cold]
    #[inline(never)]
    fn counted(&self) -> ReadGuard<T> {
        let _changing = self.changing();
        let value = NonNull::new(self.current.load(Ordering::Acquire)).expect("came from an `Arc`");
        // SAFETY: the count of `current` (PB1) is not released under the lock.
        unsafe { Arc::increment_strong_count(value.as_ptr()) };
        ReadGuard { value, slot: None }
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        // Nothing is half changed if `derive` panics.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops a replaced value once no slot holds its address.
fn retire<T: Send + Sync + 'static>(old: *mut T) {
    // SAFETY: the count that `current` owned (PB1) is the caller's now.
    let keeper = unsafe { Arc::from_raw(old) };
    Hazards::of_process().retire(old.cast(), keeper);
}

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        // Guards borrow nothing, so some may still exist.
        retire(self.current.swap(std::ptr::null_mut(), Ordering::AcqRel));
    }
}

impl<T: Send + Sync + std::fmt::Debug + 'static> std::fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Published").field(&&*self.pin()).finish()
    }
}

/// A pinned value: derefs to it.
pub struct ReadGuard<T: Send + Sync + 'static> {
    value: NonNull<T>,
    /// The slot with the value's address (PB2); without one, the guard owns a count of the value.
    slot: Option<&'static HazardSlot>,
}

// SAFETY: shares the value as an `Arc` does; a slot may be cleared by any thread.
unsafe impl<T: Send + Sync + 'static> Send for ReadGuard<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + 'static> Sync for ReadGuard<T> {}

impl<T: Send + Sync + 'static> ReadGuard<T> {
    /// A reference count of the value.
    pub fn to_arc(&self) -> Arc<T> {
        let value = self.value.as_ptr();
        // SAFETY: it came from an `Arc`, and a note (PB3) or the guard's own count keeps it; the new count is
        // the result's.
        unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        }
    }

    /// One more guard of the same value, by reference count.
    #[must_use]
    pub fn again(&self) -> ReadGuard<T> {
        let counted = Arc::into_raw(self.to_arc());
        // SAFETY: a pointer that an `Arc` gives is not null.
        ReadGuard { value: unsafe { NonNull::new_unchecked(counted.cast_mut()) }, slot: None }
    }

    /// The same value by reference count instead of a thread's slot: for guards that outlive a call.
    #[must_use]
    pub fn kept(self) -> ReadGuard<T> {
        if self.slot.is_none() {
            return self;
        }
        self.again()
    }

    /// Converts the guard into a reference count.
    pub fn into_arc(self) -> Arc<T> {
        if self.slot.is_some() {
            return self.to_arc();
        }
        // SAFETY: the guard's own count is the result's now.
        unsafe { Arc::from_raw(ManuallyDrop::new(self).value.as_ptr()) }
    }
}

impl<T: Send + Sync + 'static> Deref for ReadGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a note (PB2, PB3) or the guard's own count keeps it.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Send + Sync + 'static> Drop for ReadGuard<T> {
    #[inline]
    fn drop(&mut self) {
        match self.slot {
            Some(slot) => Hazards::of_process().clear(slot),
            // SAFETY: the guard's own count.
            None => drop(unsafe { Arc::from_raw(self.value.as_ptr()) }),
        }
    }
}

impl<T: Send + Sync + std::fmt::Debug + 'static> std::fmt::Debug for ReadGuard<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        T::fmt(self, f)
    }
}
