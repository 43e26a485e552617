//! Keys of elements that are placed by the hash of their field: object, hash, field.

use crate::layout::{MAX_MEMBER_BYTES, object_range};
use crate::store::Store;
use esker::{Error, Result};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of object and hash.
const PREFIX_BYTES: usize = 16;

/// The hash that places a field.
pub fn hash_of(store: &Store, field: &[u8]) -> u64 {
    xxh3_64_with_seed(field, store.hash_seed())
}

/// The key of an element; `None` if the field is so long that it cannot be stored, and so is absent.
pub fn element_key(store: &Store, object: u64, field: &[u8]) -> Option<Vec<u8>> {
    if field.len() > MAX_MEMBER_BYTES {
        return None;
    }
    let mut key = Vec::with_capacity(PREFIX_BYTES + field.len());
    key.extend_from_slice(&object.to_be_bytes());
    key.extend_from_slice(&hash_of(store, field).to_be_bytes());
    key.extend_from_slice(field);
    Some(key)
}

/// Hash and field of an element's key.
pub fn place_of(key: &[u8]) -> Option<(u64, &[u8])> {
    let (prefix, field) = key.split_at_checked(PREFIX_BYTES)?;
    Some((u64::from_be_bytes(prefix[8..].try_into().ok()?), field))
}

/// The keys of all elements of an object, from the first to below the second.
pub fn range_of(object: u64) -> (Vec<u8>, Vec<u8>) {
    object_range(object)
}

/// The keys of an object's elements from a hash on.
pub fn range_from(object: u64, hash: u64) -> Range<Vec<u8>> {
    prefix(object, hash)..range_of(object).1
}

/// The keys of an object's elements from one hash to another, that included.
pub fn hash_range(object: u64, first: u64, last: u64) -> Range<Vec<u8>> {
    let end = last.checked_add(1).map_or_else(|| range_of(object).1, |end| prefix(object, end));
    prefix(object, first)..end
}

fn prefix(object: u64, hash: u64) -> Vec<u8> {
    [object.to_be_bytes(), hash.to_be_bytes()].concat()
}

/// Checks that fields or members can be stored. Commands do it before they change anything.
///
/// # Errors
/// `InvalidArgument` for one that is longer than [`MAX_MEMBER_BYTES`].
pub fn check_lengths<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
    match fields.into_iter().find(|field| field.len() > MAX_MEMBER_BYTES) {
        None => Ok(()),
        Some(field) => {
            let length = field.len();
            let text = format!("a field or member has {length} bytes; the longest has {MAX_MEMBER_BYTES}");
            Err(Error::InvalidArgument(text.into()))
        }
    }
}
