//! Buffers that a thread reuses from call to call, with a fresh one where the thread's own cannot be had.
//!
//! A thread-local buffer is out of reach in two situations: when a destructor of another thread-local or an
//! `atexit` handler calls after the buffer was destroyed, and when a call runs inside another one that uses
//! the buffer, such as a callback. `LocalKey::with` and `RefCell::borrow_mut` panic then, and a panic in a
//! destructor aborts the process.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Calls `work` with the thread's buffer, or with the one that `fresh` makes where that cannot be had.
#[inline(always)]
pub fn with_thread_buffer<T: 'static, R>(
    key: &'static LocalKey<RefCell<T>>,
    fresh: impl FnOnce() -> T,
    work: impl FnOnce(&mut T) -> R,
) -> R {
    let mut work = Some(work);
    let mut call = |buffer: &mut T| work.take().map(|work| work(buffer));
    let done = key.try_with(|kept| kept.try_borrow_mut().ok().and_then(|mut kept| call(&mut kept)));
    match done {
        Ok(Some(result)) => result,
        // Not called yet: `call` is only refused before it takes `work`.
        _ => without_thread_buffer(call, fresh),
    }
}

#[cold]
fn without_thread_buffer<T, R>(mut call: impl FnMut(&mut T) -> Option<R>, fresh: impl FnOnce() -> T) -> R {
    call(&mut fresh()).expect("the work was not done with the thread's buffer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    fn push(byte: u8) -> Vec<u8> {
        with_thread_buffer(&BUFFER, Vec::new, |buffer| {
            buffer.push(byte);
            buffer.clone()
        })
    }

    #[test]
    fn the_buffer_of_the_thread_is_kept() {
        push(1);
        assert_eq!(push(2), [1, 2]);
    }

    #[test]
    fn a_call_inside_of_another_gets_a_fresh_buffer() {
        let inner = with_thread_buffer(&BUFFER, Vec::new, |outer| {
            outer.push(1);
            push(9)
        });
        assert_eq!(inner, [9]);
        assert_eq!(push(2), [1, 2], "the outer call wrote to the thread's");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test is about the end of a plain thread")]
    fn a_destructor_that_runs_after_the_buffers_gets_a_fresh_one() {
        struct AtEnd(mpsc::Sender<Vec<u8>>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                self.0.send(push(7)).unwrap();
            }
        }
        thread_local! {
            static FIRST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
        }
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // Registered first, so destroyed after the buffer or before it, as the platform has it: both
            // orders must work.
            FIRST.set(Some(AtEnd(sender)));
            push(1);
        })
        .join()
        .unwrap();
        let found = receiver.recv().unwrap();
        assert!(found == [7] || found == [1, 7], "{found:?}");
    }
}
