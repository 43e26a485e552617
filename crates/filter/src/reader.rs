//! Filter lookups: decodes a stored filter and probes it.

use crate::blocked::Blocked;
use crate::bloom::{self, Bloom};
use crate::fuse::Fuse;
use crate::kind::FilterKind;
use crate::lines::{self, Line};
use crate::reference::double::Double;
use crate::reference::local::Local;
use crate::ribbon::Ribbon;
use crate::stored;
use esker_base::coding::Reader;

/// A loaded filter. Lookups take no lock and change nothing, so any number of threads may use it at once.
///
/// The default kind's lookup is inlined into the caller; all other kinds share one call, so that they cost
/// one comparison.
#[derive(Clone, Debug)]
pub struct Filter {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Blocked(Blocked),
    Bloom(Bloom),
    Local(Local),
    Double(Double),
    Ribbon(Ribbon),
    Fuse(Fuse),
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
        Filter::decode_for(bytes, false)
    }

    /// As [`Filter::decode`], for a filter that stays in memory for long, as that of an open table: it lies
    /// in huge pages with other filters.
    ///
    /// # Errors
    /// As [`Filter::decode`].
    pub fn decode_lasting(bytes: &[u8]) -> Result<Filter, String> {
        Filter::decode_for(bytes, true)
    }

    fn decode_for(bytes: &[u8], stays: bool) -> Result<Filter, String> {
        let cut = || format!("a filter of {} bytes has no whole header", bytes.len());
        let mut reader = Reader::new(bytes);
        let (number, version) = (reader.u8().ok_or_else(cut)?, reader.u8().ok_or_else(cut)?);
        let lines = |reader: &mut Reader<'_>, most| stored::decode_lines(reader, most, stays);
        let kind = match number {
            _ if version != stored::VERSION => Kind::Unknown(number, version),
            stored::BLOCKED_BLOOM => {
                let (lines, probes) = lines(&mut reader, lines::MAX_PROBES)?;
                Kind::Blocked(Blocked::new(lines, probes))
            }
            stored::BLOOM => {
                let (lines, probes) = lines(&mut reader, bloom::MAX_PROBES)?;
                Kind::Bloom(Bloom::new(lines, probes))
            }
            stored::LOCAL_BLOOM => {
                let (lines, probes) = lines(&mut reader, lines::MAX_PROBES)?;
                Kind::Local(Local::new(lines, probes))
            }
            stored::DOUBLE_PROBE_BLOOM => {
                let (lines, probes) = lines(&mut reader, lines::MAX_PROBES)?;
                Kind::Double(Double::new(lines, probes))
            }
            stored::RIBBON => Kind::Ribbon(Ribbon::decode(&mut reader)?),
            stored::BINARY_FUSE => Kind::Fuse(Fuse::decode(&mut reader)?),
            _ => Kind::Unknown(number, version),
        };
        Ok(Filter { kind })
    }

    /// Whether the key with this hash may be in the table: `false` is certain.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        match &self.kind {
            Kind::Blocked(blocked) => blocked.may_contain(hash),
            other => other.may_contain(hash),
        }
    }

    /// [`Filter::may_contain`] for many keys, whose cache misses overlap.
    ///
    /// # Panics
    /// If `maybe` is not as long as `hashes`.
    pub fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        assert_eq!(hashes.len(), maybe.len(), "an answer for each hash");
        match &self.kind {
            Kind::Blocked(blocked) => blocked.may_contain_many(hashes, maybe),
            Kind::Bloom(bloom) => bloom.may_contain_many(hashes, maybe),
            Kind::Local(local) => local.may_contain_many(hashes, maybe),
            Kind::Double(double) => double.may_contain_many(hashes, maybe),
            Kind::Ribbon(ribbon) => ribbon.may_contain_many(hashes, maybe),
            Kind::Fuse(fuse) => fuse.may_contain_many(hashes, maybe),
            Kind::Unknown(..) => maybe.fill(true),
        }
    }

    /// Prefetches what [`Filter::may_contain`] reads.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        match &self.kind {
            Kind::Blocked(blocked) => blocked.prefetch(hash),
            other => other.prefetch(hash),
        }
    }

    /// The kind, if this build knows it. A substitute is a blocked Bloom filter.
    pub fn kind(&self) -> Option<FilterKind> {
        match &self.kind {
            Kind::Blocked(_) => Some(FilterKind::BlockedBloom),
            Kind::Bloom(_) => Some(FilterKind::Bloom),
            Kind::Local(_) => Some(FilterKind::LocalBloom),
            Kind::Double(_) => Some(FilterKind::DoubleProbeBloom),
            Kind::Ribbon(_) => Some(FilterKind::Ribbon),
            Kind::Fuse(_) => Some(FilterKind::BinaryFuse),
            Kind::Unknown(..) => None,
        }
    }

    /// Whether this build cannot read the filter, which then always answers "maybe".
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, Kind::Unknown(..))
    }

    /// Bytes of memory of the filter's data.
    pub fn memory_bytes(&self) -> usize {
        match &self.kind {
            Kind::Ribbon(ribbon) => ribbon.memory_bytes(),
            Kind::Fuse(fuse) => fuse.memory_bytes(),
            lines => lines.lines().map_or(0, size_of_val),
        }
    }

    /// Share of set bits; with the number of probes it gives the rate. Reads the whole filter.
    pub fn fill_ratio(&self) -> Option<f64> {
        self.kind.lines().map(lines::fill_ratio)
    }

    /// Kind and parameters as text.
    pub fn describe(&self) -> String {
        let lines = |name: &str, lines: &[Line], probes: u8| {
            format!("{name}, {} lines, {probes} probes", lines.len())
        };
        match &self.kind {
            Kind::Blocked(blocked) => lines("blocked Bloom", blocked.lines(), blocked.probes()),
            Kind::Bloom(bloom) => lines("Bloom", bloom.lines(), bloom.probes()),
            Kind::Local(local) => lines("local Bloom", local.lines(), local.probes()),
            Kind::Double(double) => lines("double-probe Bloom", double.lines(), double.probes()),
            Kind::Ribbon(ribbon) => ribbon.describe(),
            Kind::Fuse(fuse) => fuse.describe(),
            Kind::Unknown(kind, version) => format!("unknown (kind {kind}, version {version})"),
        }
    }
}

