//! The library `struct`: numbers and strings packed as bytes by a format.
//!
//! | letter | meaning |
//! |---|---|
//! | `>` `<` `!n` | big and little endian, alignment |
//! | `b` `h` `i`n `l`, `B` `H` `I`n `L` `T` | signed and unsigned integers |
//! | `f` `d` | float, double |
//! | `c`n `s` `x` | bytes, string with a zero behind it, padding |

use crate::define::Definer;
use crate::lua_to_reply::c_string;
use crate::numbers::to_i64;
use crate::raise::{Arguments, Raise, Returned, one, text, to_number};
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};
use std::rc::Rc;

/// Integers are at most so long.
const LONGEST_INTEGER: usize = 32;
/// What `!` alone aligns to.
const DEFAULT_ALIGNMENT: usize = 8;
/// Results that Lua's stack takes.
const MOST_RESULTS: usize = 7_990;

/// The library's table.
pub(crate) fn table(definer: &Definer<'_>) -> mlua::Result<Table> {
    let table = definer.lua.create_table()?;
    definer.define(&table, "pack", pack)?;
    definer.define(&table, "unpack", unpack)?;
    definer.define(&table, "size", size)?;
    Ok(table)
}

/// A format as it is read.
struct Format<'f> {
    rest: &'f [u8],
    big_endian: bool,
    alignment: usize,
}

/// A letter of a format and the bytes that it takes.
struct Item {
    letter: u8,
    size: usize,
}

impl<'f> Format<'f> {
    fn new(format: &'f [u8]) -> Self {
        Self { rest: c_string(format), big_endian: cfg!(target_endian = "big"), alignment: 1 }
    }

