//! Iteration over the fields of a dictionary, wherever they lie.

use super::elements::place_of;
use crate::types::malformed;
use crate::types::packed::take_string;
use esker::{BatchRange, Result, Value};
use esker_resp::integer::write_integer;
use std::ops::Deref;

/// Bytes of a field or of a value: a part of the record, or of what was read or made for it.
#[derive(Clone, Debug)]
pub enum Piece<'a> {
    /// A part of the record.
    Slice(&'a [u8]),
    /// A value from this offset on.
    Stored(Value, usize),
}

impl Piece<'_> {
    /// A whole value.
    pub(super) fn stored(value: Value) -> Self {
        Self::Stored(value, 0)
    }
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Stored(value, from) => &value[*from..],
        }
    }
}

/// Fields with their values; the values of a set are empty.
#[derive(Debug)]
pub struct Items<'t>(Source<'t>);

#[derive(Debug)]
enum Source<'t> {
    Strings { rest: &'t [u8], has_values: bool },
    Integers { width: usize, rest: &'t [u8] },
    Elements(Box<BatchRange<'t>>),
}

impl<'t> Items<'t> {
    pub(super) fn strings(rest: &'t [u8], has_values: bool) -> Self {
        Self(Source::Strings { rest, has_values })
    }

    pub(super) fn integers(width: usize, rest: &'t [u8]) -> Self {
        Self(Source::Integers { width, rest })
    }

    pub(super) fn elements(range: BatchRange<'t>) -> Self {
        Self(Source::Elements(Box::new(range)))
    }
}

impl<'t> Iterator for Items<'t> {
    type Item = Result<(Piece<'t>, Piece<'t>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Strings { rest: [], .. } => None,
            Source::Strings { rest, has_values } => {
                let item = take_pair(rest, *has_values);
                if item.is_none() {
                    *rest = &[];
                }
                Some(item.ok_or_else(|| malformed("packed hash or set")))
            }
            Source::Integers { width, rest } => {
                let integer = integers(*width, rest).next()?;
                *rest = &rest[*width..];
                let mut digits = Vec::with_capacity(20);
                write_integer(integer, &mut digits);
                Some(Ok((Piece::stored(Value::owned(digits)), Piece::Slice(&[]))))
            }
            Source::Elements(range) => Some(range.next()?.and_then(|(key, value)| {
                let (_, field) = place_of(&key).ok_or_else(|| malformed("element"))?;
                let from = key.len() - field.len();
                Ok((Piece::Stored(key, from), Piece::stored(value)))
            })),
        }
    }
}

fn take_pair<'t>(rest: &mut &'t [u8], has_values: bool) -> Option<(Piece<'t>, Piece<'t>)> {
    let field = take_string(rest)?;
    let value = if has_values { take_string(rest)? } else { &[] };
    Some((Piece::Slice(field), Piece::Slice(value)))
}

/// Integers of `width` bytes each, signed and little-endian.
pub(super) fn integers(width: usize, bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.chunks_exact(width).map(|bytes| {
        let mut high = [0; 8];
        high[8 - bytes.len()..].copy_from_slice(bytes);
        i64::from_le_bytes(high) >> (64 - 8 * bytes.len())
    })
}

/// Appends the bytes of one integer and all of its kind: the least width that holds all, and the integers.
pub(super) fn push_integers(integers: &[i64], out: &mut Vec<u8>) {
    let fits = |bits: u32| integers.iter().all(|n| n << (64 - bits) >> (64 - bits) == *n);
    let width = if fits(16) {
        2
    } else if fits(32) {
        4
    } else {
        8
    };
    out.push(width as u8);
    for integer in integers {
        out.extend_from_slice(&integer.to_le_bytes()[..width]);
    }
}
