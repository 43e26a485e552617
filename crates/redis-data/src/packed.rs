//! Element of a listpack or ziplist: an integer in few bytes, or a string.

use crate::strings::Strings;
use esker_resp::integer::parse_integer;

/// An element of a listpack or ziplist. `Integer(n)` is the string that is the decimal form of n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed<'a> {
    /// A string that is an integer.
    Integer(i64),
    /// Any string.
    String(&'a [u8]),
}

impl<'a> Packed<'a> {
    /// The smallest element for a string.
    pub fn of(string: &'a [u8]) -> Self {
        parse_integer(string).map_or(Self::String(string), Self::Integer)
    }

    /// The integer, from either form.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(number),
            Self::String(string) => parse_integer(string),
        }
    }

    /// Appends the element as a string.
    pub fn push_to(self, strings: &mut Strings) {
        match self {
            Self::Integer(number) => strings.push_decimal(number),
            Self::String(string) => strings.push(string),
        }
    }
}
