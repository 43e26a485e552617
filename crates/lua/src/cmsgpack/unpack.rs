//! MessagePack as values of Lua. Nesting is kept in a list, so that the stack does not grow with the bytes,
//! and a count reserves nothing.

use crate::raise::{Arguments, Raise, Returned, text};
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};

/// Arrays and maps may be nested so deep: where Lua's stack ends in the library of C, nearly.
const DEEPEST: usize = 3_900;
/// Results that Lua's stack takes.
const MOST_RESULTS: usize = 7_990;

/// Values from `offset` on, at most `limit`; both zero: all. With a limit the first result is the next
/// offset, or -1 at the end.
pub(super) fn unpack(lua: &Lua, state: &State, arguments: &Arguments, limit: i64, offset: i64) -> Returned {
    let string = arguments.string(lua, 1)?;
    let bytes = string.as_bytes();
    let length = bytes.len();
    if offset < 0 || limit < 0 {
        let text =
            format!("Invalid request to unpack with offset of {} and limit of {length}.", offset as i32);
        return Err(Raise::Message(text));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else {
        let text = format!("Start offset {} greater than input length {length}.", offset as i32);
        return Err(Raise::Message(text));
    };
    let takes_all = limit == 0 && offset == 0;
    let mut reader = Unpacker { lua, state, rest };
    let mut results = MultiValue::new();
    while !reader.rest.is_empty() && (takes_all || (results.len() as i64) < limit) {
        if results.len() >= MOST_RESULTS {
            return Err(too_many());
        }
        results.push_back(reader.value()?);
    }
    if !takes_all {
        let next = if reader.rest.is_empty() { -1 } else { (length - reader.rest.len()) as i64 };
        results.push_front(Value::Integer(next));
    }
    Ok(results)
}

fn too_many() -> Raise {
    let why = "too many return values at once; use unpack_one or unpack_limit instead.";
    Raise::Message(format!("stack overflow ({why})"))
}

struct Unpacker<'r> {
    lua: &'r Lua,
    state: &'r State,
    rest: &'r [u8],
}

/// An array or map with elements still to come.
struct OpenCollection {
    table: Table,
    /// Of an array: the index before the next element.
    last: i64,
    kind: Collection,
    /// Of a map: the key of the next value.
    key: Option<Value>,
    missing: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Collection {
    Array,
    Map,
}

/// What a first byte began.
enum Began {
    Value(Value),
    Collection(Collection, u32),
}

impl Unpacker<'_> {
    fn bytes(&mut self, length: usize) -> Result<&[u8], Raise> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| Raise::Message("Missing bytes in input.".to_owned()))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Raise> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn string(&mut self, length: usize) -> Result<Began, Raise> {
        let lua = self.lua;
        Ok(Began::Value(text(lua, self.bytes(length)?)?))
    }

    /// One value with all that it holds.
    fn value(&mut self) -> Result<Value, Raise> {
        let mut open: Vec<OpenCollection> = Vec::new();
        loop {
            self.state.count_element()?;
            let mut value = match self.begin()? {
                Began::Value(value) => value,
                Began::Collection(kind, missing) => {
                    if open.len() >= DEEPEST {
                        return Err(too_many());
                    }
                    let table = self.lua.create_table()?;
                    if missing > 0 {
                        open.push(OpenCollection { table, last: 0, kind, key: None, missing });
                        continue;
                    }
                    Value::Table(table)
                }
            };
            loop {
                let Some(into) = open.last_mut() else { return Ok(value) };
                if !self.add(into, value)? {
                    break;
                }
                let Some(closed) = open.pop() else { return Ok(Value::Nil) };
                value = Value::Table(closed.table);
            }
        }
    }

    /// Adds an element; whether it was the last one.
    fn add(&self, into: &mut OpenCollection, value: Value) -> Result<bool, Raise> {
        match (into.kind, into.key.take()) {
            (Collection::Array, _) => {
                into.last += 1;
                into.table.raw_set(into.last, value)?;
            }
            (Collection::Map, None) => {
                into.key = Some(value);
                return Ok(false);
            }
            (Collection::Map, Some(Value::Nil)) => {
                return Err(Raise::Value(text(self.lua, b"table index is nil")?));
            }
            (Collection::Map, Some(Value::Number(number))) if number.is_nan() => {
                return Err(Raise::Value(text(self.lua, b"table index is NaN")?));
            }
            (Collection::Map, Some(key)) => into.table.raw_set(key, value)?,
        }
        into.missing -= 1;
        Ok(into.missing == 0)
    }

    fn begin(&mut self) -> Result<Began, Raise> {
        let [first] = self.array()?;
        let value = match first {
            0x00..=0x7F => Value::Integer(i64::from(first)),
            0xE0..=0xFF => Value::Integer(i64::from(first as i8)),
            0x80..=0x8F => return Ok(Began::Collection(Collection::Map, u32::from(first & 0xF))),
            0x90..=0x9F => return Ok(Began::Collection(Collection::Array, u32::from(first & 0xF))),
            0xA0..=0xBF => return self.string(usize::from(first & 0x1F)),
            0xC0 => Value::Nil,
            0xC2 | 0xC3 => Value::Boolean(first == 0xC3),
            0xCA => Value::Number(f64::from(f32::from_be_bytes(self.array()?))),
            0xCB => Value::Number(f64::from_be_bytes(self.array()?)),
            0xCC => Value::Integer(i64::from(self.array::<1>()?[0])),
            0xCD => Value::Integer(i64::from(u16::from_be_bytes(self.array()?))),
            0xCE => Value::Integer(i64::from(u32::from_be_bytes(self.array()?))),
            0xD0 => Value::Integer(i64::from(self.array::<1>()?[0] as i8)),
            0xD1 => Value::Integer(i64::from(i16::from_be_bytes(self.array()?))),
            0xD2 => Value::Integer(i64::from(i32::from_be_bytes(self.array()?))),
            // What is larger than the largest signed integer becomes negative, as in the library of C.
            0xCF | 0xD3 => Value::Integer(i64::from_be_bytes(self.array()?)),
            0xD9 => {
                let length = usize::from(self.array::<1>()?[0]);
                return self.string(length);
            }
            0xDA => {
                let length = usize::from(u16::from_be_bytes(self.array()?));
                return self.string(length);
            }
            0xDB => {
                let length = u32::from_be_bytes(self.array()?) as usize;
                return self.string(length);
            }
            0xDC => {
                return Ok(Began::Collection(
                    Collection::Array,
                    u32::from(u16::from_be_bytes(self.array()?)),
                ));
            }
            0xDD => return Ok(Began::Collection(Collection::Array, u32::from_be_bytes(self.array()?))),
            0xDE => {
                return Ok(Began::Collection(Collection::Map, u32::from(u16::from_be_bytes(self.array()?))));
            }
            0xDF => return Ok(Began::Collection(Collection::Map, u32::from_be_bytes(self.array()?))),
            0xC1 | 0xC4..=0xC9 | 0xD4..=0xD8 => {
                return Err(Raise::Message("Bad data format in input.".to_owned()));
            }
        };
        Ok(Began::Value(value))
    }
}
