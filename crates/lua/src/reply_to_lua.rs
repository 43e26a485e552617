//! Replies of commands as values of Lua.
//!
//! | reply | value |
//! |---|---|
//! | integer, bulk, array | number, string, table from 1 |
//! | null of RESP2, null of RESP3 | `false`, nil |
//! | status, error | `{ok=}`, `{err=}` |
//! | double, big number, verbatim | `{double=}`, `{big_number=}`, `{verbatim_string={format=,string=}}` |
//! | map, set | `{map={}}`, `{set={[member]=true}}` |
//! | boolean | boolean |

use crate::raise::Raise;
use esker_resp::integer::parse_integer;
use mlua::{Lua, Table, Value};

/// No reply of a command is nested deeper.
const DEEPEST: usize = 64;

/// Reads one reply. Attributes are left out.
pub(crate) fn read(lua: &Lua, reply: &[u8]) -> Result<Value, Raise> {
    ReplyReader { lua, rest: reply, depth: 0 }.value()
}

/// The table of an error. A text without a code gets `ERR`.
pub(crate) fn error_table(lua: &Lua, text: &[u8]) -> Result<Table, Raise> {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = text.len() - text.iter().rev().take_while(|byte| is_end(byte)).count();
    let text = &text[..end];
    let table = lua.create_table()?;
    if text.contains(&b' ') {
        table.raw_set("err", lua.create_string(text)?)?;
    } else {
        table.raw_set("err", lua.create_string([b"ERR ", text].concat())?)?;
    }
    Ok(table)
}

struct ReplyReader<'r> {
    lua: &'r Lua,
    rest: &'r [u8],
    depth: usize,
}

fn broken() -> Raise {
    Raise::Message("the reply of the command is malformed".to_owned())
}

impl<'r> ReplyReader<'r> {
    fn line(&mut self) -> Result<&'r [u8], Raise> {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n").ok_or_else(broken)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 2..];
        Ok(line)
    }

    /// `length` bytes and the end of the line.
    fn bytes(&mut self, length: usize) -> Result<&'r [u8], Raise> {
        let bytes = self.rest.get(..length).ok_or_else(broken)?;
        self.rest = self.rest.get(length + 2..).ok_or_else(broken)?;
        Ok(bytes)
    }

    /// A count; `None` for `-1`.
    fn count(&mut self) -> Result<Option<usize>, Raise> {
        let count = parse_integer(self.line()?).ok_or_else(broken)?;
        Ok(usize::try_from(count).ok())
    }

    fn string(&self, bytes: &[u8]) -> Result<Value, Raise> {
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    /// A table with one field.
    fn table_of(&self, name: &str, value: Value) -> Result<Value, Raise> {
        let table = self.lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn value(&mut self) -> Result<Value, Raise> {
        let (&kind, rest) = self.rest.split_first().ok_or_else(broken)?;
        self.rest = rest;
        match kind {
            b'+' => {
                let text = self.line()?;
                self.table_of("ok", self.string(text)?)
            }
            b'-' => {
                let table = error_table(self.lua, self.line()?)?;
                table.raw_set("ignore_error_stats_update", true)?;
                Ok(Value::Table(table))
            }
            b':' => Ok(Value::Integer(parse_integer(self.line()?).ok_or_else(broken)?)),
            b'_' => self.line().map(|_| Value::Nil),
            b'#' => Ok(Value::Boolean(self.line()? == b"t")),
            b'$' | b'=' => self.bulk(kind),
            b',' => {
                let (number, _) = crate::numbers::read_number(self.line()?).ok_or_else(broken)?;
                self.table_of("double", Value::Number(number))
            }
            b'(' => {
                let digits = self.line()?;
                self.table_of("big_number", self.string(digits)?)
            }
            b'*' | b'%' | b'~' | b'>' | b'|' => self.aggregate(kind),
            _ => Err(broken()),
        }
    }

    fn bulk(&mut self, kind: u8) -> Result<Value, Raise> {
        let Some(length) = self.count()? else { return Ok(Value::Boolean(false)) };
        let bytes = self.bytes(length)?;
        if kind == b'$' {
            return self.string(bytes);
        }
        if bytes.get(3) != Some(&b':') {
            return Err(broken());
        }
        let verbatim = self.lua.create_table()?;
        verbatim.raw_set("string", self.string(&bytes[4..])?)?;
        verbatim.raw_set("format", self.string(&bytes[..3])?)?;
        self.table_of("verbatim_string", Value::Table(verbatim))
    }

    fn aggregate(&mut self, kind: u8) -> Result<Value, Raise> {
        let Some(count) = self.count()? else { return Ok(Value::Boolean(false)) };
        if self.depth == DEEPEST {
            return Err(broken());
        }
        self.depth += 1;
        let value = match kind {
            b'%' => self.map(count),
            b'~' => self.set(count),
            b'|' => {
                for _ in 0..count.saturating_mul(2) {
                    self.value()?;
                }
                self.value()
            }
            _ => self.array(count),
        };
        self.depth -= 1;
        value
    }

    fn array(&mut self, count: usize) -> Result<Value, Raise> {
        let table = self.lua.create_table()?;
        for place in 1..=count {
            table.raw_set(place, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize) -> Result<Value, Raise> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let key = self.value()?;
            table.raw_set(key, self.value()?)?;
        }
        self.table_of("map", Value::Table(table))
    }

    fn set(&mut self, count: usize) -> Result<Value, Raise> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            table.raw_set(self.value()?, true)?;
        }
        self.table_of("set", Value::Table(table))
    }
}
