//! A filter in memory, from its stored bytes.

use crate::blocked::{Blocked, LINE_BYTES, Line, MAX_PROBES};
use esker_base::coding::Reader;

/// The stored number of the blocked Bloom filter. Never reused.
pub(crate) const KIND_BLOCKED_BLOOM: u8 = 1;

/// The layout that this build writes and reads.
pub(crate) const VERSION: u8 = 1;

/// A loaded filter. Lookups take no lock and change nothing.
#[derive(Clone, Debug)]
pub struct Filter {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Blocked(Blocked),
    /// Written by a newer version: kind and layout version.
    Unknown(u8, u8),
}

impl Filter {
    /// Decodes a stored filter, copying it to memory of its own that starts at a cache line.
    ///
    /// A kind or layout that this build does not know gives a filter that answers "maybe" to everything.
    ///
    /// # Errors
    /// What is wrong with the bytes, for the caller to report with file and offset.
    pub fn decode(bytes: &[u8]) -> Result<Filter, String> {
        let cut = || format!("a filter of {} bytes has no whole header", bytes.len());
        let mut reader = Reader::new(bytes);
        let (kind, version) = (reader.u8().ok_or_else(cut)?, reader.u8().ok_or_else(cut)?);
        if (kind, version) != (KIND_BLOCKED_BLOOM, VERSION) {
            return Ok(Filter { kind: Kind::Unknown(kind, version) });
        }
        let (probes, padding) = (reader.u8().ok_or_else(cut)?, reader.u8().ok_or_else(cut)?);
        let count = reader.u32().ok_or_else(cut)?;
        if !(1..=MAX_PROBES).contains(&probes) || padding != 0 {
            return Err(format!(
                "a filter has 1 to {MAX_PROBES} probes and padding 0, not {probes} and {padding}"
            ));
        }
        let data = reader.rest();
        if count == 0 || data.len() as u64 != u64::from(count) * LINE_BYTES as u64 {
            return Err(format!(
                "a filter of {count} lines of 64 bytes expected, {} bytes found",
                data.len()
            ));
        }
        let lines = data.chunks_exact(LINE_BYTES).map(decode_line).collect();
        Ok(Filter { kind: Kind::Blocked(Blocked::new(lines, probes)) })
    }

    /// Whether the key with this hash may be in the table: `false` is certain.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        match &self.kind {
            Kind::Blocked(blocked) => blocked.may_contain(hash),
            Kind::Unknown(..) => true,
        }
    }

    /// [`Filter::may_contain`] for many keys, whose cache misses overlap.
    ///
    /// # Panics
    /// If `maybe` is not as long as `hashes`.
    pub fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        match &self.kind {
            Kind::Blocked(blocked) => blocked.may_contain_many(hashes, maybe),
            Kind::Unknown(..) => {
                assert_eq!(hashes.len(), maybe.len(), "an answer for each hash");
                maybe.fill(true);
            }
        }
    }

    /// Asks for what [`Filter::may_contain`] will look at to be brought into the cache.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Kind::Blocked(blocked) = &self.kind {
            blocked.prefetch(hash);
        }
    }

    /// Whether this build cannot read the filter, so that it helps nothing: worth a counter and a line in the log.
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, Kind::Unknown(..))
    }

    /// Bytes of memory of the filter's data.
    pub fn memory_bytes(&self) -> usize {
        match &self.kind {
            Kind::Blocked(blocked) => size_of_val(blocked.lines()),
            Kind::Unknown(..) => 0,
        }
    }

    /// Share of the bits that are set; with the number of probes it tells the false-positive rate. Reads the whole
    /// filter; 0 if it is unknown.
    pub fn fill_ratio(&self) -> f64 {
        let Kind::Blocked(blocked) = &self.kind else { return 0.0 };
        let set: u64 =
            blocked.lines().iter().flat_map(|line| line.0).map(|word| u64::from(word.count_ones())).sum();
        set as f64 / (8.0 * size_of_val(blocked.lines()) as f64)
    }

    /// Kind and parameters, for people.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Blocked(blocked) => {
                format!("blocked Bloom, {} lines, {} probes", blocked.lines().len(), blocked.probes())
            }
            Kind::Unknown(kind, version) => format!("unknown (kind {kind}, version {version})"),
        }
    }
}

fn decode_line(bytes: &[u8]) -> Line {
    let mut line = Line::default();
    for (word, bytes) in line.0.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("chunks of four bytes"));
    }
    line
}
