//! Merge operators: functions that apply a key's operands to its value.
//!
//! A *merge* is a write that changes a value without reading it: add 1, append a line. It writes an
//! *operand*; the keyspace's operator applies the operands of a key, oldest first, to the key's value, the
//! *base* (full merge). Readers merge what they meet, flushes and compactions merge where the history of the
//! key allows it ([`crate::compaction_iter`]).
//!
//! [`Merge`] is the trait; [`MergeOperator`] is a keyspace's operator, built in or custom. A keyspace stores
//! the operator's text, its name with its parameters, so that built-in operators are restored from it and
//! custom ones are looked up by name.
//!
//! # Requirements on an operator
//! * It is a function: the same base and operands give the same value, at any time and on any machine. It is
//!   undefined how often it is called, and on which thread.
//! * Merging in pieces equals merging at once: merging `a` and then `b` onto a base is merging `a, b` onto
//!   it. If it can combine operands without a base ([`Merge::merge_operands`], a partial merge), the result
//!   replaces them in every full merge.
//!
//! A merge may fail, because the base is invalid for the operator, or by the operator's own decision. Then
//! nothing is lost: flushes and compactions keep the operands, and readers of the key get an error until a
//! put or a delete ends its history. A panic in an operator counts as a failure.

mod append;
mod counter;
mod extreme;
pub mod set;

pub use append::MAX_SEPARATOR_LEN;

use append::Append;
use counter::Counter;
use esker_base::limits::MAX_VALUE_LEN;
use esker_base::{Error, Result};
use extreme::Extreme;
use set::Union;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Why a merge failed, as a sentence.
pub type MergeError = Box<dyn std::error::Error + Send + Sync>;

/// Longest name of a custom operator, in bytes.
pub const MAX_OPERATOR_NAME_LEN: usize = 255;

const CUSTOM: &str = "custom:";

/// A custom merge operator: how operands change a value.
///
/// ```
/// use esker_iter::operator::{Merge, MergeError};
///
/// /// Keeps the longest of all values.
/// #[derive(Debug)]
/// struct Longest;
///
/// impl Merge for Longest {
///     fn name(&self) -> &str {
///         "longest"
///     }
///
///     fn merge(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeError> {
///         let all = value.iter().chain(operands);
///         Ok(all.max_by_key(|value| value.len()).map_or(Vec::new(), |value| value.to_vec()))
///     }
///
///     fn merge_operands(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
///         self.merge(key, None, operands).ok()
///     }
/// }
/// assert_eq!(Longest.merge(b"k", Some(b"ab"), &[b"abc", b"d"]).unwrap(), b"abc");
/// ```
pub trait Merge: Send + Sync {
    /// The operator's name, stored with each keyspace that uses it and looked up when the database is opened.
    /// A function that behaves differently needs another name. 1 to 255 bytes.
    fn name(&self) -> &str;

    /// Full merge: the value of `key` after `operands`, at least one, oldest first, were applied to `value`,
    /// or to no value.
    ///
    /// # Errors
    /// A sentence that says why there is no such value.
    fn merge(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, MergeError>;

    /// Partial merge: one operand equivalent to `operands`, two or more, oldest first; `None` if there is
    /// none, which is always safe. With it, a compaction keeps one operand for a key where it may not merge
    /// into a value yet.
    fn merge_operands(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// Checks an operand before it is written, so that a mistake is reported to the writer.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    fn check_operand(&self, operand: &[u8]) -> std::result::Result<(), MergeError> {
        let _ = operand;
        Ok(())
    }
}

/// The merge operator of a keyspace. Operators are equal if their texts are.
#[derive(Clone)]
#[doc(alias = "AssociativeMergeOperator")]
pub struct MergeOperator {
    /// Name and parameters, as stored.
    text: Arc<str>,
    /// `None` for one that was stored by name and not supplied.
    function: Option<Arc<dyn Merge>>,
}

impl MergeOperator {
    fn built_in(function: impl Merge + 'static) -> MergeOperator {
        MergeOperator { text: function.name().into(), function: Some(Arc::new(function)) }
    }

