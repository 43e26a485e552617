//! Statistics of a table's expiring entries, collected while it is written.

use esker_base::Tag;
use esker_base::expiry::split;
use esker_base::kind::FLAG_EXPIRY;

/// The entries of a table that expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    /// Their number.
    pub entries: u64,
    /// The earliest expiry time, in milliseconds since 1970; 0 if there is none.
    pub earliest_ms: u64,
    /// The latest expiry time.
    pub latest_ms: u64,
}

impl Expiring {
    #[inline]
    pub(crate) fn count(&mut self, tag: Tag, value: &[u8]) {
        if tag.kind_byte() & FLAG_EXPIRY != 0 {
            self.add(value);
        }
    }

    #[cold]
    fn add(&mut self, value: &[u8]) {
        // Too short for an expiry time: readers refuse it, and it counts as never expiring.
        let expiry_ms = split(value).map_or(u64::MAX, |(expiry_ms, _)| expiry_ms);
        self.earliest_ms = if self.entries == 0 { expiry_ms } else { self.earliest_ms.min(expiry_ms) };
        self.latest_ms = self.latest_ms.max(expiry_ms);
        self.entries += 1;
    }
}
