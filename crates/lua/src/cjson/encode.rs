//! Values of Lua as JSON text.

use crate::json_settings::{DEEPEST, InvalidNumbers, Settings};
use crate::numbers::{to_i32, write_general};
use crate::raise::{Raise, type_name};
use crate::state::State;
use mlua::{Table, Value};

/// The text of `value`.
pub(super) fn encode(state: &State, settings: &Settings, value: &Value) -> Result<Vec<u8>, Raise> {
    let mut encoder = Encoder { state, settings, out: Vec::new() };
    encoder.value(value, 0)?;
    Ok(encoder.out)
}

struct Encoder<'e> {
    state: &'e State,
    settings: &'e Settings,
    out: Vec<u8>,
}

fn refuse(value: &Value, reason: &str) -> Raise {
    Raise::Message(format!("Cannot serialise {}: {reason}", type_name(value)))
}

/// The number that a value is; strings are none.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: i32) -> Result<(), Raise> {
        self.state.count_element()?;
        self.state.check_string(self.out.len())?;
        match value {
            Value::String(string) => self.string(&string.as_bytes()),
            Value::Integer(_) | Value::Number(_) => self.number(value),
            Value::Boolean(true) => self.text(b"true"),
            Value::Boolean(false) => self.text(b"false"),
            Value::Nil => self.text(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.text(b"null"),
            Value::Table(table) => self.table(value, table, depth + 1),
            _ => Err(refuse(value, "type not supported")),
        }
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Raise> {
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn table(&mut self, value: &Value, table: &Table, depth: i32) -> Result<(), Raise> {
        if depth > self.settings.encode_depth.min(DEEPEST) {
            return Err(Raise::Message(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_length(value, table)? {
            Some(length) if length > 0 => self.array(table, length, depth),
            _ => self.object(table, depth),
        }
    }

    /// The largest index, if all keys are indexes.
    fn array_length(&self, value: &Value, table: &Table) -> Result<Option<i32>, Raise> {
        let (mut largest, mut items) = (0_i32, 0_i32);
        for pair in table.pairs::<Value, Value>() {
            self.state.count_element()?;
            match number(&pair?.0) {
                Some(key) if key.floor() == key && key >= 1.0 => {
                    if key > f64::from(largest) {
                        largest = to_i32(key);
                    }
                    items = items.wrapping_add(1);
                }
                _ => return Ok(None),
            }
        }
        let settings = self.settings;
        let is_sparse = settings.sparse_ratio > 0
            && largest > items.wrapping_mul(settings.sparse_ratio)
            && largest > settings.sparse_safe;
        if is_sparse && !settings.sparse_converts {
            return Err(refuse(value, "excessively sparse array"));
        }
        Ok(if is_sparse { None } else { Some(largest) })
    }

    fn array(&mut self, table: &Table, length: i32, depth: i32) -> Result<(), Raise> {
        self.out.push(b'[');
        for index in 1..=length {
            if index > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(index)?, depth)?;
        }
        self.text(b"]")
    }

    fn object(&mut self, table: &Table, depth: i32) -> Result<(), Raise> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(key) => self.string(&key.as_bytes())?,
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.number(&key)?;
                    self.out.push(b'"');
                }
                _ => return Err(refuse(&key, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.text(b"}")
    }

    fn number(&mut self, value: &Value) -> Result<(), Raise> {
        let number = number(value).unwrap_or_default();
        if !number.is_finite() {
            match self.settings.invalid_numbers {
                InvalidNumbers::Refuse => return Err(refuse(value, "must not be NaN or Inf")),
                InvalidNumbers::Write if number.is_nan() => return self.text(b"nan"),
                InvalidNumbers::Write => {}
                InvalidNumbers::Null => return self.text(b"null"),
            }
        }
        write_general(number, usize::try_from(self.settings.precision).unwrap_or(14), &mut self.out);
        Ok(())
    }

    fn string(&mut self, string: &[u8]) -> Result<(), Raise> {
        // At most six times as long.
        self.state.check_string(self.out.len().saturating_add(string.len()))?;
        self.out.push(b'"');
        for &byte in string {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                0x0C => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..=0x1F | 0x7F => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
        self.state.check_string(self.out.len())
    }
}
