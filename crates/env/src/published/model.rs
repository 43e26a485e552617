//! Readers and those who replace, in every interleaving of three threads. Loom's fence stands for both of
//! [`super::fences`].
//!
//! What is read is a cell of loom's, which complains if a read of it is not before the drop, or not after the
//! making. Tried with what the protocol stands on taken away, one at a time, and each time the model failed:
//! the second look, each of the four fences, the look after a value was put with those that wait, the look
//! for a note that turned out stale, the bits of what waits, Release where a slot is cleared, Acquire where
//! it is looked for, the look through the notes. Not noticed, because loom follows an older rule about stores
//! of one thread: Release of a note over another (PB6).

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

// SAFETY: written by its maker and its drop only; loom checks that nobody reads at the same time.
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

/// Reads twice: it does not go back in time.
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
