//! Models of the orders that readers rely on while memtables are sealed, tables installed and files deleted:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p esker-engine --test loom --release
//! ```
//!
//! The models are reductions: one key, whose versions are their sequence numbers, and memtables that are a
//! few words. They keep the order of the real code's loads, stores and locks, named in each place; the
//! memtable itself has a model of its own, over its real code. Each model has mutants that break one order
//! each, and each must fail.
#![cfg(loom)]

#[path = "loom/closing.rs"]
mod closing;
#[path = "loom/listening.rs"]
mod listening;

use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

/// Runs a model in every interleaving.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

/// The model holds without a mutant and fails with each.
fn check_with_mutants<M>(model: fn(Option<M>), mutants: &[M])
where
    M: Copy + std::fmt::Debug + Send + Sync + std::panic::RefUnwindSafe + 'static,
{
    check(move || model(None));
    for &mutant in mutants {
        let outcome = std::panic::catch_unwind(|| check(move || model(Some(mutant))));
        assert!(outcome.is_err(), "{mutant:?} survived");
    }
}

/// A lock; a panic under one occurs only in a mutant that is failing already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

// ---- reading while memtables are sealed and flushed

/// Versions of the one key; zero is no version. Published by the release store of `visible`, as in the real
/// memtable.
#[derive(Default)]
struct Memtable([AtomicU64; 2]);

impl Memtable {
    fn insert(&self, place: usize, seqno: u64) {
        self.0[place].store(seqno, Ordering::Relaxed);
    }

    fn versions(&self) -> Vec<u64> {
        self.0.iter().map(|version| version.load(Ordering::Relaxed)).filter(|&version| version != 0).collect()
    }
}

/// Memtables, newest first, and the versions in tables.
struct View {
    memtables: Vec<Arc<Memtable>>,
    table: Vec<u64>,
}

impl View {
    /// The result of a reader at `seqno`.
    fn get(&self, seqno: u64) -> Option<u64> {
        let in_memtables = self.memtables.iter().flat_map(|memtable| memtable.versions());
        in_memtables.chain(self.table.iter().copied()).filter(|&version| version <= seqno).max()
    }
}

struct Store {
    view: Mutex<Arc<View>>,
    visible: AtomicU64,
    snapshots: Mutex<Vec<u64>>,
}

impl Store {
    /// A store whose active memtable has version 1.
    fn new() -> (Arc<Store>, Arc<Memtable>) {
        let first = Arc::new(Memtable::default());
        first.insert(0, 1);
        let view = View { memtables: vec![Arc::clone(&first)], table: Vec::new() };
        let (view, visible) = (Mutex::new(Arc::new(view)), AtomicU64::new(1));
        (Arc::new(Store { view, visible, snapshots: Mutex::new(Vec::new()) }), first)
    }

    fn load_view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.view))
    }

    fn publish(&self, view: View) {
        *lock(&self.view) = Arc::new(view);
    }

    /// Seals the memtable. The caller is the only writer, as if it held the commit lock.
    fn seal(&self, old: &Arc<Memtable>) -> Arc<Memtable> {
        let active = Arc::new(Memtable::default());
        self.publish(View { memtables: vec![Arc::clone(&active), Arc::clone(old)], table: Vec::new() });
        active
    }

    /// Flushes `sealed` into a table, which gets the newest version at or below each boundary; `active`
    /// stays.
    fn flush(&self, sealed: &Memtable, active: &Arc<Memtable>) {
        // RV4, RV5: `visible` is sampled under the lock under which snapshots are registered.
        let boundaries: Vec<u64> = {
            let snapshots = lock(&self.snapshots);
            let sampled = self.visible.load(Ordering::Acquire);
            snapshots.iter().copied().chain([sampled]).collect()
        };
        let versions = sealed.versions();
        let newest = |boundary: &u64| versions.iter().filter(|version| *version <= boundary).max().copied();
        let table = boundaries.iter().filter_map(newest).collect();
        self.publish(View { memtables: vec![Arc::clone(active)], table });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SealMutant {
    /// RV1 broken: `visible` is loaded before the view.
    VisibleBeforeView,
    /// RV2 broken: a sequence number of the new memtable is visible before the view that has it.
    PublishLate,
    /// CP4 broken: `visible` does not publish the insertion.
    RelaxedVisible,
}

/// One thread overwrites the key, seals, overwrites it again, and flushes; a reader runs concurrently.
fn seal_and_flush(mutant: Option<SealMutant>) {
    let (store, first) = Store::new();
    let reader = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let began = store.visible.load(Ordering::Acquire);
            let (view, seqno) = if mutant == Some(SealMutant::VisibleBeforeView) {
                let seqno = store.visible.load(Ordering::Acquire);
                (store.load_view(), seqno)
            } else {
                let view = store.load_view();
                (view, store.visible.load(Ordering::Acquire))
            };
            let found = view.get(seqno);
            // The read returns the version visible when it began, or a newer one; nothing beyond `seqno`.
            let fine = found.is_some_and(|found| (began..=seqno).contains(&found));
            assert!(fine, "found {found:?} at {seqno}, though {began} was visible before");
        })
    };
    let publication = match mutant {
        Some(SealMutant::RelaxedVisible) => Ordering::Relaxed,
        _ => Ordering::Release,
    };
    first.insert(1, 2);
    store.visible.store(2, publication);
    if mutant == Some(SealMutant::PublishLate) {
        let active = Arc::new(Memtable::default());
        active.insert(0, 3);
        store.visible.store(3, publication);
        store.publish(View { memtables: vec![active, first], table: Vec::new() });
    } else {
        let active = store.seal(&first);
        active.insert(0, 3);
        store.visible.store(3, publication);
        store.flush(&first, &active);
    }
    assert!(reader.join().is_ok());
}

