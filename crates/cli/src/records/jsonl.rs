//! JSON lines: an object a line, with the members `key` and `value`.
//!
//! A member is a string, or with `--key int` and `--value int` a number. Bytes that are not text are written
//! as hexadecimal digits in the member `key_hex` or `value_hex` instead. Other members are ignored.

use super::lines::{Line, Lines, without_end};
use super::{ReadError, Record, RecordReader, RecordWriter};
use crate::args::Shape;
use crate::failure::Failure;
use crate::format::Format;
use crate::json::write_json_pair;
use serde_json::Value;
use std::io::{Read, Write};

pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    shape: Shape,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: Box<dyn Read + 'a>, shape: &Shape) -> Reader<'a> {
        Reader { lines: Lines::new(input), shape: shape.clone() }
    }

    fn parse(&self, line: &[u8]) -> Result<Record, String> {
        let object: Value = serde_json::from_slice(line).map_err(|error| format!("no JSON: {error}"))?;
        if !object.is_object() {
            return Err("an object with the members \"key\" and \"value\" expected".into());
        }
        Ok(Record {
            key: member(&object, "key", self.shape.key)?,
            value: member(&object, "value", self.shape.value)?,
        })
    }
}

fn member(object: &Value, name: &str, format: Format) -> Result<Vec<u8>, String> {
    let hex_name = format!("{name}_hex");
    match (object.get(name), object.get(&hex_name), format) {
        (Some(_), Some(_), _) => Err(format!("both {name:?} and {hex_name:?}")),
        (Some(Value::String(text)), None, _) => {
            format.parse(text.as_bytes()).map_err(|reason| format!("{name}: {reason}"))
        }
        (Some(Value::Number(number)), None, Format::Int) => {
            format.parse(number.to_string().as_bytes()).map_err(|reason| format!("{name}: {reason}"))
        }
        (Some(Value::Number(_)), None, _) => {
            Err(format!("{name:?} is a number; write a string, or give --{name} int"))
        }
        (Some(_), None, _) => Err(format!("{name:?} is no string")),
        (None, Some(Value::String(digits)), _) => {
            Format::Hex.parse(digits.as_bytes()).map_err(|reason| format!("{hex_name}: {reason}"))
        }
        (None, Some(_), _) => Err(format!("{hex_name:?} is no string")),
        (None, None, _) => Err(format!("no member {name:?}")),
    }
}

impl RecordReader for Reader<'_> {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let next = self.lines.next()?;
            let number = self.lines.number();
            let bad = |reason| ReadError::Bad { number, reason };
            match next {
                None => return Ok(None),
                Some(Line::TooLong) => return Err(bad("the line is longer than any pair can be".into())),
                Some(Line::Text(line)) if without_end(&line).is_empty() => {}
                Some(Line::Text(line)) => return self.parse(&line).map(Some).map_err(bad),
            }
        }
    }

    fn number(&self) -> u64 {
        self.lines.number()
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

pub(super) struct Writer {
    pub(super) shape: Shape,
}

impl RecordWriter for Writer {
    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        write_json_pair(out, &self.shape, key, value)
    }
}
