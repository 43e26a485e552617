//! JSON text as values of Lua. Nesting is kept in a list, so that the stack does not grow with the text.
//!
//! The text ends at its first zero, as a string of C.

use crate::json_settings::{DEEPEST, Settings};
use crate::lua_to_reply::c_string;
use crate::numbers::read_number;
use crate::raise::Raise;
use crate::state::State;
use mlua::{Lua, LuaString, Table, Value};

/// The value of `text`.
pub(super) fn decode(lua: &Lua, state: &State, settings: &Settings, text: &[u8]) -> Result<Value, Raise> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Raise::Message("JSON parser does not support UTF-16 or UTF-32".to_owned()));
    }
    let tokens = Tokens { text: c_string(text), place: 0, invalid_numbers: settings.decodes_invalid_numbers };
    let deepest = usize::try_from(settings.decode_depth.min(DEEPEST)).unwrap_or(1);
    let mut decoder = Decoder { lua, state, tokens, open: Vec::new(), deepest };
    let value = decoder.value()?;
    let token = decoder.tokens.next();
    if token.kind == Kind::End { Ok(value) } else { Err(unexpected("the end", &token)) }
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(why) => why,
        }
    }
}

struct Token {
    kind: Kind,
    /// Where it begins, or where it is wrong.
    place: usize,
}

fn unexpected(expected: &str, token: &Token) -> Raise {
    let (found, place) = (token.kind.name(), token.place + 1);
    Raise::Message(format!("Expected {expected} but found {found} at character {place}"))
}

struct Tokens<'t> {
    text: &'t [u8],
    place: usize,
    invalid_numbers: bool,
}

impl Tokens<'_> {
    /// The byte so many behind the place; zero behind the text.
    fn at(&self, distance: usize) -> u8 {
        self.text.get(self.place + distance).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.place..).unwrap_or_default()
    }

    fn next(&mut self) -> Token {
        while matches!(self.at(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.place += 1;
        }
        let place = self.place;
        let kind = match self.at(0) {
            b'{' => self.skip(1, Kind::ObjectBegin),
            b'}' => self.skip(1, Kind::ObjectEnd),
            b'[' => self.skip(1, Kind::ArrayBegin),
            b']' => self.skip(1, Kind::ArrayEnd),
            b',' => self.skip(1, Kind::Comma),
            b':' => self.skip(1, Kind::Colon),
            0 => Kind::End,
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.invalid_numbers && is_invalid_number(self.rest()) {
                    Kind::Error("invalid number")
                } else {
                    self.number()
                }
            }
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => self.word(),
            _ => Kind::Error("invalid token"),
        };
        let is_wrong = matches!(kind, Kind::Error(_));
        Token { kind, place: if is_wrong { self.place } else { place } }
    }

    fn skip(&mut self, length: usize, kind: Kind) -> Kind {
        self.place += length;
        kind
    }

    fn word(&mut self) -> Kind {
        if self.rest().starts_with(b"true") {
            self.skip(4, Kind::Boolean(true))
        } else if self.rest().starts_with(b"false") {
            self.skip(5, Kind::Boolean(false))
        } else if self.rest().starts_with(b"null") {
            self.skip(4, Kind::Null)
        } else if self.invalid_numbers && is_invalid_number(self.rest()) {
            self.number()
        } else {
            Kind::Error("invalid token")
        }
    }

    fn number(&mut self) -> Kind {
        match read_number(self.rest()) {
            Some((number, length)) => self.skip(length, Kind::Number(number)),
            None => Kind::Error("invalid number"),
        }
    }

    fn string(&mut self) -> Kind {
        self.place += 1;
        let mut string = Vec::new();
        loop {
            let plain = self.rest().iter().take_while(|byte| !matches!(byte, b'"' | b'\\')).count();
            string.extend_from_slice(&self.rest()[..plain]);
            self.place += plain;
            match (self.at(0), self.at(1)) {
                (b'"', _) => return self.skip(1, Kind::String(string)),
                (0, _) => return Kind::Error("unexpected end of string"),
                (_, b'u') => match self.unicode_escape() {
                    Some((character, length)) => {
                        string.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        self.place += length;
                    }
                    None => return Kind::Error("invalid unicode escape code"),
                },
                (_, letter) => {
                    let Some(byte) = escaped(letter) else { return Kind::Error("invalid escape code") };
                    string.push(byte);
                    self.place += 2;
                }
            }
        }
    }

    /// The character of `\uXXXX`, or of two of them that are a surrogate pair, and its length.
    fn unicode_escape(&self) -> Option<(char, usize)> {
        let first = self.four_digits(2)?;
        if first & 0xF800 != 0xD800 {
            return Some((char::from_u32(first)?, 6));
        }
        if first & 0x400 != 0 || self.at(6) != b'\\' || self.at(7) != b'u' {
            return None;
        }
        let second = self.four_digits(8)?;
        if second & 0xFC00 != 0xDC00 {
            return None;
        }
        let code = ((first & 0x3FF) << 10 | second & 0x3FF) + 0x1_0000;
        Some((char::from_u32(code)?, 12))
    }

    fn four_digits(&self, distance: usize) -> Option<u32> {
        (distance..distance + 4)
            .try_fold(0, |value, place| Some(value << 4 | char::from(self.at(place)).to_digit(16)?))
    }
}

