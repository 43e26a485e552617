//! Findings: one damaged place each, with where it is, which keys it concerns and what that means.

use esker_version::{KeyEnd, KeyRange};
use std::fmt;
use std::path::{Path, PathBuf};

/// Keys from a first one up to an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySpan {
    /// The first key; empty for the beginning of the keyspace.
    pub start: Vec<u8>,
    /// The first key that lies outside; `None` if there is no end.
    pub end: Option<Vec<u8>>,
}

impl KeySpan {
    /// Every key of a keyspace.
    pub fn everything() -> KeySpan {
        KeySpan::default()
    }

    /// This key alone.
    pub fn only(key: &[u8]) -> KeySpan {
        KeySpan::of(&KeyRange::inclusive(key, key))
    }

    pub(crate) fn of(range: &KeyRange) -> KeySpan {
        let end = range.end.exclusive_bound().map(std::borrow::Cow::into_owned);
        KeySpan { start: range.start.to_vec(), end }
    }

    pub(crate) fn to_range(&self) -> KeyRange {
        let end = self.end.as_deref().map_or(KeyEnd::Unbounded, |end| KeyEnd::Excluded(end.into()));
        KeyRange { start: self.start.as_slice().into(), end }
    }

    /// Whether `key` lies inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && self.end.as_deref().is_none_or(|end| key < end)
    }
}

impl fmt::Display for KeySpan {
    /// `key "a"`, `all keys`, `keys from "a" up to "m"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.start.escape_ascii();
        match &self.end {
            None if self.start.is_empty() => f.write_str("all keys"),
            None => write!(f, "all keys from \"{start}\" on"),
            Some(end) if end.strip_suffix(&[0]) == Some(&self.start) => write!(f, "key \"{start}\""),
            // The first key behind an included one is that key and a zero byte: show the key itself.
            Some(end) => match end.strip_suffix(&[0]) {
                Some(last) => write!(f, "keys from \"{start}\" to \"{}\"", last.escape_ascii()),
                None => write!(f, "keys from \"{start}\" up to \"{}\"", end.escape_ascii()),
            },
        }
    }
}

/// One damaged place, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file; for a missing one, where it should be.
    pub file: PathBuf,
    /// Byte offset of the damage, if it has one.
    pub offset: Option<u64>,
    /// The affected keyspace, if it is known.
    pub keyspace: Option<String>,
    /// The affected keys, if they are known.
    pub keys: Option<KeySpan>,
    /// At most so many entries are affected, if that is known. Each version of a key counts.
    pub entries_at_most: Option<u64>,
    /// What is wrong, as a sentence.
    pub what: String,
    /// What that means for reads, as a sentence.
    pub meaning: String,
}

impl Finding {
    pub(crate) fn new(
        file: &Path,
        offset: impl Into<Option<u64>>,
        what: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Finding {
        Finding {
            file: file.to_path_buf(),
            offset: offset.into(),
            keyspace: None,
            keys: None,
            entries_at_most: None,
            what: what.into(),
            meaning: meaning.into(),
        }
    }

    pub(crate) fn of(mut self, keyspace: &str) -> Finding {
        self.keyspace = Some(keyspace.to_owned());
        self
    }

    pub(crate) fn over(mut self, keys: KeySpan, entries_at_most: Option<u64>) -> Finding {
        self.keys = Some(keys);
        self.entries_at_most = entries_at_most;
        self
    }
}

impl fmt::Display for Finding {
    /// File and offset, what is wrong, which keys, what it means: three lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.what)?;
        let keys =
            self.keys.as_ref().filter(|keys| self.keyspace.is_some() || **keys != KeySpan::everything());
        let place =
            [self.keyspace.as_ref().map(|name| format!("keyspace {name:?}")), keys.map(KeySpan::to_string)];
        let place: Vec<String> = place.into_iter().flatten().collect();
        if !place.is_empty() {
            write!(f, "\n  {}", place.join(", "))?;
            match self.entries_at_most {
                Some(1) => write!(f, ", at most 1 entry")?,
                Some(entries) => write!(f, ", at most {entries} entries")?,
                None => {}
            }
        }
        write!(f, "\n  {}", self.meaning)
    }
}

/// The detail of an error without the file and offset, which a finding names itself.
pub(crate) fn detail_of(error: &esker_base::Error) -> (Option<u64>, String) {
    match error {
        esker_base::Error::Corruption(corruption) => (corruption.offset, corruption.detail.clone()),
        other => (None, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_words() {
        let span =
            |start: &[u8], end: Option<&[u8]>| KeySpan { start: start.into(), end: end.map(Into::into) };
        assert_eq!(KeySpan::everything().to_string(), "all keys");
        assert_eq!(KeySpan::only(b"a").to_string(), "key \"a\"");
        assert_eq!(span(b"a", None).to_string(), "all keys from \"a\" on");
        assert_eq!(span(b"a", Some(b"m")).to_string(), "keys from \"a\" up to \"m\"");
        assert_eq!(span(b"a", Some(b"m\0")).to_string(), "keys from \"a\" to \"m\"");
        assert!(KeySpan::only(b"a").contains(b"a") && !KeySpan::only(b"a").contains(b"aa"));
    }
}
