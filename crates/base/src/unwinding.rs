//! Tells a panic that began inside of a section from one that the section only runs under.
//!
//! A guard that undoes or poisons something when its section panics must not act when the section ends well
//! in a destructor that runs while an unrelated panic unwinds: `std::thread::panicking` is true there as
//! well.

/// Remembers whether the thread was unwinding when a section began.
#[derive(Clone, Copy, Debug)]
pub struct Unwinding {
    at_start: bool,
}

impl Unwinding {
    /// At the start of a section.
    #[inline]
    pub fn watch() -> Unwinding {
        Unwinding { at_start: std::thread::panicking() }
    }

    /// Whether a panic began since. A section that starts while the thread unwinds cannot see one: a second
    /// panic in a destructor aborts the process.
    #[inline]
    pub fn began_since(self) -> bool {
        std::thread::panicking() && !self.at_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    struct Guard<'a>(Unwinding, &'a Cell<Option<bool>>);

    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.1.set(Some(self.0.began_since()));
        }
    }

    #[test]
    fn only_a_panic_inside_of_the_section_counts() {
        let seen = Cell::new(None);
        drop(Guard(Unwinding::watch(), &seen));
        assert_eq!(seen.take(), Some(false));
        let inside = catch_unwind(AssertUnwindSafe(|| {
            let _guard = Guard(Unwinding::watch(), &seen);
            panic!("inside");
        }));
        assert!(inside.is_err());
        assert_eq!(seen.take(), Some(true));

        struct WorksInDrop<'a>(&'a Cell<Option<bool>>);
        impl Drop for WorksInDrop<'_> {
            fn drop(&mut self) {
                drop(Guard(Unwinding::watch(), self.0));
            }
        }
        let outside = catch_unwind(AssertUnwindSafe(|| {
            let _works = WorksInDrop(&seen);
            panic!("outside");
        }));
        assert!(outside.is_err());
        assert_eq!(seen.take(), Some(false));
    }
}
