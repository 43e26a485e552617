//! What a script returns as a reply: the other direction of `reply_to_lua`.
//!
//! Numbers lose their fraction, and an array ends at its first nil.

use crate::numbers::to_i64;
use esker_resp::writer::{Aggregate, Protocol, ReplyWriter};
use mlua::{Table, Value};

/// What is nested deeper becomes an error in its place. Tables may contain themselves.
const DEEPEST: usize = 1_000;

/// Why there is no reply.
pub(crate) enum Failure {
    /// It would be too long.
    TooLong,
    /// Lua could not read a table, for want of memory.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// Writes replies of one script.
pub(crate) struct ReplyConverter<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    /// What the client speaks.
    pub(crate) client: Protocol,
    /// What the script chose: in RESP2 `false` is null.
    pub(crate) script: Protocol,
    /// `out` grows no longer.
    pub(crate) longest: usize,
}

impl ReplyConverter<'_> {
    fn writer(&mut self) -> ReplyWriter<'_> {
        ReplyWriter::new(self.out, self.client)
    }

    /// Appends the reply for `value`.
    pub(crate) fn write(&mut self, value: &Value, depth: usize) -> Result<(), Failure> {
        if self.out.len() > self.longest {
            return Err(Failure::TooLong);
        }
        match value {
            Value::String(string) => self.writer().bulk(&string.as_bytes()),
            Value::Boolean(value) => match (self.script, value) {
                (Protocol::Resp2, true) => self.writer().integer(1),
                (Protocol::Resp2, false) => self.writer().null(),
                (Protocol::Resp3, value) => self.writer().boolean(*value),
            },
            Value::Integer(integer) => self.writer().integer(*integer),
            Value::Number(number) => self.writer().integer(to_i64(*number)),
            Value::Table(_) if depth == DEEPEST => self.writer().error(b"ERR reached lua stack limit"),
            Value::Table(table) => self.table(table, depth)?,
            _ => self.writer().null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Failure> {
        if let Value::String(text) = table.raw_get("err")? {
            self.writer().error(c_string(&text.as_bytes()));
        } else if let Value::String(text) = table.raw_get("ok")? {
            self.writer().status(c_string(&text.as_bytes()));
        } else if let Some(number) = number_of(&table.raw_get("double")?) {
            self.writer().double(number);
        } else if let Value::String(digits) = table.raw_get("big_number")? {
            self.writer().big_number(&digits.as_bytes());
        } else if let Some((format, text)) = verbatim(table)? {
            self.writer().verbatim(format, &text.as_bytes());
        } else if let Value::Table(map) = table.raw_get("map")? {
            self.map(&map, depth)?;
        } else if let Value::Table(set) = table.raw_get("set")? {
            self.set(&set, depth)?;
        } else {
            self.array(table, depth)?;
        }
        Ok(())
    }

    fn map(&mut self, map: &Table, depth: usize) -> Result<(), Failure> {
        let place = self.writer().reserve(Aggregate::Map, 0);
        let mut count = 0;
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.write(&key, depth + 1)?;
            self.write(&value, depth + 1)?;
            count += 1;
        }
        self.writer().fill(place, count);
        Ok(())
    }

    fn set(&mut self, set: &Table, depth: usize) -> Result<(), Failure> {
        let place = self.writer().reserve(Aggregate::Set, 0);
        let mut count = 0;
        for pair in set.pairs::<Value, Value>() {
            self.write(&pair?.0, depth + 1)?;
            count += 1;
        }
        self.writer().fill(place, count);
        Ok(())
    }

    fn array(&mut self, table: &Table, depth: usize) -> Result<(), Failure> {
        let place = self.writer().reserve(Aggregate::Array, table.raw_len());
        let mut count = 0;
        loop {
            let value: Value = table.raw_get(count + 1)?;
            if value.is_nil() {
                break;
            }
            self.write(&value, depth + 1)?;
            count += 1;
        }
        self.writer().fill(place, count);
        Ok(())
    }
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// The format, filled up with spaces to three bytes, and the text of `verbatim_string`.
fn verbatim(table: &Table) -> mlua::Result<Option<([u8; 3], mlua::LuaString)>> {
    let Value::Table(verbatim) = table.raw_get("verbatim_string")? else { return Ok(None) };
    let (Value::String(format), Value::String(text)) =
        (verbatim.raw_get("format")?, verbatim.raw_get("string")?)
    else {
        return Ok(None);
    };
    let mut three = [b' '; 3];
    for (place, byte) in three.iter_mut().zip(c_string(&format.as_bytes())) {
        *place = *byte;
    }
    Ok(Some((three, text)))
}

/// The bytes before the first zero: messages are strings of C.
pub(crate) fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
