//! Readers, loaders and evictors of one slot, in every interleaving of three threads.

use super::{Pointer, Slot};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::mem::ManuallyDrop;

/// Stands for a block: count, contents, residence flag. Loom reports leaks.
struct Page {
    count: AtomicUsize,
    contents: UnsafeCell<u32>,
    resident: AtomicBool,
    _freed: loom::alloc::Track<()>,
}

/// Stands for a `BlockRef`, and is counted like one.
struct Shared(*const Page);

// SAFETY: the contents are written before the page is shared, and after the last count is gone; loom checks
// that.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`.
unsafe impl Sync for Shared {}

impl Shared {
    /// A block that was just loaded and inserted into the cache.
    fn load(number: u32) -> Shared {
        let page = Page {
            count: AtomicUsize::new(1),
            contents: UnsafeCell::new(0),
            resident: AtomicBool::new(true),
            _freed: loom::alloc::Track::new(()),
        };
        page.contents.with_mut(|contents| {
            // SAFETY: no other thread has the page yet.
            unsafe { *contents = number }
        });
        Shared(Box::into_raw(Box::new(page)))
    }

    fn page(&self) -> &Page {
        // SAFETY: a count keeps the page alive.
        unsafe { &*self.0 }
    }

    fn contents(&self) -> u32 {
        self.page().contents.with(|contents| {
            // SAFETY: loom panics if this races with a write.
            unsafe { *contents }
        })
    }

    fn install(&self, slot: &Slot<Shared>) {
        slot.install(self, |page| page.page().resident.load(Ordering::Relaxed));
    }

    fn leave(&self, slot: &Slot<Shared>) {
        self.page().resident.store(false, Ordering::Relaxed);
        slot.remove(self.address());
    }

    fn release_some(&self, counts: usize) {
        let left = self.page().count.fetch_sub(counts, Ordering::Release).checked_sub(counts);
        if left.expect("no more than there are") == 0 {
            fence(Ordering::Acquire);
            // All other accesses happened before, or loom panics.
            self.page().contents.with_mut(|contents| {
                // SAFETY: loom checks that no other access is concurrent.
                unsafe { *contents = 0 }
            });
            // SAFETY: that was the last count.
            drop(unsafe { Box::from_raw(self.0.cast_mut()) });
        }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Shared {
        self.page().count.fetch_add(1, Ordering::Relaxed);
        Shared(self.0)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.release_some(1);
    }
}

// SAFETY: as for `BlockRef`.
unsafe impl Pointer for Shared {
    fn address(&self) -> usize {
        self.0.expose_provenance()
    }

    unsafe fn add_counts(address: usize, counts: usize) {
        // SAFETY: guaranteed by the caller.
        let own = ManuallyDrop::new(unsafe { Shared::from_count(address) });
        own.page().count.fetch_add(counts, Ordering::Relaxed);
    }

    unsafe fn from_count(address: usize) -> Shared {
        Shared(std::ptr::with_exposed_provenance(address))
    }

    unsafe fn release_counts(address: usize, counts: usize) {
        // SAFETY: guaranteed by the caller.
        ManuallyDrop::new(unsafe { Shared::from_count(address) }).release_some(counts);
    }
}

fn explore(scenario: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(scenario);
}

fn read(slot: &Slot<Shared>) {
    if let Some(page) = slot.get() {
        assert!(page.contents() > 0);
    }
}

/// A loader installs a block while an evictor already removes it, and a reader probes the slot: the reader
/// sees a whole block or none, and the slot ends empty (SL4).
#[test]
fn install_against_eviction() {
    explore(|| {
        let slot = Arc::new(Slot::new());
        let page = Shared::load(7);
        let evictor = {
            let (slot, page) = (slot.clone(), page.clone());
            thread::spawn(move || page.leave(&slot))
        };
        let reader = {
            let slot = slot.clone();
            thread::spawn(move || read(&slot))
        };
        page.install(&slot);
        evictor.join().unwrap();
        reader.join().unwrap();
        assert!(slot.get().is_none(), "SL4");
    });
}

/// Two readers and an evictor: no freed block is used, and the evicted block is freed.
#[test]
fn read_against_eviction() {
    explore(|| {
        let slot = Arc::new(Slot::new());
        let page = Shared::load(7);
        page.install(&slot);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let slot = slot.clone();
                thread::spawn(move || read(&slot))
            })
            .collect();
        page.leave(&slot);
        drop(page);
        for reader in readers {
            reader.join().unwrap();
        }
        assert!(slot.get().is_none(), "SL4");
    });
}

/// The block of a slot is evicted while another thread has loaded it anew: the new one may be installed or
/// not, the old one is gone.
#[test]
fn replacing() {
    explore(|| {
        let slot = Arc::new(Slot::new());
        let old = Shared::load(1);
        old.install(&slot);
        let loader = {
            let slot = slot.clone();
            thread::spawn(move || {
                let new = Shared::load(2);
                new.install(&slot);
                read(&slot);
                new
            })
        };
        old.leave(&slot);
        let new = loader.join().unwrap();
        if let Some(page) = slot.get() {
            assert_eq!(page.contents(), 2);
        }
        new.leave(&slot);
        assert!(slot.get().is_none(), "SL4");
    });
}

/// Readers replenish the reserve, three counts here, while the slot is emptied: each is released once.
#[test]
fn replenish_against_eviction() {
    explore(|| {
        let slot = Arc::new(Slot::new());
        let page = Shared::load(7);
        page.install(&slot);
        let held = slot.get().expect("the first of three");
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let slot = slot.clone();
                thread::spawn(move || {
                    read(&slot);
                    read(&slot);
                })
            })
            .collect();
        page.leave(&slot);
        drop(page);
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(held.contents(), 7);
        assert!(slot.get().is_none(), "SL4");
    });
}

/// A slot that is dropped with its table releases its block.
#[test]
fn dropping_a_full_slot() {
    explore(|| {
        let slot = Slot::new();
        Shared::load(3).install(&slot);
        assert!(slot.get().is_some());
    });
}

/// A warm block is inserted before its table is opened, and opening moves its slot to the table, while an
/// evictor removes the block: the slot of the table ends empty (HM4).
#[test]
fn take_from_against_eviction() {
    explore(|| {
        let slot = Arc::new(Slot::new());
        // What the identity's lock guards: the slot of the unopened table, and whether it is open.
        let owner = Arc::new(Mutex::new((None::<Slot<Shared>>, false)));
        let page = Shared::load(7);
        let evictor = {
            let (slot, owner, page) = (slot.clone(), owner.clone(), page.clone());
            thread::spawn(move || {
                page.page().resident.store(false, Ordering::Relaxed);
                match &*owner.lock().unwrap() {
                    (_, true) => slot.remove(page.address()),
                    (Some(warm), false) => warm.remove(page.address()),
                    (None, false) => {}
                }
            })
        };
        let warm = Slot::new();
        {
            let mut owner = owner.lock().unwrap();
            page.install(&warm);
            owner.0 = Some(warm);
        }
        {
            let mut owner = owner.lock().unwrap();
            slot.take_from(owner.0.take().expect("a slot was installed"));
            owner.1 = true;
        }
        read(&slot);
        evictor.join().unwrap();
        assert!(slot.get().is_none(), "SL4");
    });
}
