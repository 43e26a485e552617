//! Values of Lua as MessagePack.

use crate::numbers::{to_i32, to_i64};
use crate::raise::{Arguments, Raise, Returned, one, text};
use crate::state::State;
use mlua::{Lua, Table, Value};
use std::rc::Rc;

/// Tables nested deeper become nil.
const DEEPEST: usize = 16;

/// All arguments, one behind the other.
pub(super) fn pack(lua: &Lua, state: &Rc<State>, arguments: &Arguments) -> Returned {
    if arguments.len() == 0 {
        return Err(Raise::Argument(0, "MessagePack pack needs input.".to_owned()));
    }
    let mut packer = Packer { state, out: Vec::new() };
    for value in arguments.all() {
        packer.value(value, 0)?;
    }
    one(text(lua, &packer.out)?)
}

struct Packer<'p> {
    state: &'p State,
    out: Vec<u8>,
}

/// An index: a positive integer that a C int holds.
fn index(key: &Value) -> Option<i32> {
    let key = match key {
        Value::Integer(integer) => *integer as f64,
        Value::Number(number) => *number,
        _ => return None,
    };
    (key > 0.0 && key.is_finite() && f64::from(to_i32(key)) == key).then(|| to_i32(key))
}

impl Packer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Raise> {
        self.state.count_element()?;
        self.state.check_string(self.out.len())?;
        match value {
            Value::String(string) => self.string(&string.as_bytes()),
            Value::Boolean(value) => {
                self.out.push(0xC2 + u8::from(*value));
                Ok(())
            }
            Value::Integer(integer) => {
                self.integer(*integer);
                Ok(())
            }
            Value::Number(number) => {
                self.number(*number);
                Ok(())
            }
            Value::Table(table) if depth < DEEPEST => self.table(table, depth),
            _ => {
                self.out.push(0xC0);
                Ok(())
            }
        }
    }

    /// `first` and the bytes behind it.
    fn put(&mut self, first: u8, bytes: &[u8]) {
        self.out.push(first);
        self.out.extend_from_slice(bytes);
    }

    fn string(&mut self, string: &[u8]) -> Result<(), Raise> {
        self.state.check_string(self.out.len().saturating_add(string.len()))?;
        match string.len() {
            length @ ..32 => self.out.push(0xA0 | length as u8),
            length @ ..0x100 => self.put(0xD9, &[length as u8]),
            length @ ..0x1_0000 => self.put(0xDA, &(length as u16).to_be_bytes()),
            length => self.put(0xDB, &(length as u32).to_be_bytes()),
        }
        self.out.extend_from_slice(string);
        Ok(())
    }

    fn number(&mut self, number: f64) {
        if number.is_finite() && to_i64(number) as f64 == number {
            self.integer(to_i64(number));
        } else if f64::from(number as f32) == number {
            self.put(0xCA, &(number as f32).to_be_bytes());
        } else {
            self.put(0xCB, &number.to_be_bytes());
        }
    }

    fn integer(&mut self, integer: i64) {
        match integer {
            -32..=0x7F => self.out.push(integer as u8),
            0x80..=0xFF => self.put(0xCC, &[integer as u8]),
            0x100..=0xFFFF => self.put(0xCD, &(integer as u16).to_be_bytes()),
            0x1_0000..=0xFFFF_FFFF => self.put(0xCE, &(integer as u32).to_be_bytes()),
            0x1_0000_0000.. => self.put(0xCF, &integer.to_be_bytes()),
            -0x80..=-33 => self.put(0xD0, &[integer as u8]),
            -0x8000..=-0x81 => self.put(0xD1, &(integer as i16).to_be_bytes()),
            -0x8000_0000..=-0x8001 => self.put(0xD2, &(integer as i32).to_be_bytes()),
            _ => self.put(0xD3, &integer.to_be_bytes()),
        }
    }

    /// The header of an array or map: in the byte itself up to 15.
    fn header(&mut self, short: u8, long: u8, count: usize) {
        match count {
            0..=15 => self.out.push(short | count as u8),
            16..=0xFFFF => self.put(long, &(count as u16).to_be_bytes()),
            _ => self.put(long + 1, &(count as u32).to_be_bytes()),
        }
    }

    /// An array, if its keys are 1 to their number; otherwise a map.
    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Raise> {
        let (mut count, mut largest, mut is_array) = (0_usize, 0, true);
        for pair in table.pairs::<Value, Value>() {
            self.state.count_element()?;
            match index(&pair?.0) {
                Some(key) if is_array => largest = key.max(largest),
                _ => is_array = false,
            }
            count += 1;
        }
        if is_array && usize::try_from(largest) == Ok(count) {
            let length = table.raw_len();
            self.header(0x90, 0xDC, length);
            for place in 1..=length {
                self.value(&table.raw_get(place)?, depth + 1)?;
            }
            return Ok(());
        }
        self.header(0x80, 0xDE, count);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}
