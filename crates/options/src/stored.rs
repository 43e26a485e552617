//! The stored form of options: a list of `name, type, value`, so that a file explains itself.

use esker_base::coding::{Reader, put_prefixed, put_varint};
use esker_base::{Error, Result};
use std::fmt;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// Type 1: a varint.
    Number(u64),
    /// Type 2: length and UTF-8 text.
    Text(&'a str),
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Number(value) => value.fmt(f),
            Field::Text(text) => text.fmt(f),
        }
    }
}

/// Appends one option.
pub(super) fn put(out: &mut Vec<u8>, name: &str, field: &Field<'_>) {
    put_prefixed(out, name.as_bytes());
    match field {
        Field::Number(value) => {
            out.push(1);
            put_varint(out, *value);
        }
        Field::Text(text) => {
            out.push(2);
            put_prefixed(out, text.as_bytes());
        }
    }
}

/// All options in `bytes`.
pub(super) fn fields(bytes: &[u8]) -> Result<Vec<(&str, Field<'_>)>> {
    let mut reader = Reader::new(bytes);
    let mut fields = Vec::new();
    while !reader.is_empty() {
        let at = reader.position();
        let field = read(&mut reader).ok_or_else(|| {
            Error::Unsupported(format!("stored options end unexpectedly at byte {at}").into())
        })?;
        fields.push(field);
    }
    Ok(fields)
}

fn read<'a>(reader: &mut Reader<'a>) -> Option<(&'a str, Field<'a>)> {
    let name = std::str::from_utf8(reader.prefixed()?).ok()?;
    let field = match reader.u8()? {
        1 => Field::Number(reader.varint()?),
        2 => Field::Text(std::str::from_utf8(reader.prefixed()?).ok()?),
        _ => return None,
    };
    Some((name, field))
}