    /// A counter that wraps around: operands and values are integers in decimal text, from -2^63 to 2^63 - 1,
    /// and each operand is added. No value counts as 0. Stored as `counter`.
    pub fn counter_wrapping() -> MergeOperator {
        MergeOperator::built_in(Counter { is_checked: false })
    }

    /// As [`MergeOperator::counter_wrapping`], but reading a total out of range is an error.
    /// `counter-checked`.
    pub fn counter_checked() -> MergeOperator {
        MergeOperator::built_in(Counter { is_checked: true })
    }

    /// Appends each operand, with `separator` between any two. Stored as `append:` and the separator.
    pub fn append(separator: impl AsRef<[u8]>) -> MergeOperator {
        MergeOperator::built_in(Append::new(separator.as_ref()))
    }

    /// The union of sets of byte strings, encoded by [`set::encode`]. Stored as `set-union`.
    pub fn set_union() -> MergeOperator {
        MergeOperator::built_in(Union)
    }

    /// The smallest of value and operands in the order of keys: byte by byte. Stored as `min`.
    pub fn min() -> MergeOperator {
        MergeOperator::built_in(Extreme { is_max: false })
    }

    /// The greatest of value and operands in the order of keys: byte by byte. Stored as `max`.
    pub fn max() -> MergeOperator {
        MergeOperator::built_in(Extreme { is_max: true })
    }

    /// A custom operator. Stored as `custom:` and its name.
    pub fn custom(function: Arc<dyn Merge>) -> MergeOperator {
        MergeOperator { text: format!("{CUSTOM}{}", function.name()).into(), function: Some(function) }
    }

    /// The operator with this text, a custom one without its function. `None` if it is unknown.
    pub fn parse(text: &str) -> Option<MergeOperator> {
        let known = match text.split_once(':') {
            None => match text {
                "counter" => MergeOperator::counter_wrapping(),
                "counter-checked" => MergeOperator::counter_checked(),
                "set-union" => MergeOperator::set_union(),
                "min" => MergeOperator::min(),
                "max" => MergeOperator::max(),
                _ => return None,
            },
            Some(("append", separator)) => MergeOperator::append(append::unescape(separator)?),
            Some(("custom", _)) => MergeOperator { text: text.into(), function: None },
            Some(_) => return None,
        };
        // Only the canonical form is accepted: one operator, one text.
        (known.text() == text).then_some(known)
    }

    /// Name and parameters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of a custom operator.
    pub fn custom_name(&self) -> Option<&str> {
        self.text.strip_prefix(CUSTOM)
    }

    /// Whether its function is known, so that it can merge.
    pub fn is_supplied(&self) -> bool {
        self.function.is_some()
    }

    /// This operator with the function of `other`, if the two are the same operator.
    #[must_use]
    pub fn supplied_by(self, other: &MergeOperator) -> MergeOperator {
        if self == *other && self.function.is_none() { other.clone() } else { self }
    }

    /// Checks the name and the parameters.
    ///
    /// # Errors
    /// `InvalidArgument` if one is out of range.
    pub fn validate(&self) -> Result<()> {
        if let Some(name) = self.custom_name()
            && !(1..=MAX_OPERATOR_NAME_LEN).contains(&name.len())
        {
            let len = name.len();
            let text = format!("a merge operator's name has 1 to {MAX_OPERATOR_NAME_LEN} bytes, not {len}");
            return Err(Error::invalid(text));
        }
        if let Some(separator) = self.text.strip_prefix(append::NAME) {
            append::check_separator(separator)?;
        }
        Ok(())
    }

    /// The value that `operands`, oldest first, make of `base`.
    pub(crate) fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, MergeError> {
        let Some(function) = &self.function else {
            return Err("the operator was not supplied when the database was opened".into());
        };
        let value = caught(|| function.merge(key, base, operands))?;
        check_len(value.len())?;
        Ok(value)
    }

