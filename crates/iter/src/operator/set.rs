//! Merge operator `set-union`: sets of byte strings and their union.
//!
//! ```text
//! set = element*              element = length varint | bytes
//! ```
//!
//! Elements ascend in key order, each once, so that a set has one encoding. The empty set has no bytes.

use super::{Merge, MergeError};
use esker_base::coding::{Reader, put_prefixed, varint_len};
use esker_base::{Error, Result};
use std::collections::BTreeSet;

/// The encoding of a set: the operand that adds these elements to a key of a keyspace with
/// [`MergeOperator::set_union`](super::MergeOperator::set_union), or a value of it.
///
/// ```
/// use esker_iter::operator::set;
/// let fruit = set::encode(["pear", "apple", "pear"]);
/// assert_eq!(set::elements(&fruit).unwrap(), [b"apple".as_slice(), b"pear"]);
/// ```
pub fn encode<E: AsRef<[u8]>>(elements: impl IntoIterator<Item = E>) -> Vec<u8> {
    let elements: Vec<E> = elements.into_iter().collect();
    let sorted: BTreeSet<&[u8]> = elements.iter().map(AsRef::as_ref).collect();
    encode_sorted(&sorted)
}

fn encode_sorted(elements: &BTreeSet<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(elements.iter().map(|element| element.len() + 2).sum());
    for element in elements {
        put_prefixed(&mut bytes, element);
    }
    bytes
}

/// The elements of an encoded set, ascending. Linear in its length.
///
/// # Errors
/// `InvalidArgument` with the offset, if the bytes are not an encoding of [`encode`].
pub fn elements(set: &[u8]) -> Result<Vec<&[u8]>> {
    decode(set).map_err(|error| Error::invalid(error.to_string()))
}

fn decode(set: &[u8]) -> std::result::Result<Vec<&[u8]>, MergeError> {
    let mut reader = Reader::new(set);
    let mut elements: Vec<&[u8]> = Vec::new();
    while !reader.is_empty() {
        let at = reader.position();
        let Some(element) = reader.prefixed() else {
            return Err(format!("not a set: the element at byte {at} is cut off").into());
        };
        if reader.position() - at != varint_len(element.len() as u64) + element.len() {
            return Err(format!("not a set: the length at byte {at} takes more bytes than it needs").into());
        }
        if elements.last().is_some_and(|last| *last >= element) {
            return Err(
                format!("not a set: the element at byte {at} is not greater than the one before").into()
            );
        }
        elements.push(element);
    }
    Ok(elements)
}

#[derive(Debug)]
pub(super) struct Union;

impl Merge for Union {
    fn name(&self) -> &str {
        "set-union"
    }

    fn merge(
        &self,
        _: &[u8],
        value: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, MergeError> {
        let mut union = BTreeSet::new();
        for set in value.iter().chain(operands) {
            union.extend(decode(set)?);
        }
        Ok(encode_sorted(&union))
    }

    fn merge_operands(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands).ok()
    }

    fn check_operand(&self, operand: &[u8]) -> std::result::Result<(), MergeError> {
        decode(operand).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_hold_every_element_once() {
        let (ab, bc) = (encode(["b", "a"]), encode(["c", "b"]));
        let union = Union.merge(b"", Some(&ab), &[&bc, &encode([""]), &encode([""; 0])]).unwrap();
        assert_eq!(elements(&union).unwrap(), [b"".as_slice(), b"a", b"b", b"c"]);
        assert_eq!(union, b"\x00\x01a\x01b\x01c");
        assert!(elements(b"").unwrap().is_empty());
    }

    #[test]
    fn invalid_sets_are_named() {
        for (wrong, told) in [
            (b"\x05ab".as_slice(), "at byte 0 is cut off"),
            (b"\x01b\x01a", "at byte 2 is not greater"),
            (b"\x01a\x01a", "at byte 2 is not greater"),
            (b"\x01a\xff", "at byte 2 is cut off"),
            (b"\x81\x00a", "at byte 0 takes more bytes"),
        ] {
            let error = Union.check_operand(wrong).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            assert!(Union.merge(b"", Some(wrong), &[b""]).is_err() && elements(wrong).is_err());
        }
    }
}
