//! Loom model of readers and replacements, in every interleaving of three threads. Loom's fence models both
//! of [`super::fences`].
//!
//! The value is a loom cell, which panics if a read of it is not before the drop, or not after the creation.
//! The model fails when any one step of the protocol is removed: the second load, each of the four fences,
//! the check after a value was retired, the check for a note that turned out stale, the bits of retired
//! addresses, Release where a slot is cleared, Acquire where it is scanned, the scan of the slots. Not
//! detected, because loom follows an older rule about stores of one thread: Release of a note over another
//! (PB6).

use super::Published;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// A number whose drop writes to it.
struct Value {
    number: UnsafeCell<usize>,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: written only by its creation and its drop; loom checks that no thread reads at the same time.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn new(number: usize, dropped: &Arc<AtomicUsize>) -> Value {
        Value { number: UnsafeCell::new(number), dropped: Arc::clone(dropped) }
    }

    fn number(&self) -> usize {
        self.number.with(|number| {
            // SAFETY: loom panics if this races with a write.
            unsafe { *number }
        })
    }

    fn next(&self) -> Value {
        Value::new(self.number() + 1, &self.dropped)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.number.with_mut(|number| {
            // SAFETY: loom panics if this races with a read.
            unsafe { *number = usize::MAX }
        });
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn check(model: impl Fn(Arc<Published<Value>>, Arc<AtomicUsize>) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        let dropped = Arc::new(AtomicUsize::new(0));
        model(Arc::new(Published::new(Value::new(0, &dropped))), dropped);
    });
}

/// Reads twice: the second value is not older.
fn read_twice(value: &Published<Value>) {
    let first = value.pin().number();
    assert!(first <= value.pin().number());
}

#[test]
fn a_reader_beside_two_replacements() {
    check(|value, dropped| {
        let reader = {
            let value = Arc::clone(&value);
            thread::spawn(move || read_twice(&value))
        };
        value.update(Value::next);
        value.update(Value::next);
        reader.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 2, "the last reader dropped what waited for it");
        assert_eq!(value.pin().number(), 2);
    });
}

#[test]
fn two_readers_beside_a_replacement() {
    check(|value, dropped| {
        let readers = [(); 2].map(|()| {
            let value = Arc::clone(&value);
            thread::spawn(move || assert!(value.pin().number() <= 1))
        });
        value.update(Value::next);
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "the last reader dropped what waited for it");
    });
}

#[test]
fn a_guard_that_another_thread_drops() {
    check(|value, dropped| {
        let guard = value.pin();
        let other = thread::spawn(move || assert_eq!(guard.number(), 0));
        value.update(Value::next);
        other.join().unwrap();
        assert_eq!(value.pin().number(), 1);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    });
}
