//! Lookups in a binary fuse filter.

use super::{MAX_SEGMENT_LOG, Places, Segments};
use crate::bits::FingerprintBits;
use crate::probe::{self, prefetch};
use crate::shards::shard_of;
use esker_base::coding::Reader;

const ENTRY_BYTES: usize = 8;

/// A fingerprint is read as four bytes: at most 7 bits before it and 16 of its own.
const READ_BYTES: usize = 4;

#[derive(Clone, Copy, Debug)]
struct FuseShard {
    first_byte: usize,
    segments: Segments,
    seed: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Fuse {
    shards: Box<[FuseShard]>,
    /// The slots of all shards, and zeros so that the last one can be read like the others.
    bytes: Box<[u8]>,
    bits: FingerprintBits,
}

/// Where a key's fingerprints lie, and their expected exclusive or.
#[derive(Clone, Copy, Default)]
struct FingerprintLookup {
    /// Bytes and bits of the slots.
    bytes: [usize; 3],
    shifts: [u8; 3],
    fingerprint: u16,
    refused: bool,
}

impl Fuse {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Fuse, String> {
        let cut = || "a binary fuse filter has no whole header".to_owned();
        let (bits, padding) = (reader.u8().ok_or_else(cut)?, reader.u8().ok_or_else(cut)?);
        let count = reader.u32().ok_or_else(cut)? as usize;
        let known = FingerprintBits::new(bits).filter(|_| padding == 0);
        let Some(bits) = known.filter(|_| count != 0 && count <= reader.remaining() / ENTRY_BYTES) else {
            return Err(format!(
                "a binary fuse filter of {bits} bits, padding {padding}, {count} shards in {} bytes",
                reader.remaining()
            ));
        };
        let mut shards = Vec::with_capacity(count);
        let mut first_byte = 0u64;
        for number in 0..count {
            let count = reader.u32().ok_or_else(cut)?;
            let [log, seed, zeros @ ..] = reader.u32().ok_or_else(cut)?.to_le_bytes();
            let segments = Segments { count, log };
            if log > MAX_SEGMENT_LOG || zeros != [0; 2] || (count == 0 && log != 0) {
                return Err(format!("shard {number} of a binary fuse filter has segments of 2^{log} slots"));
            }
            shards.push(FuseShard { first_byte: first_byte as usize, segments, seed });
            // At most 2^32 shards of 2^51 bytes.
            first_byte = first_byte.saturating_add(segments.bytes(bits.bits()));
        }
        let data = reader.rest();
        if data.len() as u64 != first_byte {
            return Err(format!("a binary fuse filter of {first_byte} bytes has {} of them", data.len()));
        }
        let bytes = data.iter().copied().chain([0; READ_BYTES]).collect();
        Ok(Fuse { shards: shards.into(), bytes, bits })
    }

    #[inline(always)]
    fn lookup(&self, hash: u64) -> FingerprintLookup {
        let shard = &self.shards[shard_of(hash, self.shards.len() as u32)];
        if shard.segments.count == 0 {
            return FingerprintLookup { refused: true, ..FingerprintLookup::default() };
        }
        let places = Places::of(hash, shard.seed, shard.segments);
        let bit = places.slots.map(|slot| slot * usize::from(self.bits.bits()));
        FingerprintLookup {
            bytes: bit.map(|bit| shard.first_byte + bit / 8),
            shifts: bit.map(|bit| (bit % 8) as u8),
            fingerprint: places.fingerprint,
            refused: false,
        }
    }

    #[inline(always)]
    fn prefetch_slots(&self, lookup: &FingerprintLookup) {
        for byte in lookup.bytes {
            prefetch(self.bytes.as_ptr().wrapping_add(byte));
        }
    }

    #[inline(always)]
    fn holds(&self, lookup: &FingerprintLookup) -> bool {
        let mut sum = u32::from(lookup.fingerprint);
        for (&byte, &shift) in lookup.bytes.iter().zip(&lookup.shifts) {
            // Decoding has checked that all slots are there, so this is never missing.
            let read = self.bytes.get(byte..byte + READ_BYTES).and_then(|bytes| bytes.try_into().ok());
            sum ^= u32::from_le_bytes(read.unwrap_or_default()) >> shift;
        }
        !lookup.refused && sum & u32::from(self.bits.mask()) == 0
    }

    pub(crate) fn prefetch(&self, hash: u64) {
        let lookup = self.lookup(hash);
        self.prefetch_slots(&lookup);
    }

    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.holds(&self.lookup(hash))
    }

    pub(crate) fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        let ask = |hash| {
            let lookup = self.lookup(hash);
            self.prefetch_slots(&lookup);
            lookup
        };
        probe::in_two_steps(hashes, maybe, ask, |lookup| self.holds(lookup));
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.bytes) + size_of_val(&*self.shards)
    }

    pub(crate) fn describe(&self) -> String {
        let slots: u64 = self.shards.iter().map(|shard| shard.segments.slots()).sum();
        format!("binary fuse, {} bits, {} shards, {slots} slots", self.bits.bits(), self.shards.len())
    }
}
