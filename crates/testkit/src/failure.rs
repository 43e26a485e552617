//! The error type of checks: a sentence that says what is wrong.

use std::fmt;

/// A check that did not hold, or a call that failed where it must not.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(String);

/// Result of a step of a test.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure described by a sentence.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }

    /// The same failure, prefixed with the step that was under way.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Failure {
        Failure(format!("{what}: {}", self.0))
    }

    /// The message of a caught panic.
    pub fn of_panic(panic: &(dyn std::any::Any + Send)) -> Failure {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Failure(format!("panic: {text}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<esker::Error> for Failure {
    fn from(error: esker::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// Returns a [`Failure`] made of the format arguments unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($text)+)));
        }
    };
}
