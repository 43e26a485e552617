//! Tests of values that readers of a published value see, and of when a replaced one is dropped.

use super::Published;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread::scope;

/// A number that counts live instances, and detects use after drop.
struct Counted {
    number: usize,
    living: Arc<AtomicUsize>,
    check: usize,
}

impl Counted {
    fn new(number: usize, living: &Arc<AtomicUsize>) -> Counted {
        living.fetch_add(1, Ordering::SeqCst);
        Counted { number, living: Arc::clone(living), check: !number }
    }

    fn number(&self) -> usize {
        assert_eq!(self.check, !self.number, "read after it was dropped");
        self.number
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.check = self.number;
        self.living.fetch_sub(1, Ordering::SeqCst);
    }
}

fn published() -> (Published<Counted>, Arc<AtomicUsize>) {
    let living = Arc::new(AtomicUsize::new(0));
    (Published::new(Counted::new(0, &living)), living)
}

fn replace(value: &Published<Counted>) {
    value.update(|old| Counted::new(old.number() + 1, &old.living));
}

fn living(living: &AtomicUsize) -> usize {
    living.load(Ordering::SeqCst)
}

#[test]
fn an_unread_value_is_dropped_when_replaced() {
    let (value, count) = published();
    for number in 1..100 {
        replace(&value);
        assert_eq!(value.pin().number(), number);
        assert_eq!(living(&count), 1);
    }
    drop(value);
    assert_eq!(living(&count), 0);
}

#[test]
fn a_pinned_value_lives_until_its_last_reader_drops_it() {
    let (value, count) = published();
    let (first, second) = (value.pin(), value.pin());
    replace(&value);
    replace(&value);
    assert_eq!((first.number(), second.number(), value.pin().number()), (0, 0, 2));
    assert_eq!(living(&count), 2, "values without a guard are dropped");
    drop(first);
    assert_eq!(living(&count), 2);
    drop(second);
    assert_eq!(living(&count), 1);
}

#[test]
fn a_guard_can_be_dropped_by_another_thread() {
    let (value, count) = published();
    let guard = value.pin();
    replace(&value);
    scope(|threads| {
        threads.spawn(move || drop(guard));
    });
    assert_eq!(living(&count), 1);
    // The slot is free again.
    assert!(value.pin().slot.is_some());
}

#[test]
fn a_guard_outlives_the_thread_that_pinned_it() {
    let (value, count) = published();
    let guard = scope(|threads| threads.spawn(|| value.pin()).join().unwrap());
    replace(&value);
    // The next thread may get the same slots, of which one is taken.
    scope(|threads| {
        threads.spawn(|| {
            let guards: Vec<_> = (0..20).map(|_| value.pin()).collect();
            assert!(guards.iter().all(|guard| guard.number() == 1));
        });
    });
    assert_eq!((guard.number(), living(&count)), (0, 2));
    drop(guard);
    assert_eq!(living(&count), 1);
}

#[test]
fn guards_beyond_the_slots_of_a_thread_count() {
    let (value, count) = published();
    let guards: Vec<_> = (0..20).map(|_| value.pin()).collect();
    assert!(guards[0].slot.is_some() && guards[19].slot.is_none());
    replace(&value);
    let newer: Vec<_> = (0..20).map(|_| value.pin()).collect();
    assert!(guards.iter().all(|guard| guard.number() == 0));
    assert!(newer.iter().all(|guard| guard.number() == 1));
    // An update needs no slot.
    replace(&value);
    assert_eq!(living(&count), 3);
    drop(guards);
    drop(newer);
    assert_eq!(living(&count), 1);
}

#[test]
fn a_kept_guard_leaves_its_slot_and_outlives_the_published_value() {
    let (value, count) = published();
    let kept: Vec<_> = (0..20).map(|_| value.pin().kept()).collect();
    assert!(value.pin().slot.is_some());
    let (arc, pinned) = (value.load(), value.pin());
    drop(value);
    assert_eq!((kept[7].number(), arc.number(), pinned.number(), living(&count)), (0, 0, 0, 1));
    drop(pinned);
    drop(kept);
    assert_eq!(living(&count), 1);
    drop(arc);
    assert_eq!(living(&count), 0);
}

#[test]
fn a_replaced_value_may_publish_others() {
    let (inner, count) = published();
    let outer = Published::new(Some(inner));
    let guard = outer.pin();
    outer.update(|_| None);
    assert_eq!(guard.as_ref().unwrap().pin().number(), 0);
    drop(guard);
    assert_eq!(living(&count), 0);
}

#[test]
fn threads_that_end_give_their_slots_back() {
    let (value, _) = published();
    for _ in 0..if cfg!(miri) { 30 } else { 3000 } {
        scope(|threads| {
            threads.spawn(|| assert!(value.pin().slot.is_some()));
        });
    }
}

#[test]
fn an_update_that_panics_changes_nothing() {
    let (value, count) = published();
    let update = std::panic::AssertUnwindSafe(|| value.update(|_| panic!("no new value")));
    assert!(std::panic::catch_unwind(update).is_err());
    replace(&value);
    assert_eq!((value.pin().number(), living(&count)), (1, 1));
}

#[test]
fn many_readers_beside_constant_replacement() {
    const READERS: usize = 4;
    const REPLACEMENTS: usize = if cfg!(miri) { 20 } else { 3000 };
    let (value, count) = published();
    let (start, ends) = (Barrier::new(READERS + 1), AtomicBool::new(false));
    let (kept, received) = channel();
    scope(|threads| {
        for reader in 0..READERS {
            let (value, start, ends, kept) = (&value, &start, &ends, kept.clone());
            threads.spawn(move || {
                start.wait();
                let (mut last, mut round) = (0, reader);
                while !ends.load(Ordering::Relaxed) {
                    let outer = value.pin();
                    let inner = value.pin();
                    assert!(last <= outer.number() && outer.number() <= inner.number(), "time goes on");
                    last = inner.number();
                    round += 1;
                    if round % 64 == 0 {
                        kept.send(outer).unwrap();
                    }
                }
            });
        }
        start.wait();
        for _ in 0..REPLACEMENTS {
            replace(&value);
            // Guards of other threads, dropped here.
            while let Ok(guard) = received.try_recv() {
                assert!(guard.number() <= value.pin().number());
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    drop((kept, received));
    assert_eq!((value.pin().number(), living(&count)), (REPLACEMENTS, 1));
}
