//! Measures integer codecs on a column alone: how close bit-packing comes to the information in the values.

use super::samples::DataSample;
use super::{measure as measure_sample, speed};
use crate::context::Context;
use crate::error::Result;
use crate::statistics::Sample as Measured;
use crate::table::{Column, Table};
use esker::options::Codec;

/// Greatest difference between values of a column: far below 2^16, of the claim, and the most that 16 bits
/// hold.
const SPANS: [u64; 4] = [1_000, 10_000, CLAIMED_SPAN, 1 << 16];
/// The span of the claim: less than 2^16, as amounts and ages in real data have it, and no power of two.
pub(super) const CLAIMED_SPAN: u64 = 50_000;
/// Bit-packing, which may write several numbers as one, and a codec that packs each alone.
pub(super) const CODECS: [&str; 2] = ["bit-packing", "delta"];
const BLOCK_SIZES: [usize; 2] = [4096, 65_536];
const BASE: u64 = 5_000_000_000;

pub(super) const STEPS: usize = SPANS.len() * CODECS.len() * BLOCK_SIZES.len();

/// Stored bytes of each block with all that is stored of it beside the block's own header, which says the
/// codec and both lengths.
pub(super) fn measure(context: &mut Context<'_>, bytes: usize, rounds: usize, pass_ns: f64) -> Result<Table> {
    let columns = [
        Column::key("codec"),
        Column::key("span"),
        Column::key("block_bytes"),
        Column::number("stored_bytes", 1),
        Column::number("ratio", 3),
        Column::number("bits_per_value", 2),
        Column::number("bits_there_are", 2),
        Column::measured("compress_mb_s", 0),
        Column::measured("decompress_mb_s", 0),
    ];
    let mut table = Table::new("columns", "A column of random 64-bit values, by their span", &columns);
    let codecs: Vec<(&str, Codec)> =
        CODECS.iter().map(|&name| (name, name.parse().expect("a codec of the list"))).collect();
    for span in SPANS {
        let random = context.random(span);
        let values = (0..bytes / 8).map(|_| BASE + random.below(span));
        let sample = DataSample { name: "a column", bytes: values.flat_map(u64::to_le_bytes).collect() };
        for block_bytes in BLOCK_SIZES {
            let name =
                |(name, _): &(&str, Codec)| format!("{name}: a column that spans {span}, {block_bytes}");
            let measured = context.rounds(rounds, &codecs, name, |clock, &(_, codec)| {
                Ok(measure_sample(clock, codec, &sample, block_bytes, pass_ns)?.to_vec())
            })?;
            for ((name, _), samples) in codecs.iter().zip(measured) {
                let [stored, compress, decompress]: [Measured; 3] = match samples[..] {
                    [stored, compress, decompress] => [stored, compress, decompress],
                    _ => continue,
                };
                table.push(vec![
                    (*name).into(),
                    span.into(),
                    block_bytes.into(),
                    (stored.median * block_bytes as f64).into(),
                    (1.0 / stored.median).into(),
                    (64.0 * stored.median).into(),
                    (span as f64).log2().into(),
                    speed(compress).into(),
                    speed(decompress).into(),
                ]);
            }
        }
    }
    Ok(table)
}
