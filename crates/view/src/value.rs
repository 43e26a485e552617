//! The values that reads return.

use crate::time;
use esker_sst::PinnedValue;
use std::array::TryFromSliceError;
use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes that a read returned; derefs to `[u8]`.
///
/// A value found in a table is not copied: it keeps the block it lies in alive, 4 KiB unless configured
/// otherwise. Copy it (`to_vec`) to keep a few small values for long. The values of one multi-get keep at
/// most 4 MiB of blocks; what is beyond that is copied.
#[derive(Clone)]
#[doc(alias = "PinnableSlice")]
#[doc(alias = "DBPinnableSlice")]
#[doc(alias = "UserValue")]
#[doc(alias = "AccessGuard")]
pub struct Value(Repr);

// Nothing of it changes after it was made, so a panic cannot leave it half changed.
impl UnwindSafe for Value {}
impl RefUnwindSafe for Value {}

#[derive(Clone)]
enum Repr {
    Owned(Box<[u8]>),
    Pinned(PinnedValue),
}

impl Value {
    /// A copy of `bytes`.
    #[inline]
    pub fn copied(bytes: &[u8]) -> Value {
        Value(Repr::Owned(bytes.into()))
    }

    /// A value that owns `bytes`.
    pub fn owned(bytes: Vec<u8>) -> Value {
        Value(Repr::Owned(bytes.into()))
    }

    /// A value that holds the block it lies in.
    #[inline]
    pub fn pinned(value: PinnedValue) -> Value {
        Value(Repr::Pinned(value))
    }

    /// The bytes as a vector of their own.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Owned(bytes) => bytes.into_vec(),
            Repr::Pinned(value) => value.to_vec(),
        }
    }
}

/// A value and its expiry, as one read found them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueWithExpiry {
    /// The value.
    pub value: Value,
    /// The first moment without the value, by the database time, to the millisecond; `None` if it does not
    /// expire.
    pub expiry: Option<SystemTime>,
}

impl ValueWithExpiry {
    /// A value that expires at this time, in milliseconds since 1970; `None` if it does not.
    pub fn new(value: Value, expiry_ms: Option<u64>) -> ValueWithExpiry {
        ValueWithExpiry { value, expiry: expiry_ms.map(time::from_ms) }
    }
}

impl Default for Value {
    /// The empty value.
    fn default() -> Value {
        Value::owned(Vec::new())
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

macro_rules! equal_to_value {
    ($($other:ty $(, $length:ident)?;)*) => {$(
        impl$(<const $length: usize>)? PartialEq<Value> for $other {
            fn eq(&self, value: &Value) -> bool {
                **value == *AsRef::<[u8]>::as_ref(self)
            }
        }
    )*};
}

equal_to_value! {
    [u8]; &[u8]; [u8; N], N; &[u8; N], N; Vec<u8>; str; &str; String;
}

impl Eq for Value {}

/// As the bytes hash, so that a map of values is searched by bytes.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Borrow<[u8]> for Value {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.into_vec()
    }
}

impl From<Value> for Box<[u8]> {
    fn from(value: Value) -> Box<[u8]> {
        match value.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned(value) => (*value).into(),
        }
    }
}

impl From<Value> for Arc<[u8]> {
    fn from(value: Value) -> Arc<[u8]> {
        (*value).into()
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::owned(bytes)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::copied(bytes)
    }
}

/// A value of exactly this length, for numbers: `u64::from_be_bytes(value.try_into()?)`.
impl<const N: usize> TryFrom<Value> for [u8; N] {
    type Error = TryFromSliceError;

    fn try_from(value: Value) -> Result<[u8; N], TryFromSliceError> {
        (*value).try_into()
    }
}

impl<const N: usize> TryFrom<&Value> for [u8; N] {
    type Error = TryFromSliceError;

    fn try_from(value: &Value) -> Result<[u8; N], TryFromSliceError> {
        (**value).try_into()
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_value_compares_with_bytes_and_strings() {
        let value = Value::copied(b"1815");
        assert_eq!(value, b"1815");
        assert_eq!(value, *b"1815");
        assert_eq!(value, b"1815".as_slice());
        assert_eq!(value, "1815");
        assert_eq!(value, "1815".to_owned());
        assert_eq!(value, vec![b'1', b'8', b'1', b'5']);
        assert_eq!(b"1815", value);
        assert_eq!(*b"1815", value);
        assert_eq!("1815", value);
        assert_eq!(b"1815".as_slice(), value);
        assert_eq!(b"1815".to_vec(), value);
        assert_ne!(value, "1816");
    }

    #[test]
    fn a_value_becomes_what_a_program_keeps() {
        let value = Value::copied(&7u64.to_be_bytes());
        assert_eq!(u64::from_be_bytes((&value).try_into().unwrap()), 7);
        assert!(<[u8; 4]>::try_from(&value).is_err());
        assert_eq!(Vec::from(value.clone()), 7u64.to_be_bytes());
        assert_eq!(*Box::<[u8]>::from(value.clone()), 7u64.to_be_bytes());
        assert_eq!(*Arc::<[u8]>::from(value.clone()), 7u64.to_be_bytes());
        let years = HashMap::from([(Value::from(b"ada".as_slice()), 1815)]);
        assert_eq!(years.get(b"ada".as_slice()), Some(&1815));
        assert_eq!(u64::from_be_bytes(value.try_into().unwrap()), 7);
    }
}
