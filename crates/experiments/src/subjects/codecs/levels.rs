//! Compares CS265's two tables of codecs by level (2.7.3 and 2.7.4), which are the presets `cs265-by-level`
//! and `cs265-mixed-codecs`.
//!
//! The report gives neither of them a figure. Each level's codec is measured on the mixture of its codec
//! table, and the ratio of a whole tree follows from the shares that its levels have of the data.

use super::samples::DataSample;
use super::{measure, speed};
use crate::context::Context;
use crate::error::Result;
use crate::statistics::Sample;
use crate::table::{Column, Table};
use esker::KeyspaceOptions;
use esker::options::Codec;

/// Section of the report, and the preset with its table.
const TABLES: [(&str, &str); 2] = [("2.7.3", "cs265-by-level"), ("2.7.4", "cs265-mixed-codecs")];
/// Levels that the tables tell apart, and one more.
const LEVELS: usize = 7;
/// The report's fanout (appendix A): how much larger each level is than the one above.
const SIZE_RATIO: f64 = 4.0;
const BLOCK_BYTES: usize = 4096;

pub(super) const STEPS: usize = TABLES.len() * LEVELS;

pub(super) fn table(context: &mut Context<'_>, samples: &[DataSample], pass_ns: f64) -> Result<Table> {
    let columns = [
        Column::key("section"),
        Column::key("level"),
        Column::key("codec"),
        Column::number("ratio", 2),
        Column::number("compress_mb_s", 0),
        Column::number("decompress_mb_s", 0),
        Column::number("tree_ratio", 2),
    ];
    let title = "Codecs by level, equal parts of text, JSON and binary data, blocks of 4 KiB; `tree_ratio` is that of a tree whose last \
                 level this is";
    let mut table = Table::new("levels", title, &columns);
    for (section, preset) in TABLES {
        let codecs = codecs(preset)?;
        let mut stored = Vec::new();
        for (level, codec) in codecs.into_iter().enumerate() {
            context.step(&format!("{section}, level {level}: {codec}"));
            let [size, compress_ns, decompress_ns] = mixture(context, codec, samples, pass_ns)?;
            stored.push(size);
            let mb_s = |ns| speed(Sample::exact(ns)).map(|speed| speed.median);
            table.push(vec![
                section.into(),
                level.into(),
                codec.to_string().into(),
                (1.0 / size).into(),
                mb_s(compress_ns).into(),
                mb_s(decompress_ns).into(),
                tree_ratio(&stored).into(),
            ]);
        }
    }
    Ok(table)
}

/// The codecs of a preset, from level 0 on. The end of its list holds for deeper levels.
fn codecs(preset: &str) -> Result<Vec<Codec>> {
    let named = KeyspaceOptions::preset(preset)?.named_values();
    let listed = named.into_iter().find(|(name, _)| name == "compression").map(|(_, list)| list);
    let mut codecs =
        listed.unwrap_or_default().split(',').map(str::parse).collect::<esker::Result<Vec<Codec>>>()?;
    let last = codecs.last().copied().unwrap_or_default();
    codecs.resize(LEVELS, last);
    Ok(codecs)
}

/// Stored share, and nanoseconds of compressing and decompressing a byte, of equal parts of the three kinds.
fn mixture(context: &Context<'_>, codec: Codec, samples: &[DataSample], pass_ns: f64) -> Result<[f64; 3]> {
    let mut sum = [0.0; 3];
    let kinds = ["text", "json", "binary"];
    for sample in samples.iter().filter(|sample| kinds.contains(&sample.name)) {
        let measured = measure(&context.clock(), codec, sample, BLOCK_BYTES, pass_ns)?;
        sum.iter_mut().zip(measured).for_each(|(sum, of_one)| *sum += of_one / kinds.len() as f64);
    }
    Ok(sum)
}

/// Raw over stored bytes of a tree with these levels, all of them full.
fn tree_ratio(stored: &[f64]) -> f64 {
    let sizes = (0..stored.len() as i32).map(|level| SIZE_RATIO.powi(level));
    let bytes: f64 = sizes.clone().zip(stored).map(|(size, stored)| size * stored).sum();
    sizes.sum::<f64>() / bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_as_dense_as_its_levels_by_their_sizes() {
        assert!((tree_ratio(&[0.5]) - 2.0).abs() < 1e-12);
        // A fifth of the data takes half of its room, the rest a quarter.
        assert!((tree_ratio(&[0.5, 0.25]) - 1.0 / 0.3).abs() < 1e-12);
    }

    #[test]
    fn the_tables_are_those_of_the_report() {
        let of = |preset| codecs(preset).unwrap().iter().map(Codec::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(of("cs265-by-level"), "lz4 snappy snappy zstd:3 zstd:3 zstd:3 zstd:10");
        assert_eq!(of("cs265-mixed-codecs"), "lz4 snappy snappy zstd:3 zstd:7 zstd:19 zstd:19");
    }
}
