//! A reply as a tree, as clients see it: for tests, tools and loaders.

/// One reply of either protocol.
///
/// Nested at most [`DEEPEST`](crate::value_parser::DEEPEST) deep when it comes from a parser.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+OK`.
    Status(Vec<u8>),
    /// `-ERR ...`, without the sign; `!` in RESP3, which may have several lines.
    Error(Vec<u8>),
    /// `:1`.
    Integer(i64),
    /// `$3` and three bytes.
    Bulk(Vec<u8>),
    /// `$-1`, RESP2.
    NullBulk,
    /// `*-1`, RESP2.
    NullArray,
    /// `_`, RESP3.
    Null,
    /// `#t`, `#f`, RESP3.
    Boolean(bool),
    /// `,1.5`, RESP3.
    Double(f64),
    /// `(123`, RESP3: digits, with a sign perhaps.
    BigNumber(Vec<u8>),
    /// `=`, RESP3: text that is shown to people, and its format, `txt` or `mkd`.
    Verbatim {
        /// Three bytes.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// `*`.
    Array(Vec<Self>),
    /// `~`, RESP3.
    Set(Vec<Self>),
    /// `%`, RESP3.
    Map(Vec<(Self, Self)>),
    /// `>`, RESP3: not an answer to a request.
    Push(Vec<Self>),
    /// `|`, RESP3: a reply and what is said about it.
    Attributed {
        /// Names and values.
        attributes: Vec<(Self, Self)>,
        /// The reply itself.
        value: Box<Self>,
    },
}

impl Value {
    /// The error's text, if it is an error.
    #[must_use]
    pub fn error(&self) -> Option<&[u8]> {
        match self {
            Self::Error(text) => Some(text),
            _ => None,
        }
    }
}
