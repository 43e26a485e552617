//! Resume tokens: where a scan goes on.
//!
//! A token is the scan's keyspace, its direction and the last key that was sent: nothing of it is in the
//! server's memory, so it is as good after a restart. Whether the key lies within the scan's range is asked
//! when the token comes back; see [`ResumeToken::apply`].
//!
//! Bytes: format (1) | direction (0 forwards, 1 backwards) | number of the keyspace, 4 bytes, little-endian |
//! key.

use crate::requests::KeyBounds;
use esker::KeyspaceId;
use std::ops::Bound;
use tonic::Status;

const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 6;

/// Where a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResumeToken<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) is_reverse: bool,
    /// The last key that was sent.
    pub(crate) key: &'a [u8],
}

impl<'a> ResumeToken<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.key.len());
        bytes.extend_from_slice(&[FORMAT, self.is_reverse.into()]);
        bytes.extend_from_slice(&self.keyspace.get().to_le_bytes());
        bytes.extend_from_slice(self.key);
        bytes
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<ResumeToken<'a>, Status> {
        let malformed = || Status::invalid_argument("the resume token is none that this server gave");
        let (header, key) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(malformed)?;
        let is_reverse = match header[..2] {
            [FORMAT, 0] => false,
            [FORMAT, 1] => true,
            _ => return Err(malformed()),
        };
        let number = header[2..].try_into().map(u32::from_le_bytes).map_err(|_| malformed())?;
        Ok(ResumeToken { keyspace: KeyspaceId(number), is_reverse, key })
    }

    /// What is left of a scan's bounds.
    pub(crate) fn apply(
        &self,
        keyspace: KeyspaceId,
        is_reverse: bool,
        bounds: KeyBounds,
    ) -> Result<KeyBounds, Status> {
        let foreign = |what| Status::invalid_argument(format!("the resume token is of a scan {what}"));
        if self.keyspace != keyspace {
            return Err(foreign("of another keyspace"));
        }
        if self.is_reverse != is_reverse {
            return Err(foreign("in the other direction"));
        }
        let (lower, upper) = &bounds;
        let is_above = match lower {
            Bound::Included(start) => self.key >= &**start,
            Bound::Excluded(start) => self.key > &**start,
            Bound::Unbounded => true,
        };
        let is_below = match upper {
            Bound::Included(end) => self.key <= &**end,
            Bound::Excluded(end) => self.key < &**end,
            Bound::Unbounded => true,
        };
        if !is_above || !is_below {
            return Err(foreign("of another range"));
        }
        let border = Bound::Excluded(self.key.to_vec());
        Ok(if is_reverse { (bounds.0, border) } else { (border, bounds.1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_were_and_damaged_ones_are_refused() {
        for (is_reverse, key) in [(false, &b"ada"[..]), (true, b""), (false, &[0, 255])] {
            let token = ResumeToken { keyspace: KeyspaceId(7), is_reverse, key };
            let bytes = token.encode();
            assert_eq!(ResumeToken::decode(&bytes).expect("it is right"), token);
            for len in 0..HEADER_BYTES {
                ResumeToken::decode(&bytes[..len]).expect_err("it is too short");
            }
            ResumeToken::decode(&[&[9], &bytes[1..]].concat()).expect_err("another format");
            ResumeToken::decode(&[&bytes[..1], &[2], &bytes[2..]].concat()).expect_err("no direction");
        }
    }

    #[test]
    fn a_token_goes_on_behind_its_key_within_the_same_scan() {
        let id = KeyspaceId(7);
        let token = |is_reverse| ResumeToken { keyspace: id, is_reverse, key: b"m" };
        let bounds = || (Bound::Included(b"b".to_vec()), Bound::Excluded(b"x".to_vec()));
        let behind = Bound::Excluded(b"m".to_vec());
        assert_eq!(token(false).apply(id, false, bounds()).expect("right"), (behind.clone(), bounds().1));
        assert_eq!(token(true).apply(id, true, bounds()).expect("right"), (bounds().0, behind));
        token(false).apply(KeyspaceId(8), false, bounds()).expect_err("another keyspace");
        token(false).apply(id, true, bounds()).expect_err("the other direction");
        let other = || (Bound::Included(b"n".to_vec()), Bound::Unbounded);
        token(false).apply(id, false, other()).expect_err("another range");
    }
}