    /// One operand for several, oldest first, if there is one.
    pub(crate) fn merge_operands(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let function = self.function.as_ref()?;
        let one = caught(|| Ok(function.merge_operands(key, operands))).ok()??;
        (one.len() <= MAX_VALUE_LEN).then_some(one)
    }

    pub(crate) fn check_operand(&self, operand: &[u8]) -> std::result::Result<(), MergeError> {
        match &self.function {
            Some(function) => function.check_operand(operand),
            None => Err("the operator was not supplied when the database was opened".into()),
        }
    }
}

/// An error for a value of so many bytes, if these are too many.
fn check_len(len: usize) -> std::result::Result<(), MergeError> {
    if len <= MAX_VALUE_LEN {
        return Ok(());
    }
    Err(format!("the value would have {len} bytes, the longest value has {MAX_VALUE_LEN}").into())
}

/// The result of `work`; a panic in user code becomes an error, so that a background job survives it.
pub(crate) fn caught<T>(
    work: impl FnOnce() -> std::result::Result<T, MergeError>,
) -> std::result::Result<T, MergeError> {
    // `work` changes no state of this crate, so nothing is left half changed.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("it panicked: {}", text.unwrap_or_else(|| "without a message".to_owned())).into())
    })
}

impl PartialEq for MergeOperator {
    fn eq(&self, other: &MergeOperator) -> bool {
        self.text == other.text
    }
}

impl Eq for MergeOperator {}

impl fmt::Debug for MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MergeOperator({})", self.text)
    }
}

impl fmt::Display for MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Panics;

    impl Merge for Panics {
        fn name(&self) -> &str {
            "panics"
        }
        fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> std::result::Result<Vec<u8>, MergeError> {
            panic!("out of tea")
        }
    }

    #[test]
    fn operator_texts_round_trip() {
        let all = [
            MergeOperator::counter_wrapping(),
            MergeOperator::counter_checked(),
            MergeOperator::append(b""),
            MergeOperator::append(b",:\n\xff\\x\"'"),
            MergeOperator::set_union(),
            MergeOperator::min(),
            MergeOperator::max(),
        ];
        for operator in all {
            let again = MergeOperator::parse(operator.text()).unwrap();
            assert_eq!(again, operator);
            assert!(again.is_supplied() && again.validate().is_ok());
            let merge = |operator: &MergeOperator| operator.merge(b"k", None, &[b"7", b"12"]).ok();
            assert_eq!(merge(&again), merge(&operator));
        }
        for wrong in ["", "count", "counter:1", "min:", "append", "append:\\q", "append:\\x0a", "custom"] {
            assert!(MergeOperator::parse(wrong).is_none(), "{wrong}");
        }
        assert!(MergeOperator::append(vec![0; MAX_SEPARATOR_LEN + 1]).validate().is_err());
    }

    #[test]
    fn a_custom_operator_is_supplied_by_name() {
        let own = MergeOperator::custom(Arc::new(Panics));
        let stored = MergeOperator::parse(own.text()).unwrap();
        assert_eq!((stored.custom_name(), stored.is_supplied()), (Some("panics"), false));
        let error = stored.merge(b"k", None, &[b"x"]).unwrap_err().to_string();
        assert!(error.contains("not supplied"), "{error}");
        assert!(stored.clone().supplied_by(&own).is_supplied());
        assert!(!stored.supplied_by(&MergeOperator::min()).is_supplied());
    }

    #[test]
    fn a_panic_is_a_failure() {
        let own = MergeOperator::custom(Arc::new(Panics));
        let error = own.merge(b"k", None, &[b"x"]).unwrap_err().to_string();
        assert_eq!(error, "it panicked: out of tea");
        assert_eq!(own.merge_operands(b"k", &[b"x", b"y"]), None);
    }
}