#[test]
fn readers_against_seal_and_flush() {
    use SealMutant::{PublishLate, RelaxedVisible, VisibleBeforeView};
    check_with_mutants(seal_and_flush, &[VisibleBeforeView, PublishLate, RelaxedVisible]);
}

#[derive(Clone, Copy, Debug)]
enum SnapshotMutant {
    /// RV5 broken: a snapshot takes its number before it is registered, outside of the lock.
    NumberOutsideLock,
}

/// A snapshot is taken while the key is overwritten and flushed; its reads stay the same.
fn snapshot_against_flush(mutant: Option<SnapshotMutant>) {
    let (store, first) = Store::new();
    let reader = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let early = mutant.map(|_| store.visible.load(Ordering::Acquire));
            let snapshot = {
                let mut snapshots = lock(&store.snapshots);
                let seqno = early.unwrap_or_else(|| store.visible.load(Ordering::Acquire));
                snapshots.push(seqno);
                seqno
            };
            let found = store.load_view().get(snapshot);
            assert_eq!(found, Some(snapshot), "the version that the snapshot sees is gone");
        })
    };
    first.insert(1, 2);
    store.visible.store(2, Ordering::Release);
    let active = store.seal(&first);
    store.flush(&first, &active);
    assert!(reader.join().is_ok());
}

#[test]
fn snapshots_against_flush() {
    check_with_mutants(snapshot_against_flush, &[SnapshotMutant::NumberOutsideLock]);
}

// ---- releasing a table

/// A table file, with its references counted as `Arc` and `Weak` count them (loom has no `Weak`).
struct TableHandle {
    references: AtomicUsize,
    obsolete: AtomicBool,
    /// Times the file was deleted.
    deletions: AtomicUsize,
}

impl TableHandle {
    fn read(&self) {
        assert_eq!(self.deletions.load(Ordering::Relaxed), 0, "a reader met a deleted file");
    }

    fn delete(&self) {
        let before = self.deletions.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "deleted twice");
    }

    fn acquire(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    /// A reference for a caller without one, unless the last one is gone.
    fn upgrade(&self) -> bool {
        let mut seen = self.references.load(Ordering::Relaxed);
        while seen != 0 {
            match self.references.compare_exchange(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// The drop of a reference: the last one deletes an obsolete file.
    fn release(&self) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 && self.obsolete.load(Ordering::Acquire) {
            self.delete();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReclaimMutant {
    /// The file is deleted at the install, not at the last drop.
    DeleteAtInstall,
    /// The file is marked without a reference: the last reader may be gone between the check and the mark.
    MarkWithoutReference,
    /// A reader takes its reference after it released its pin of the view.
    ReferenceOutsideLock,
}

/// A reader pins the view and reads the table, while an install publishes a view without it and retires the
/// file. In the end the file was deleted exactly once, and not read after that.
fn reclaim(mutant: Option<ReclaimMutant>) {
    let file = Arc::new(TableHandle {
        references: AtomicUsize::new(1),
        obsolete: AtomicBool::new(false),
        deletions: AtomicUsize::new(0),
    });
    // The view: whether it refers to the table.
    let view = Arc::new(Mutex::new(true));
    let reader = {
        let (file, view) = (Arc::clone(&file), Arc::clone(&view));
        thread::spawn(move || {
            let current = lock(&view);
            let has_table = *current;
            if has_table && mutant != Some(ReclaimMutant::ReferenceOutsideLock) {
                file.acquire();
            }
            drop(current);
            if has_table && mutant == Some(ReclaimMutant::ReferenceOutsideLock) {
                file.acquire();
            }
            if has_table {
                file.read();
                file.release();
            }
        })
    };
    *lock(&view) = false;
    // The old view's reference, dropped after the lock.
    file.release();
    match mutant {
        Some(ReclaimMutant::DeleteAtInstall) => file.delete(),
        Some(ReclaimMutant::MarkWithoutReference) if file.references.load(Ordering::Acquire) > 0 => {
            file.obsolete.store(true, Ordering::Release);
        }
        Some(ReclaimMutant::MarkWithoutReference) => file.delete(),
        _ if file.upgrade() => {
            file.obsolete.store(true, Ordering::Release);
            file.release();
        }
        _ => file.delete(),
    }
    assert!(reader.join().is_ok());
    assert_eq!(file.deletions.load(Ordering::Relaxed), 1, "the file was never deleted");
}

#[test]
fn readers_against_the_deletion_of_a_table() {
    use ReclaimMutant::{DeleteAtInstall, MarkWithoutReference, ReferenceOutsideLock};
    check_with_mutants(reclaim, &[DeleteAtInstall, MarkWithoutReference, ReferenceOutsideLock]);
}
