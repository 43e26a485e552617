//! Interruption: Ctrl-C ends a long command in order, and the command says what it did so far.
//!
//! While an [`Interrupt`] lives, the first SIGINT or SIGTERM sets a flag that the command looks at between
//! its steps, and the second ends the process at once. Without one a signal acts as it always does. A command
//! that runs for another process looks whether that process is still there.
//!
//! DC3. An interrupted command leaves nothing half made, frees the lock, and says what it did.
//!
//! A call of the library that reports its progress cannot be told to stop. It is left by unwinding from the
//! report: what it has begun is deleted by destructors, as after an error.

use crate::caller::Caller;
use crate::failure::{Failure, INTERRUPTED_CODE};
use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What signals do, registered once in the process.
struct SignalFlags {
    /// A signal came while a command listened.
    is_set: Arc<AtomicBool>,
    /// No command listens: a signal acts as it always does.
    is_idle: Arc<AtomicBool>,
    /// Commands that listen.
    listening: AtomicUsize,
}

/// What a call of the library is left by.
struct Left;

/// The wish of the user that a command should end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    caller: Caller,
    is_set: Arc<AtomicBool>,
    _listening: Option<Arc<Listening>>,
}

#[derive(Debug)]
struct Listening;

impl Interrupt {
    /// Listens, until the value is dropped, to what ends a command of this caller.
    pub(crate) fn of(caller: &Caller) -> Result<Interrupt, Failure> {
        if caller.is_remote() {
            let is_set = Arc::new(AtomicBool::new(false));
            return Ok(Interrupt { caller: caller.clone(), is_set, _listening: None });
        }
        let signals = signals().map_err(|error| Failure::system("cannot listen to signals", &error))?;
        if signals.listening.fetch_add(1, Ordering::SeqCst) == 0 {
            signals.is_set.store(false, Ordering::SeqCst);
            signals.is_idle.store(false, Ordering::SeqCst);
        }
        let listening = Some(Arc::new(Listening));
        Ok(Interrupt { caller: caller.clone(), is_set: Arc::clone(&signals.is_set), _listening: listening })
    }

    /// Whether the command should end.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed) || self.caller.is_gone()
    }

    /// Leaves the call of [`Interrupt::during`] that reports from inside, if the command should end.
    pub(crate) fn leave_if_set(&self) {
        if self.is_set() {
            resume_unwind(Box::new(Left));
        }
    }

    /// The result of the work; `None` if it was left.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        // What the work has changed is not looked at after it was left.
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Left>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Ok(signals) = signals()
            && signals.listening.fetch_sub(1, Ordering::SeqCst) == 1
        {
            signals.is_idle.store(true, Ordering::SeqCst);
        }
    }
}

fn signals() -> io::Result<&'static SignalFlags> {
    static SIGNALS: OnceLock<io::Result<SignalFlags>> = OnceLock::new();
    let registered = SIGNALS.get_or_init(|| {
        let signals = SignalFlags {
            is_set: Arc::new(AtomicBool::new(false)),
            is_idle: Arc::new(AtomicBool::new(true)),
            listening: AtomicUsize::new(0),
        };
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second signal is judged before the flag of the first is set again.
            flag::register_conditional_default(signal, Arc::clone(&signals.is_idle))?;
            flag::register_conditional_shutdown(
                signal,
                INTERRUPTED_CODE.into(),
                Arc::clone(&signals.is_set),
            )?;
            flag::register(signal, Arc::clone(&signals.is_set))?;
        }
        Ok(signals)
    });
    registered.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_left_from_inside_and_its_destructors_run() {
        struct Deletes<'a>(&'a AtomicBool);
        impl Drop for Deletes<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let interrupt = Interrupt { caller: Caller::default(), is_set: Arc::default(), _listening: None };
        let deleted = AtomicBool::new(false);
        let work = || {
            let _begun = Deletes(&deleted);
            interrupt.leave_if_set();
            7
        };
        assert_eq!(interrupt.during(work), Some(7));
        deleted.store(false, Ordering::Relaxed);
        interrupt.is_set.store(true, Ordering::Relaxed);
        assert_eq!(interrupt.during(work), None);
        assert!(deleted.load(Ordering::Relaxed));
    }
}
