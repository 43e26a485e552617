//! Reads that are answered from memory or not at all: a section of a thread in which files of tables and
//! large values are not read.
//!
//! The mark belongs to the thread, not to the call, so that every kind of read obeys it without carrying it,
//! and so that only what is about to read a file looks at it: a read that finds everything in memory costs
//! the same as elsewhere. Rejected: a parameter through all layers, which each lookup would pay for.
//!
//! * RO1: *within the section an answer is as complete as elsewhere.* What would have been read is an error
//!   to the layers above, never an absent key; a filter that cannot be read counts as passing every key.

use crate::{Error, Result};
use std::cell::Cell;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Files are read.
    Off,
    /// Files are not read.
    On,
    /// Files are not read, and one would have been.
    Refused,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Off) };
}

/// A section of this thread without reads of files; ends when dropped.
#[derive(Debug)]
pub struct ResidentOnly {
    before: State,
}

impl ResidentOnly {
    /// Begins a section.
    pub fn enter() -> ResidentOnly {
        // In the destructor of another thread-local this one may be gone; then files are read.
        ResidentOnly { before: STATE.try_with(|state| state.replace(State::On)).unwrap_or(State::Off) }
    }

    /// Begins a section in which files are read, within one in which they are not: for work that must not
    /// fail on the way, such as closing.
    pub fn suspend() -> ResidentOnly {
        ResidentOnly { before: STATE.try_with(|state| state.replace(State::Off)).unwrap_or(State::Off) }
    }

    /// Whether this thread is in such a section.
    pub fn is_on() -> bool {
        STATE.try_with(Cell::get).is_ok_and(|state| state != State::Off)
    }

    /// Whether a read was refused in this section, not counting sections within it.
    pub fn has_refused(&self) -> bool {
        STATE.try_with(Cell::get).is_ok_and(|state| state == State::Refused)
    }

    /// An error inside of such a section, which is noted; called before a file is opened or read.
    #[inline]
    pub fn check(path: &Path) -> Result<()> {
        if ResidentOnly::is_on() { Err(refused(path)) } else { Ok(()) }
    }
}

#[cold]
fn refused(path: &Path) -> Error {
    let _ = STATE.try_with(|state| state.set(State::Refused));
    let kind = std::io::ErrorKind::WouldBlock;
    Error::io("read", path, std::io::Error::new(kind, "the caller accepts only what is in memory"))
}

impl Drop for ResidentOnly {
    fn drop(&mut self) {
        let _ = STATE.try_with(|state| state.set(self.before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_nest_and_each_knows_its_own_refusals() {
        let path = Path::new("table");
        assert!(!ResidentOnly::is_on() && ResidentOnly::check(path).is_ok());
        let outer = ResidentOnly::enter();
        {
            let inner = ResidentOnly::enter();
            assert!(!inner.has_refused());
            assert!(matches!(ResidentOnly::check(path), Err(Error::Io(_))));
            assert!(inner.has_refused());
        }
        assert!(ResidentOnly::is_on() && !outer.has_refused());
        drop(ResidentOnly::suspend());
        assert!(ResidentOnly::check(path).is_err() && outer.has_refused());
        let suspended = ResidentOnly::suspend();
        assert!(ResidentOnly::check(path).is_ok());
        drop(suspended);
        assert!(outer.has_refused());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!ResidentOnly::is_on(), "it is a section of one thread"));
        });
        drop(outer);
        assert!(!ResidentOnly::is_on());
    }
}
