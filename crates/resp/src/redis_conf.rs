//! `redis.conf`: lines of words, without their meaning.
//!
//! A line is empty, a comment (`#` is its first byte that is not white space), or a directive: a name and
//! arguments, in the quotes of [`quoting`](crate::quoting). Names are compared without case. A name may
//! stand several times; whether the last or all of them count is the directive's matter. `include` is a
//! directive like others: where a file stands for it, the caller reads that file and puts its directives in
//! the place.
//!
//! ```
//! use esker_resp::redis_conf::parse;
//!
//! let file = parse(b"# A comment\nPort 6379\nsave 900 1\nrequirepass \"a b\"\nsave 300 10\n")?;
//! let saves: Vec<_> = file.all("save").map(|save| (save.line, save.arguments.len())).collect();
//! assert_eq!(saves, [(3, 2), (5, 2)]);
//! assert_eq!(file.last("port").map(|port| &port.arguments[0][..]), Some(&b"6379"[..]));
//! assert_eq!(file.unknown(&["port", "save"]).next().map(|first| &first.name[..]), Some("requirepass"));
//! # Ok::<(), esker_resp::redis_conf::ConfError>(())
//! ```

use crate::quoting::split;
use std::fmt;

/// A line with a meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Where it stands, from 1.
    pub line: usize,
    /// Its name in lower case; bytes that are no UTF-8 are replaced.
    pub name: String,
    /// Its arguments, unquoted.
    pub arguments: Vec<Vec<u8>>,
}

impl Directive {
    /// The arguments of a directive that takes several: if there is one alone, its words, because
    /// `save "900 1 300 10"` means `save 900 1 300 10`. An empty one stays, because `save ""` has a meaning.
    ///
    /// # Errors
    /// If the quotes within the one argument are unbalanced.
    pub fn words(&self) -> Result<Vec<Vec<u8>>, ConfError> {
        match &self.arguments[..] {
            [one] if !one.is_empty() => {
                split(one).map_err(|_| ConfError { line: self.line, kind: ConfErrorKind::UnbalancedQuotes })
            }
            _ => Ok(self.arguments.clone()),
        }
    }

    /// The argument of a directive that takes one.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn only(&self) -> Result<&[u8], ConfError> {
        match &self.arguments[..] {
            [one] => Ok(one),
            _ => Err(ConfError { line: self.line, kind: ConfErrorKind::WrongNumberOfArguments }),
        }
    }
}

/// Why a line is no directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfError {
    /// Where it stands, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: ConfErrorKind,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfErrorKind {
    /// A quote does not end, or no white space follows it.
    UnbalancedQuotes,
    /// One argument is wanted.
    WrongNumberOfArguments,
    /// A NUL byte: no text file has one, and Redis would ignore what follows it.
    NulByte,
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.kind {
            ConfErrorKind::UnbalancedQuotes => "unbalanced quotes in configuration line",
            ConfErrorKind::WrongNumberOfArguments => "wrong number of arguments",
            ConfErrorKind::NulByte => "there is a NUL byte in the line: this is no configuration file",
        };
        write!(f, "line {}: {text}", self.line)
    }
}

impl std::error::Error for ConfError {}

/// The directives of a file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisConf {
    /// All of them.
    pub directives: Vec<Directive>,
}

impl RedisConf {
    /// Every directive of a name, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &Directive> {
        self.directives.iter().filter(move |directive| directive.name.eq_ignore_ascii_case(name))
    }

    /// The last directive of a name, which counts where one is wanted.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&Directive> {
        self.directives.iter().rfind(|directive| directive.name.eq_ignore_ascii_case(name))
    }

    /// Directives whose names are not among the `known` ones, in order.
    pub fn unknown(&self, known: &[&str]) -> impl Iterator<Item = &Directive> {
        self.directives
            .iter()
            .filter(|directive| !known.iter().any(|name| directive.name.eq_ignore_ascii_case(name)))
    }
}

/// Reads a file's text. Memory is a small multiple of it: 24 bytes a word, and its bytes twice.
///
/// # Errors
/// At the first line with unbalanced quotes or a NUL byte.
pub fn parse(text: &[u8]) -> Result<RedisConf, ConfError> {
    let mut directives = Vec::new();
    for (line, bytes) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let trimmed = bytes.trim_ascii();
        if trimmed.first() == Some(&b'#') {
            continue;
        }
        if trimmed.contains(&0) {
            return Err(ConfError { line, kind: ConfErrorKind::NulByte });
        }
        let words = split(trimmed).map_err(|_| ConfError { line, kind: ConfErrorKind::UnbalancedQuotes })?;
        let mut words = words.into_iter();
        if let Some(name) = words.next() {
            let name = String::from_utf8_lossy(&name).to_ascii_lowercase();
            directives.push(Directive { line, name, arguments: words.collect() });
        }
    }
    Ok(RedisConf { directives })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_keep_lines_names_and_arguments() {
        let text = b"\r\n  # comment \"open\n\tMaxMemory 1gb\r\nuser 'a b' on >\\x41\nport 1\nport 2";
        let file = parse(text).expect("valid");
        let lines: Vec<_> = file.directives.iter().map(|one| (one.line, one.name.as_str())).collect();
        assert_eq!(lines, [(3, "maxmemory"), (4, "user"), (5, "port"), (6, "port")]);
        assert_eq!(file.directives[1].arguments, [&b"a b"[..], b"on", b">\\x41"]);
        assert_eq!(file.last("PORT").map(|port| port.line), Some(6));
        assert_eq!(file.all("port").count(), 2);
        assert_eq!(file.last("MAXMEMORY").and_then(|one| one.only().ok()), Some(&b"1gb"[..]));
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse(b"port 1\n\nlogfile \"x\ny\"").expect_err("unbalanced");
        assert_eq!(error.to_string(), "line 3: unbalanced quotes in configuration line");
        let error = parse(b"port 1\0").expect_err("binary");
        assert_eq!(error.line, 1);
        let file = parse(b"port 1 2\nbind").expect("valid");
        assert!(file.directives.iter().all(|directive| directive.only().is_err()));
    }

    #[test]
    fn one_argument_of_several_words_is_several_arguments() {
        let file = parse(b"save \"900 1 300 10\"\nsave \"\"\nsave 60 1\nsave \"'\"").expect("valid");
        let counts: Vec<_> = file.all("save").map(|save| save.words().map(|words| words.len())).collect();
        assert_eq!(counts[..3], [Ok(4), Ok(1), Ok(2)]);
        assert_eq!(file.directives[3].words().expect_err("unbalanced").line, 4);
    }
}
