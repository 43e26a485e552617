//! Closing a table while a reader uses it and an install publishes (`tree/table_handle.rs`,
//! `table_eviction.rs`): readers borrow from a view without a reference count, so the borrowed table must
//! stay; a file is open once; and the view that is published last is not outdated by eviction.

use super::{check_with_mutants, lock};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// The open table, by its count; loom's `Arc` has no weak pointers.
#[derive(Default)]
struct Table(AtomicUsize);

impl Table {
    fn open(&self) {
        assert_eq!(self.0.swap(1, Ordering::AcqRel), 0, "OT1: opened while it was open");
    }

    /// As upgrading a weak pointer.
    fn acquire(&self) -> bool {
        let more = |count: usize| (count > 0).then_some(count + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    fn read(&self) {
        assert!(self.0.load(Ordering::Acquire) > 0, "read after it was closed");
    }

    fn release(&self) {
        assert!(self.0.fetch_sub(1, Ordering::AcqRel) > 0);
    }
}

/// A `TableHandle`: the one before the close and the one after.
#[derive(Default)]
struct Cell {
    /// Views, and publishers of one, that refer to it.
    references: AtomicUsize,
    filled: AtomicBool,
}

struct World {
    table: Table,
    cells: [Cell; 2],
    /// Lock of the identity: whether it keeps the table.
    kept: Mutex<bool>,
    /// The cell that new trees refer to.
    current: Mutex<usize>,
    publishing: Mutex<()>,
    view: Mutex<Option<Arc<View>>>,
}

/// A view, by the one cell that it refers to.
struct View {
    world: Arc<World>,
    cell: usize,
}

impl View {
    fn new(world: &Arc<World>, cell: usize) -> Arc<View> {
        world.cells[cell].references.fetch_add(1, Ordering::AcqRel);
        Arc::new(View { world: Arc::clone(world), cell })
    }
}

fn publish(view: Arc<View>) {
    let world = Arc::clone(&view.world);
    let old = lock(&world.view).replace(view);
    drop(old);
}

impl Drop for View {
    fn drop(&mut self) {
        let cell = &self.world.cells[self.cell];
        if cell.references.fetch_sub(1, Ordering::AcqRel) == 1 && cell.filled.load(Ordering::Acquire) {
            self.world.table.release();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Opening does not check whether an old view still has the table.
    OpenUnasked,
    /// Eviction empties the old cell instead of leaving that to its last view.
    EmptyCell,
    /// The cell is read, and filled, without the identity's lock.
    FillUnlocked,
    /// An install does not take the lock under which trees are published.
    InstallUnlocked,
}

/// A lookup: borrows from the cell of its view, or opens.
fn read(world: &Arc<World>, mutant: Option<Mutant>) {
    let view = lock(&world.view).clone().unwrap();
    let cell = &world.cells[view.cell];
    if cell.filled.load(Ordering::Acquire) {
        world.table.read();
        return;
    }
    let mut kept = lock(&world.kept);
    if mutant == Some(Mutant::OpenUnasked) || !world.table.acquire() {
        world.table.open();
    }
    if !*kept {
        *kept = true;
        assert!(world.table.acquire());
    }
    let locked = (mutant != Some(Mutant::FillUnlocked)).then_some(kept);
    let is_current = *lock(&world.current) == view.cell;
    if is_current {
        assert!(world.table.acquire());
        // As a `OnceLock` does.
        let filled = cell.filled.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed);
        if filled.is_err() {
            world.table.release();
        }
    }
    drop(locked);
    world.table.read();
    world.table.release();
}

/// Eviction: closes the table, and publishes a view with the other cell.
fn close(world: &Arc<World>, mutant: Option<Mutant>) {
    let publishing = lock(&world.publishing);
    let mut kept = lock(&world.kept);
    if !std::mem::take(&mut *kept) {
        return;
    }
    let is_filled = world.cells[0].filled.load(Ordering::Acquire);
    let fresh = is_filled.then(|| {
        *lock(&world.current) = 1;
        View::new(world, 1)
    });
    drop(kept);
    if mutant == Some(Mutant::EmptyCell) && world.cells[0].filled.swap(false, Ordering::AcqRel) {
        world.table.release();
    }
    if let Some(fresh) = fresh {
        publish(fresh);
    }
    drop(publishing);
    world.table.release();
}

/// An install: publishes a view with the current cell.
fn install(world: &Arc<World>, mutant: Option<Mutant>) {
    let publishing = (mutant != Some(Mutant::InstallUnlocked)).then(|| lock(&world.publishing));
    let current = *lock(&world.current);
    publish(View::new(world, current));
    drop(publishing);
}

/// The table was open, and the current cell has it.
fn closing(mutant: Option<Mutant>) {
    race(true, mutant);
}

/// The table was not opened yet.
fn closing_while_opening(mutant: Option<Mutant>) {
    race(false, mutant);
}

fn race(is_open: bool, mutant: Option<Mutant>) {
    let world = Arc::new(World {
        table: Table::default(),
        cells: [Cell::default(), Cell::default()],
        kept: Mutex::new(false),
        current: Mutex::new(0),
        publishing: Mutex::new(()),
        view: Mutex::new(None),
    });
    publish(View::new(&world, 0));
    if is_open {
        read(&world, None);
    }
    let spawn = |work: fn(&Arc<World>, Option<Mutant>)| {
        let world = Arc::clone(&world);
        thread::spawn(move || work(&world, mutant))
    };
    let threads = [spawn(read), spawn(install)];
    close(&world, mutant);
    for thread in threads {
        assert!(thread.join().is_ok());
    }
    let last = lock(&world.view).take().unwrap();
    assert_eq!(last.cell, *lock(&world.current), "OT5: a view was published that the sweep had outdated");
    let is_filled = world.cells[last.cell].filled.load(Ordering::Acquire);
    assert!(!is_filled || *lock(&world.kept), "the current view has a table open that no sweep can close");
    drop(last);
    if std::mem::take(&mut *lock(&world.kept)) {
        world.table.release();
    }
    assert_eq!(world.table.0.load(Ordering::Acquire), 0, "it has no owner, but it is open");
}

#[test]
fn closing_against_readers_and_installs() {
    use Mutant::{EmptyCell, FillUnlocked, InstallUnlocked, OpenUnasked};
    check_with_mutants(closing, &[OpenUnasked, EmptyCell, InstallUnlocked]);
    check_with_mutants(closing_while_opening, &[FillUnlocked]);
}
