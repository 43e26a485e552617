//! Parse errors, and how they are shown.

use std::fmt;

/// What is wrong with a line. Shown to the user behind `Error: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Nothing but white space.
    Blank,
    /// The first word is no command.
    UnknownCommand(Vec<u8>),
    /// The line ends too early.
    Missing {
        /// What should have followed.
        what: &'static str,
        /// Syntax of the command.
        usage: &'static str,
    },
    /// Something follows a complete command.
    Extra {
        /// Syntax of the command.
        usage: &'static str,
    },
    /// A bare word that is neither a number nor quoted.
    NotAScalar(Vec<u8>),
    /// Digits that do not fit a signed 64-bit integer.
    OutOfRange(Vec<u8>),
    /// The bounds of a range are an integer and a string.
    MixedRange,
    /// The limit of `s` is not a count.
    BadLimit(Vec<u8>),
    /// The file of `l` is not a quoted string of UTF-8.
    BadFileName,
    /// The name of a keyspace is not UTF-8.
    BadKeyspace(Vec<u8>),
    /// The closing quote is missing.
    OpenString,
    /// Something follows a closing quote without a space.
    GluedString,
    /// An escape that does not exist.
    BadEscape(Vec<u8>),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Blank => write!(f, "the line holds no command"),
            ParseError::UnknownCommand(name) => {
                write!(f, "unknown command {}; the commands are p, g, r, d, l, s, use and q", Echo(name))
            }
            ParseError::Missing { what, usage } => write!(f, "{what} is missing; write {usage}"),
            ParseError::Extra { usage } => write!(f, "extra words after the command; write {usage}"),
            ParseError::NotAScalar(word) => write!(
                f,
                "{} is not a number; write a 64-bit integer, or a string in double quotes",
                Echo(word)
            ),
            ParseError::OutOfRange(word) => {
                write!(f, "{} is out of range; integers go from {} to {}", Echo(word), i64::MIN, i64::MAX)
            }
            ParseError::MixedRange => {
                write!(f, "a range goes from integer to integer or from string to string")
            }
            ParseError::BadLimit(word) => write!(f, "{} is not a count; write s or s LIMIT", Echo(word)),
            ParseError::BadFileName => {
                write!(f, "the file name must be UTF-8 in double quotes; write l \"FILE\"")
            }
            ParseError::BadKeyspace(name) => {
                write!(f, "{} is no name of a keyspace: names are UTF-8", Echo(name))
            }
            ParseError::OpenString => write!(f, "the closing double quote is missing"),
            ParseError::GluedString => write!(f, "a space must follow the closing double quote"),
            ParseError::BadEscape(escape) => write!(
                f,
                "{} is no escape; there are \\\", \\\\, \\n, \\t and \\xHH with two hexadecimal digits",
                Echo(escape)
            ),
        }
    }
}

impl std::error::Error for ParseError {}

/// Bytes of the user's own line, made printable in one line and cut to a readable length.
struct Echo<'a>(&'a [u8]);

impl fmt::Display for Echo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 40;
        let shown = self.0.get(..LONGEST).unwrap_or(self.0);
        let dots = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "'{}{dots}'", shown.escape_ascii())
    }
}