    /// The number that follows, or `default`.
    fn number(&mut self, default: usize) -> Result<usize, Raise> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        let mut value = 0_i32;
        for digit in digits {
            let next = value.checked_mul(10).and_then(|value| value.checked_add(i32::from(digit - b'0')));
            value = next.ok_or_else(|| Raise::Message("integral size overflow".to_owned()))?;
        }
        Ok(value as usize)
    }

    fn next(&mut self) -> Result<Option<Item>, Raise> {
        let Some((&letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match letter {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > LONGEST_INTEGER {
                    let text = format!("integral size {size} is larger than limit of {LONGEST_INTEGER}");
                    return Err(Raise::Message(text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { letter, size }))
    }

    /// The bytes before an item that starts at `place`.
    fn padding(&self, place: usize, item: &Item) -> usize {
        if item.size == 0 || item.letter == b'c' {
            return 0;
        }
        let size = item.size.min(self.alignment);
        let mask = size.wrapping_sub(1);
        size.wrapping_sub(place & mask) & mask
    }

    /// A letter that says how others are read.
    fn control(&mut self, letter: u8) -> Result<(), Raise> {
        match letter {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let alignment = self.number(DEFAULT_ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    return Err(Raise::Message(format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment;
            }
            other => {
                let shown = String::from_utf8_lossy(&[other]).into_owned();
                return Err(Raise::Argument(1, format!("invalid format option '{shown}'")));
            }
        }
        Ok(())
    }

    /// Bytes of the machine's order in the order of the format, and back.
    fn ordered<const N: usize>(&self, mut little_endian: [u8; N]) -> [u8; N] {
        if self.big_endian {
            little_endian.reverse();
        }
        little_endian
    }
}

fn pack(lua: &Lua, state: &Rc<State>, arguments: &Arguments) -> Returned {
    let format = arguments.string(lua, 1)?;
    let bytes = format.as_bytes();
    let mut format = Format::new(&bytes);
    let mut out = Vec::new();
    let mut argument = 1;
    while let Some(item) = format.next()? {
        state.count_element()?;
        let padding = format.padding(out.len(), &item);
        out.resize(out.len() + padding, 0);
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                argument += 1;
                put_integer(number(lua, arguments, argument)?, format.big_endian, item.size, &mut out);
            }
            b'x' => out.push(0),
            b'f' => {
                argument += 1;
                let value = number(lua, arguments, argument)? as f32;
                out.extend_from_slice(&format.ordered(value.to_le_bytes()));
            }
            b'd' => {
                argument += 1;
                let value = number(lua, arguments, argument)?;
                out.extend_from_slice(&format.ordered(value.to_le_bytes()));
            }
            b'c' | b's' => {
                argument += 1;
                let string =
                    arguments.string(lua, argument).map_err(|error| missing_is_nil(arguments, error))?;
                let string = string.as_bytes();
                let size = if item.size == 0 { string.len() } else { item.size };
                let Some(string) = string.get(..size) else {
                    return Err(Raise::Argument(argument + 1, "string too short".to_owned()));
                };
                state.check_string(out.len() + size)?;
                out.extend_from_slice(string);
                if item.letter == b's' {
                    out.push(0);
                }
            }
            other => format.control(other)?,
        }
        state.check_string(out.len())?;
    }
    one(text(lua, &out)?)
}

fn number(lua: &Lua, arguments: &Arguments, argument: usize) -> Result<f64, Raise> {
    arguments.number(lua, argument).map_err(|error| missing_is_nil(arguments, error))
}

/// The library of C has a nil behind the arguments, and says so of the first one that is missing.
fn missing_is_nil(arguments: &Arguments, error: Raise) -> Raise {
    match error {
        Raise::Argument(number, why) if number == arguments.len() + 1 => {
            Raise::Argument(number, why.replace("no value", "nil"))
        }
        other => other,
    }
}

/// The lower bytes of an integer, with zeros above 64 bits.
fn put_integer(value: f64, big_endian: bool, size: usize, out: &mut Vec<u8>) {
    let value = if value < 0.0 { to_i64(value) as u64 } else { to_u64(value) };
    let mut bytes = [0; LONGEST_INTEGER];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    if big_endian {
        out.extend(bytes[..size].iter().rev());
    } else {
        out.extend_from_slice(&bytes[..size]);
    }
}

/// `(unsigned long)value` as x86-64 converts it.
fn to_u64(value: f64) -> u64 {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if value >= TWO_TO_63 { (to_i64(value - TWO_TO_63) as u64) ^ (1 << 63) } else { to_i64(value) as u64 }
}

/// An integer of `bytes`: those above 64 bits are cut off.
fn get_integer(bytes: &[u8], big_endian: bool, is_signed: bool) -> Value {
    let mut value = 0_u64;
    let mut add = |byte: &u8| value = value << 8 | u64::from(*byte);
    if big_endian {
        bytes.iter().for_each(&mut add);
    } else {
        bytes.iter().rev().for_each(&mut add);
    }
    if !is_signed {
        return Value::Number(value as f64);
    }
    // The shift counts modulo 64, as that of the processor.
    let mask = u64::MAX << ((bytes.len() * 8).wrapping_sub(1) & 63);
    if value & mask != 0 {
        value |= mask;
    }
    Value::Number(value as i64 as f64)
}

fn unpack(lua: &Lua, state: &Rc<State>, arguments: &Arguments) -> Returned {
    let format = arguments.string(lua, 1)?;
    let bytes = format.as_bytes();
    let mut format = Format::new(&bytes);
    let data = arguments.string(lua, 2)?;
    let data = data.as_bytes();
    let place = arguments.integer_or(lua, 3, 1)? as u64;
    if place == 0 {
        return Err(Raise::Argument(3, "offset must be 1 or greater".to_owned()));
    }
    let too_short = || Raise::Argument(2, "data string too short".to_owned());
    let mut place = usize::try_from(place - 1).map_err(|_| too_short())?;
    let mut results = MultiValue::new();
    while let Some(Item { letter, mut size }) = format.next()? {
        state.count_element()?;
        place = place.wrapping_add(format.padding(place, &Item { letter, size }));
        let rest = data.get(place..).ok_or_else(too_short)?;
        let item = rest.get(..size).ok_or_else(too_short)?;
        if results.len() > MOST_RESULTS {
            return Err(Raise::Message("stack overflow (too many results)".to_owned()));
        }
        match letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                results.push_back(get_integer(item, format.big_endian, letter.is_ascii_lowercase()));
            }
            b'x' => {}
            b'f' => {
                let item = item.try_into().map_err(|_| too_short())?;
                results.push_back(Value::Number(f64::from(f32::from_le_bytes(format.ordered(item)))));
            }
            b'd' => {
                let item = item.try_into().map_err(|_| too_short())?;
                results.push_back(Value::Number(f64::from_le_bytes(format.ordered(item))));
            }
            b'c' => {
                if size == 0 {
                    size = size_before(lua, &mut results)?;
                }
                results.push_back(text(lua, rest.get(..size).ok_or_else(too_short)?)?);
            }
            b's' => {
                let Some(end) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(Raise::Message("unfinished string in data".to_owned()));
                };
                results.push_back(text(lua, &rest[..end])?);
                size = end + 1;
            }
            other => format.control(other)?,
        }
        place += size;
    }
    results.push_back(Value::Integer(place as i64 + 1));
    Ok(results)
}

/// The size of `c0`: the result before it, which is no result then.
fn size_before(lua: &Lua, results: &mut MultiValue) -> Result<usize, Raise> {
    let number = match results.back() {
        Some(value) => to_number(lua, value)?,
        None => None,
    };
    let Some(number) = number else {
        return Err(Raise::Message("format 'c0' needs a previous size".to_owned()));
    };
    results.pop_back();
    Ok(usize::try_from(to_u64(number)).unwrap_or(usize::MAX))
}

fn size(lua: &Lua, state: &Rc<State>, arguments: &Arguments) -> Returned {
    let format = arguments.string(lua, 1)?;
    let bytes = format.as_bytes();
    let mut format = Format::new(&bytes);
    let mut place = 0_usize;
    while let Some(item) = format.next()? {
        state.count_element()?;
        place = place.wrapping_add(format.padding(place, &item));
        if item.letter == b's' {
            return Err(Raise::Argument(1, "option 's' has no fixed size".to_owned()));
        }
        if item.letter == b'c' && item.size == 0 {
            return Err(Raise::Argument(1, "option 'c0' has no fixed size".to_owned()));
        }
        if !item.letter.is_ascii_alphanumeric() {
            format.control(item.letter)?;
        }
        place = place.wrapping_add(item.size);
    }
    one(Value::Integer(place as i64))
}