impl Kind {
    #[inline(never)]
    fn may_contain(&self, hash: u64) -> bool {
        match self {
            Kind::Blocked(blocked) => blocked.may_contain(hash),
            Kind::Bloom(bloom) => bloom.may_contain(hash),
            Kind::Local(local) => local.may_contain(hash),
            Kind::Double(double) => double.may_contain(hash),
            Kind::Ribbon(ribbon) => ribbon.may_contain(hash),
            Kind::Fuse(fuse) => fuse.may_contain(hash),
            Kind::Unknown(..) => true,
        }
    }

    #[inline(never)]
    fn prefetch(&self, hash: u64) {
        match self {
            Kind::Blocked(blocked) => blocked.prefetch(hash),
            Kind::Bloom(bloom) => bloom.prefetch(hash),
            Kind::Local(local) => local.prefetch(hash),
            Kind::Double(double) => double.prefetch(hash),
            Kind::Ribbon(ribbon) => ribbon.prefetch(hash),
            Kind::Fuse(fuse) => fuse.prefetch(hash),
            Kind::Unknown(..) => {}
        }
    }

    fn lines(&self) -> Option<&[Line]> {
        match self {
            Kind::Blocked(blocked) => Some(blocked.lines()),
            Kind::Bloom(bloom) => Some(bloom.lines()),
            Kind::Local(local) => Some(local.lines()),
            Kind::Double(double) => Some(double.lines()),
            Kind::Ribbon(_) | Kind::Fuse(_) | Kind::Unknown(..) => None,
        }
    }
}
