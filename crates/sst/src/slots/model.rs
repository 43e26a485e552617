//! Readers, loaders and evictors of one slot, in every interleaving of three threads.

use super::{Pointer, Slot};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Stands for a block: contents that must be seen written, and the flag of residence.
struct Page {
    contents: UnsafeCell<u32>,
    resident: AtomicBool,
}

// SAFETY: the contents are written before the page is shared; loom checks that.
unsafe impl Sync for Page {}

/// Stands for a `BlockRef`; loom's own counts strong references and complains about those that are never dropped.
#[derive(Clone)]
struct Shared(Arc<Page>);

impl Shared {
    /// A block that was just loaded, and entered the cache.
    fn load(number: u32) -> Shared {
        let page = Page { contents: UnsafeCell::new(0), resident: AtomicBool::new(true) };
        page.contents.with_mut(|contents| {
            // SAFETY: nobody else has the page yet.
            unsafe { *contents = number }
        });
        Shared(Arc::new(page))
    }

    fn contents(&self) -> u32 {
        self.0.contents.with(|contents| {
            // SAFETY: loom panics if this races with the write.
            unsafe { *contents }
        })
    }

    fn install(&self, slot: &Slot<Shared>) {
        slot.install(self, |page| page.0.resident.load(Ordering::Relaxed));
    }

    /// What the cache does when it evicts.
    fn leave(&self, slot: &Slot<Shared>) {
        self.0.resident.store(false, Ordering::Relaxed);
        slot.remove(Arc::as_ptr(&self.0).addr());
    }
}

// SAFETY: as for `BlockRef`.
unsafe impl Pointer for Shared {
    fn into_word(self) -> usize {
        Arc::into_raw(self.0).expose_provenance()
    }

    unsafe fn from_word(word: usize) -> Shared {
        // SAFETY: the caller's promise.
        Shared(unsafe { Arc::from_raw(std::ptr::with_exposed_provenance(word)) })
    }

    unsafe fn clone_from_word(word: usize) -> Shared {
        // SAFETY: the caller's promise; the count taken back here is given again.
        let borrowed = unsafe { Shared::from_word(word) };
        let clone = borrowed.clone();
        std::mem::forget(borrowed);
        clone
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

/// A loader installs while an evictor already throws the block out, and a reader comes by: the reader sees a whole block
/// or none, and the slot ends empty (SL4).
#[test]
fn installing_against_leaving() {
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

/// Two readers and an evictor: nobody uses a freed block, and what was evicted is given up although the slot was locked.
#[test]
fn reading_against_leaving() {
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

/// The block of a slot is evicted while another thread has loaded it anew: the new one may be installed or not, the old one
/// is gone.
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

/// A slot that goes with its table gives its block up.
#[test]
fn dropping_a_full_slot() {
    explore(|| {
        let slot = Slot::new();
        Shared::load(3).install(&slot);
        assert!(slot.get().is_some());
    });
}
