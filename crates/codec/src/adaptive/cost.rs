//! Cost model of the adaptive choice: picoseconds of a device and of a processor for each encoding of a
//! block.
//!
//! The model is that of a store that writes a block once and reads it now and then. Stored bytes pass the
//! device once when they are written and once for each read: a read that has to decompress has not found the
//! block in the block cache, which holds blocks decompressed. They count once more for the room that they
//! take while they rest, on the device and in the page cache. To that come the time to compress, and
//! the time to decompress for each read. Rejected: counting the write alone, which charges a compressed block
//! for its reads and a raw one for none, and so leaves text and JSON raw. Times are estimated from
//! the lengths alone, so that the choice is the same on every machine. They are fitted to `codec_bench` for
//! text, JSON, records and integers in blocks of 4 and of 64 KiB on a common cloud machine, and within a
//! third of it; machines differ more from each other than that.

use super::AdaptiveOptions;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Raw,
    /// [`Codec::Delta`](crate::Codec::Delta), with rows that are known or found.
    Integers,
    Lz4,
    /// [`Codec::Zstd`](crate::Codec::Zstd) at the block's level; costs are those of level 1.
    Zstd,
}

/// A linear cost in picoseconds: for a block, for each of its raw bytes, for each of its stored ones.
struct LinearCost {
    block: u64,
    raw: u64,
    stored: u64,
}

impl LinearCost {
    fn of(&self, raw_len: usize, stored_len: usize) -> u64 {
        self.block + self.raw * raw_len as u64 + self.stored * stored_len as u64
    }
}

impl Encoding {
    /// Of compressing and decompressing. A raw block is read where it lies.
    const fn linear_costs(self) -> [LinearCost; 2] {
        let [block, raw, stored, read_block, read_raw, read_stored] = match self {
            Encoding::Raw => [0; 6],
            Encoding::Integers => [600_000, 450, 0, 100_000, 220, 0],
            Encoding::Lz4 => [150_000, 300, 3_600, 50_000, 230, 300],
            Encoding::Zstd => [3_000_000, 1_200, 6_200, 2_000_000, 450, 1_500],
        };
        [
            LinearCost { block, raw, stored },
            LinearCost { block: read_block, raw: read_raw, stored: read_stored },
        ]
    }

    /// Cost of the block, in picoseconds. Lengths of up to 2^32 cannot make it overflow.
    pub(super) fn cost_ps(self, options: &AdaptiveOptions, raw_len: usize, stored_len: usize) -> u64 {
        let [compress, decompress] = self.linear_costs();
        // When it is written, for the room that it takes, and for each read.
        let transfers = 2 + u64::from(options.reads);
        let device = transfers * stored_len as u64 * 1_000_000 / u64::from(options.device_mb_s.max(1));
        device
            + compress.of(raw_len, stored_len)
            + u64::from(options.reads) * decompress.of(raw_len, stored_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where time decides, Zstandard's cost for each block keeps it from short ones.
    #[test]
    fn the_same_ratios_favour_another_codec_in_longer_blocks() {
        let options = AdaptiveOptions { device_mb_s: 200, ..AdaptiveOptions::DEFAULT };
        let favours_zstd = |raw_len: usize| {
            let zstd = Encoding::Zstd.cost_ps(&options, raw_len, raw_len / 3);
            zstd < Encoding::Lz4.cost_ps(&options, raw_len, raw_len / 2)
        };
        assert_eq!([1 << 10, 4 << 10, 64 << 10].map(favours_zstd), [false, false, true]);
    }

    #[test]
    fn costs_are_bytes_and_times() {
        let options = AdaptiveOptions::DEFAULT;
        // 4 KiB at 400 MB/s, written once, at rest, and read four times.
        assert_eq!(Encoding::Raw.cost_ps(&options, 4096, 4096), 6 * 10_240_000);
        // A quarter of it, and the bits packed and unpacked four times.
        let packed = 6 * 2_560_000 + (600_000 + 450 * 4096) + 4 * (100_000 + 220 * 4096);
        assert_eq!(Encoding::Integers.cost_ps(&options, 4096, 1024), packed);
        // Text in blocks of 4 KiB shrinks to two thirds.
        assert!(Encoding::Lz4.cost_ps(&options, 4096, 2800) < Encoding::Raw.cost_ps(&options, 4096, 4096));
        // The slower the device and the shorter the result, the sooner it pays.
        let pays = |device_mb_s, reads, stored_len| {
            let options = AdaptiveOptions { device_mb_s, reads, ..options };
            Encoding::Lz4.cost_ps(&options, 4096, stored_len) < Encoding::Raw.cost_ps(&options, 4096, 4096)
        };
        assert!(pays(400, 4, 2048) && !pays(400, 4, 3000) && pays(100, 4, 3000));
        assert!(!pays(400, 0, 2600) && pays(400, 0, 512) && pays(50, 0, 2048));
        let largest = AdaptiveOptions { device_mb_s: 1, reads: 1_000, ..options };
        assert!(Encoding::Zstd.cost_ps(&largest, 1 << 32, 1 << 32) > 0);
    }
}