fn escaped(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\\' | b'/' => letter,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'f' => 0x0C,
        b'r' => b'\r',
        _ => return None,
    })
}

/// Whether a number that C reads is none of JSON.
fn is_invalid_number(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match (text.first().copied().unwrap_or(0), text.get(1).copied().unwrap_or(0)) {
        (b'0', second) => second.eq_ignore_ascii_case(&b'x') || second.is_ascii_digit(),
        (first, _) if first <= b'9' => false,
        _ => {
            let start = text.get(..3).unwrap_or_default();
            start.eq_ignore_ascii_case(b"inf") || start.eq_ignore_ascii_case(b"nan")
        }
    }
}

/// An array or object whose end has not come yet.
struct Open {
    table: Table,
    /// Of an object: the key of the next value.
    key: Option<LuaString>,
    length: i64,
}

struct Decoder<'d> {
    lua: &'d Lua,
    state: &'d State,
    tokens: Tokens<'d>,
    open: Vec<Open>,
    deepest: usize,
}

impl Decoder<'_> {
    /// The value that begins here, with all that it holds.
    fn value(&mut self) -> Result<Value, Raise> {
        let mut token = self.tokens.next();
        loop {
            self.state.count_element()?;
            let mut value = match token.kind {
                Kind::String(ref string) => Value::String(self.lua.create_string(string)?),
                Kind::Number(number) => Value::Number(number),
                Kind::Boolean(value) => Value::Boolean(value),
                Kind::Null => Value::NULL,
                Kind::ObjectBegin | Kind::ArrayBegin => match self.begin(token.kind == Kind::ObjectBegin)? {
                    Opened::Empty(table) => Value::Table(table),
                    Opened::First(first) => {
                        token = first;
                        continue;
                    }
                },
                _ => return Err(unexpected("value", &token)),
            };
            loop {
                let Some(open) = self.open.last_mut() else { return Ok(value) };
                match open.key.take() {
                    Some(key) => open.table.raw_set(key, value)?,
                    None => {
                        open.length += 1;
                        open.table.raw_set(open.length, value)?;
                    }
                }
                match self.after_value()? {
                    Some(next) => {
                        token = next;
                        break;
                    }
                    None => {
                        let Some(closed) = self.open.pop() else { return Ok(Value::Nil) };
                        value = Value::Table(closed.table);
                    }
                }
            }
        }
    }

    /// Opens an array or object.
    fn begin(&mut self, is_object: bool) -> Result<Opened, Raise> {
        let depth = self.open.len() + 1;
        if depth > self.deepest {
            let place = self.tokens.place;
            let text = format!("Found too many nested data structures ({depth}) at character {place}");
            return Err(Raise::Message(text));
        }
        let table = self.lua.create_table()?;
        let token = self.tokens.next();
        if token.kind == if is_object { Kind::ObjectEnd } else { Kind::ArrayEnd } {
            return Ok(Opened::Empty(table));
        }
        self.open.push(Open { table, key: None, length: if is_object { -1 } else { 0 } });
        Ok(Opened::First(if is_object { self.key(&token)? } else { token }))
    }

    /// Takes a key and its colon; returns the token of the value.
    fn key(&mut self, token: &Token) -> Result<Token, Raise> {
        let Kind::String(key) = &token.kind else { return Err(unexpected("object key string", token)) };
        let key = self.lua.create_string(key)?;
        if let Some(open) = self.open.last_mut() {
            open.key = Some(key);
        }
        let colon = self.tokens.next();
        if colon.kind != Kind::Colon {
            return Err(unexpected("colon", &colon));
        }
        Ok(self.tokens.next())
    }

    /// The token of the next value of what is open; `None` at its end.
    fn after_value(&mut self) -> Result<Option<Token>, Raise> {
        let is_object = self.open.last().is_some_and(|open| open.length < 0);
        let (end, expected) = if is_object {
            (Kind::ObjectEnd, "comma or object end")
        } else {
            (Kind::ArrayEnd, "comma or array end")
        };
        let token = self.tokens.next();
        if token.kind == end {
            return Ok(None);
        }
        if token.kind != Kind::Comma {
            return Err(unexpected(expected, &token));
        }
        let next = self.tokens.next();
        Ok(Some(if is_object { self.key(&next)? } else { next }))
    }
}

/// An array or object that was opened.
enum Opened {
    Empty(Table),
    /// The token of its first value.
    First(Token),
}
