//! Measures codecs: ratio and speed, by kind of data.
//!
//! CS265 prints ratio, speed and memory of eight codecs for a mixture of text, JSON and binary data (2.7.5),
//! and presents integer codecs and an adaptive choice without figures.

mod columns;
mod findings;
mod levels;
mod memory;
mod samples;
mod tables;

pub use memory::compress_for_memory;

use crate::claim::{Claim, ratio};
use crate::comparison::Comparison;
use crate::context::{Context, time_ns};
use crate::error::{ExperimentError, Result};
use crate::experiment::{Experiment, Outcome};
use crate::plot::{Columns, Plot};
use crate::statistics::Sample as Measured;
use crate::table::{Column, Table};
use esker::options::Codec;
use esker::parts::codec::{History, decompress_into, id};
use esker::parts::env::SystemClock;
use samples::DataSample;
use std::hint::black_box;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "codecs",
    title: "Codecs: ratio and speed both ways, by kind of data and size of block",
    about: "Each sample is cut into blocks, as a table is, and each block compressed alone. Ratio is raw over stored bytes; \
            a block that does not shrink by an eighth is stored as it is, whatever the codec, and costs nothing to read. The \
            score is what a block costs that is written once and read four times: stored bytes at 400 MB/s, six times with the room that they take, the time \
            to compress, and four times the time to decompress. Less is better. The adaptive choice remembers what blocks have shown, \
            as in a long table. Of each round the fastest of several passes counts, and of the rounds, in which codecs take turns, the median.",
    page: "codecs.md",
    run,
    findings: findings::declare,
};

/// What is compared: those of CS265's table at its levels, and every other kind. A test holds the list
/// against [`Codec::ALL`].
const NAMES: [&str; 16] = [
    "none",
    "lz4",
    "lz4hc:9",
    "snappy",
    "zstd:1",
    "zstd:3",
    "zstd:10",
    "zstd:22",
    "lzma:1",
    "lzma:9",
    "bit-packing",
    "delta",
    "dictionary",
    "adaptive",
    "adaptive:mode=speed",
    "adaptive:mode=ratio",
];
const ADAPTIVE: &str = "adaptive";
const ADAPTIVE_FOR_SPEED: &str = "adaptive:mode=speed";

/// The device of the score, in bytes a nanosecond: 400 MB/s.
const DEVICE_BYTES_PER_NS: f64 = 0.4;
/// Reads for each write.
const READS: f64 = 4.0;
/// Block size of the claims: the default of tables.
const CLAIMED_BLOCK: &str = "4096";

fn run(context: &mut Context<'_>) -> Result<Outcome> {
    let codecs: Vec<(&str, Codec)> =
        NAMES.iter().map(|&name| (name, name.parse().expect("a codec of the list"))).collect();
    let sample_bytes = context.pick(16 << 10, 128 << 10, 1 << 20);
    let block_sizes: &[usize] = context.pick(&[4096], &[4096, 65_536], &[4096, 65_536]);
    let rounds = context.pick(1, 1, 5);
    let pass_ns = context.pick(0.0, 1e6, 20e6);
    let samples = DataSample::all(sample_bytes);
    let subjects = block_sizes.len() * samples.len();
    context.expect_steps(
        rounds * (codecs.len() * subjects + columns::STEPS) + codecs.len() + tables::STEPS + levels::STEPS,
    );
    let mut table = Table::new("data", "Each codec on each kind of data", &COLUMNS);
    for &block_bytes in block_sizes {
        for sample in &samples {
            let name = |(name, _): &(&str, Codec)| format!("{name}: {}, {block_bytes}", sample.name);
            let measured = context.rounds(rounds, &codecs, name, |clock, &(_, codec)| {
                Ok(measure(clock, codec, sample, block_bytes, pass_ns)?.to_vec())
            })?;
            push_rows(&mut table, &codecs, sample, block_bytes, &measured);
        }
    }
    let mixture = mixture(&table, &codecs, block_sizes);
    let columns = columns::measure(context, sample_bytes, rounds, pass_ns)?;
    let memory = memory::measure(context, &codecs)?;
    let tables = tables::measure(context)?;
    let levels = levels::table(context, &samples, pass_ns)?;
    let claims = claims(&table, &columns);
    let comparisons = comparisons(&mixture, &memory);
    let plots = plots(&table, &mixture);
    Ok(Outcome {
        setup: vec![
            format!("samples of {sample_bytes} bytes; rounds in turn: {rounds}"),
            "text: this project's documents; json: orders as objects; binary: records of an order book; integers: 64 bits, \
             little-endian"
                .into(),
            memory::SETUP.into(),
        ],
        tables: vec![table, mixture, levels, columns, tables, memory],
        plots,
        claims,
        comparisons,
    })
}

/// Stored bytes, and nanoseconds of compressing and of decompressing, all for one byte.
fn measure(
    clock: &SystemClock,
    codec: Codec,
    sample: &DataSample,
    block_bytes: usize,
    pass_ns: f64,
) -> Result<[f64; 3]> {
    let (mut history, mut scratch) = (History::default(), Vec::new());
    let mut stored: Vec<(u8, Vec<u8>)> = Vec::new();
    // Also allocates what a thread keeps: contexts and tables.
    for raw in sample.bytes.chunks(block_bytes) {
        let block = codec.compress_with(raw, &[], None, &mut history, &mut scratch);
        stored.push((block.codec_id, block.bytes.to_vec()));
    }
    let compress_ns = fastest_ns(clock, pass_ns, || {
        for raw in sample.bytes.chunks(block_bytes) {
            black_box(codec.compress_with(black_box(raw), &[], None, &mut history, &mut scratch));
        }
    });
    let mut out = vec![0; block_bytes];
    let mut decode = |codec_id: u8, bytes: &[u8], raw_len: usize| {
        // A block that is stored uncompressed is read in place.
        let out = &mut out[..raw_len];
        if codec_id == id::NONE { Ok(()) } else { decompress_into(codec_id, black_box(bytes), out) }
    };
    let raw_len = |at: usize| block_bytes.min(sample.bytes.len() - at * block_bytes);
    let mut decoded = Ok(());
    let decompress_ns = fastest_ns(clock, pass_ns, || {
        let mut blocks = stored.iter().enumerate();
        decoded = blocks.try_for_each(|(at, (id, bytes))| decode(*id, bytes, raw_len(at)));
    });
    decoded.map_err(|error| wrong(codec, sample, &error.to_string()))?;
    for ((codec_id, bytes), raw) in stored.iter().zip(sample.bytes.chunks(block_bytes)) {
        let mut back = vec![0; raw.len()];
        decompress_into(*codec_id, bytes, &mut back)
            .map_err(|error| wrong(codec, sample, &error.to_string()))?;
        if back != raw {
            return Err(wrong(codec, sample, "a block came back as another"));
        }
    }
    let stored_bytes: usize = stored.iter().map(|(_, bytes)| bytes.len()).sum();
    let raw_bytes = sample.bytes.len() as f64;
    Ok([stored_bytes as f64 / raw_bytes, compress_ns / raw_bytes, decompress_ns / raw_bytes])
}

/// The time of the fastest pass; passes repeat until they took `least_ns` together.
fn fastest_ns(clock: &SystemClock, least_ns: f64, mut pass: impl FnMut()) -> f64 {
    let (mut fastest, mut spent) = (f64::MAX, 0.0);
    loop {
        let (ns, ()) = time_ns(clock, &mut pass);
        fastest = fastest.min(ns);
        spent += ns;
        if spent >= least_ns {
            return fastest;
        }
    }
}

fn wrong(codec: Codec, sample: &DataSample, what: &str) -> ExperimentError {
    ExperimentError::WrongAnswer(format!("{codec} of {}: {what}", sample.name))
}

const COLUMNS: [Column; 7] = [
    Column::key("codec"),
    Column::key("data"),
    Column::key("block_bytes"),
    Column::number("ratio", 2),
    Column::measured("compress_mb_s", 0),
    Column::measured("decompress_mb_s", 0),
    Column::number("score_ns_per_byte", 2),
];

/// Bytes a nanosecond from nanoseconds a byte, as MB/s; nothing where nothing was done.
fn speed(ns_per_byte: Measured) -> Option<Measured> {
    let of = |ns: f64| 1e3 / ns;
    let is_work = ns_per_byte.median > 0.01;
    is_work.then(|| Measured {
        median: of(ns_per_byte.median),
        least: of(ns_per_byte.most),
        most: of(ns_per_byte.least),
        // The harmonic mean of the rounds' speeds, and its deviation to first order.
        mean: of(ns_per_byte.mean),
        deviation: of(ns_per_byte.mean) * ns_per_byte.deviation / ns_per_byte.mean,
    })
}

fn score(stored: f64, compress_ns: f64, decompress_ns: f64) -> f64 {
    // A read that decompresses comes from the device; and the bytes take room.
    (2.0 + READS) * stored / DEVICE_BYTES_PER_NS + compress_ns + READS * decompress_ns
}

fn push_rows(
    table: &mut Table,
    codecs: &[(&str, Codec)],
    sample: &DataSample,
    block_bytes: usize,
    measured: &[Vec<Measured>],
) {
    for ((name, _), numbers) in codecs.iter().zip(measured) {
        let [stored, compress, decompress] = numbers[..] else { continue };
        table.push(vec![
            (*name).into(),
            sample.name.into(),
            block_bytes.into(),
            (1.0 / stored.median).into(),
            speed(compress).into(),
            speed(decompress).into(),
            score(stored.median, compress.median, decompress.median).into(),
        ]);
    }
}

/// Equal parts of text, JSON and binary data, as CS265's table has them.
fn mixture(table: &Table, codecs: &[(&str, Codec)], block_sizes: &[usize]) -> Table {
    let columns = [
        Column::key("codec"),
        Column::key("block_bytes"),
        Column::number("ratio", 2),
        Column::number("compress_mb_s", 0),
        Column::number("decompress_mb_s", 0),
    ];
    let mut mixture = Table::new("mixture", "Equal parts of text, JSON and binary data", &columns);
    for block_bytes in block_sizes.iter().map(usize::to_string) {
        for (name, _) in codecs {
            // Of equal parts, stored bytes and times add up, so ratios and speeds have the harmonic mean.
            let mean = |column: &str| {
                let parts = ["text", "json", "binary"].map(|data| {
                    table.number(&[("codec", name), ("data", data), ("block_bytes", &block_bytes)], column)
                });
                let parts: Vec<f64> = parts.into_iter().flatten().collect();
                (!parts.is_empty()).then(|| {
                    3.0 / (parts.iter().map(|part| 1.0 / part).sum::<f64>() * 3.0 / parts.len() as f64)
                })
            };
            mixture.push(vec![
                (*name).into(),
                block_bytes.clone().into(),
                mean("ratio").into(),
                mean("compress_mb_s").into(),
                mean("decompress_mb_s").into(),
            ]);
        }
    }
    mixture
}

fn plots(table: &Table, mixture: &Table) -> Vec<Plot> {
    let blocks = [("block_bytes", CLAIMED_BLOCK)];
    let bars = |name, title: &str, x, y, label| {
        Plot::bars(name, title, table, &blocks, Columns { series: "codec", x, y }).labels("data", label)
    };
    let speeds = |name, title: &str, y| {
        Plot::bars(name, title, mixture, &blocks, Columns { series: "block_bytes", x: "codec", y })
            .labels("codec", "MB/s")
            .logarithmic(false, true)
    };
    vec![
        bars(
            "ratio",
            "Codecs: ratio by kind of data, blocks of 4 KiB",
            "data",
            "ratio",
            "raw over stored bytes",
        )
        .logarithmic(false, true),
        bars(
            "score",
            "Codecs: cost of a byte written once, read four times",
            "data",
            "score_ns_per_byte",
            "ns a byte",
        )
        .logarithmic(false, true),
        speeds("compress", "Codecs: compressing the mixture, blocks of 4 KiB", "compress_mb_s"),
        speeds("decompress", "Codecs: decompressing the mixture, blocks of 4 KiB", "decompress_mb_s"),
    ]
}

/// Least ratio of data that a codec is said to shrink.
const SHRINKS: f64 = 1.2;

/// The least score of the fixed codecs that `is_taken`.
fn best_fixed(table: &Table, data: &str, is_taken: impl Fn(f64) -> bool) -> Option<f64> {
    let wanted = [("data", data), ("block_bytes", CLAIMED_BLOCK)];
    let fixed =
        table.find(&wanted).filter(|row| row.text("codec").is_some_and(|name| !name.starts_with(ADAPTIVE)));
    let taken = fixed.filter(|row| row.number("ratio").is_some_and(&is_taken));
    taken.filter_map(|row| row.number("score_ns_per_byte")).min_by(f64::total_cmp)
}

fn claims(table: &Table, columns: &Table) -> Vec<Claim> {
    let score_of = |codec: &str, data: &str| {
        let wanted = [("codec", codec), ("data", data), ("block_bytes", CLAIMED_BLOCK)];
        table.number(&wanted, "score_ns_per_byte")
    };
    let span = columns::CLAIMED_SPAN.to_string();
    let of_column = |(block_bytes, words): (&str, &str)| {
        let wanted = [("codec", columns::CODECS[0]), ("span", &span), ("block_bytes", block_bytes)];
        let what =
            format!("bit-packing's ratio on a column of 64-bit values that span {span}, blocks of {words}");
        Claim::at_least(4.0, what, columns.number(&wanted, "ratio"))
    };
    let mut claims: Vec<Claim> = [("4096", "4 KiB"), ("65536", "64 KiB")].map(of_column).into();
    let kinds = table.distinct("data");
    for data in &kinds {
        claims.push(Claim::at_most(
            1.1,
            format!("adaptive's score over that of the best fixed codec, `none` among them: {data}"),
            ratio(score_of(ADAPTIVE, data), best_fixed(table, data, |_| true)),
        ));
    }
    for data in &kinds {
        let Some(best) = best_fixed(table, data, |ratio| ratio >= SHRINKS) else { continue };
        claims.push(Claim::at_most(
            1.1,
            format!(
                "score of adaptive for speed over that of the best fixed codec that shrinks it by a fifth: {data}"
            ),
            ratio(score_of(ADAPTIVE_FOR_SPEED, data), Some(best)),
        ));
    }
    claims
}

/// Codec, ratio, MB/s of compressing and of decompressing, KiB of memory (CS265 2.7.5).
const DOCUMENT: [(&str, &str, f64, f64, f64, f64); 7] = [
    ("LZ4-9", "lz4hc:9", 2.7, 135.0, 3300.0, 16.0),
    ("Snappy", "snappy", 2.0, 480.0, 1400.0, 32.0),
    ("Zstd-1", "zstd:1", 2.9, 330.0, 1100.0, 256.0),
    ("Zstd-10", "zstd:10", 3.8, 65.0, 790.0, 1024.0),
    ("Zstd-22", "zstd:22", 4.3, 3.5, 725.0, 524_288.0),
    ("LZMA-1", "lzma:1", 3.1, 29.0, 85.0, 5120.0),
    ("LZMA-9", "lzma:9", 3.9, 2.8, 85.0, 65_536.0),
];
/// The one that the others are divided by: ratio, speeds and memory of LZ4-1.
const DOCUMENT_LZ4: (f64, f64, f64, f64) = (2.1, 750.0, 3500.0, 16.0);

fn comparisons(mixture: &Table, memory: &Table) -> Vec<Comparison> {
    let largest = mixture.distinct("block_bytes").pop().unwrap_or_default();
    let ours = |codec: &str, column: &str| {
        let of = |codec: &str| mixture.number(&[("codec", codec), ("block_bytes", &largest)], column);
        ratio(of(codec), of("lz4"))
    };
    let (lz4_ratio, lz4_compress, lz4_decompress, lz4_memory) = DOCUMENT_LZ4;
    let mut comparisons = Vec::new();
    let mut add =
        |what: String, theirs, ours| comparisons.push(Comparison::new("CS265 2.7.5", what, theirs, ours));
    for (name, codec, theirs, ..) in DOCUMENT {
        add(format!("ratio, {name} over LZ4-1"), theirs / lz4_ratio, ours(codec, "ratio"));
    }
    for (name, codec, _, theirs, ..) in DOCUMENT {
        add(
            format!("MB/s compressing, {name} over LZ4-1"),
            theirs / lz4_compress,
            ours(codec, "compress_mb_s"),
        );
    }
    for (name, codec, _, _, theirs, _) in DOCUMENT {
        add(
            format!("MB/s decompressing, {name} over LZ4-1"),
            theirs / lz4_decompress,
            ours(codec, "decompress_mb_s"),
        );
    }
    for (name, codec, .., theirs) in DOCUMENT {
        let of = |codec: &str| memory.number(&[("codec", codec)], "memory_kib");
        add(format!("memory, {name} over LZ4-1"), theirs / lz4_memory, ratio(of(codec), of("lz4")));
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;

    #[test]
    fn every_kind_of_codec_is_compared() {
        let compared: Vec<Codec> = NAMES.iter().map(|name| name.parse().unwrap()).collect();
        for codec in Codec::ALL {
            let same = |other: &Codec| std::mem::discriminant(other) == std::mem::discriminant(&codec);
            // A dictionary is trained for a table; for a block alone that codec is plain Zstandard.
            let is_of_tables = matches!(codec, Codec::ZstdDictionary { .. });
            assert!(is_of_tables || compared.iter().any(same), "{codec} is not compared");
        }
    }

    fn row(table: &mut Table, codec: &str, data: &str, ratio: f64, score: f64) {
        let row: Vec<Cell> = vec![
            codec.into(),
            data.into(),
            4096u64.into(),
            ratio.into(),
            Cell::Missing,
            Cell::Missing,
            score.into(),
        ];
        table.push(row);
    }

    #[test]
    fn claims_follow_from_the_rows() {
        let mut table = Table::new("data", "x", &COLUMNS);
        for (codec, ratio, score) in [
            ("none", 1.0, 2.5),
            ("lz4", 2.0, 4.0),
            ("zstd:1", 3.0, 5.0),
            (ADAPTIVE, 1.0, 2.6),
            (ADAPTIVE_FOR_SPEED, 2.0, 4.2),
        ] {
            row(&mut table, codec, "text", ratio, score);
        }
        // Nothing shrinks noise.
        row(&mut table, "none", "random", 1.0, 2.5);
        row(&mut table, ADAPTIVE, "random", 1.0, 2.75);
        let names = [
            Column::key("codec"),
            Column::key("span"),
            Column::key("block_bytes"),
            Column::number("ratio", 2),
        ];
        let mut columns = Table::new("columns", "x", &names);
        for (block_bytes, ratio) in [(4096u64, 4.1), (65_536, 4.2)] {
            columns.push(vec![
                "bit-packing".into(),
                columns::CLAIMED_SPAN.into(),
                block_bytes.into(),
                ratio.into(),
            ]);
        }
        let claims = claims(&table, &columns);
        let measured: Vec<Option<f64>> = claims.iter().map(|claim| claim.measured).collect();
        assert_eq!(measured, [Some(4.1), Some(4.2), Some(2.6 / 2.5), Some(2.75 / 2.5), Some(4.2 / 4.0)]);
    }

    #[test]
    fn a_score_is_bytes_and_times() {
        assert!((score(0.5, 2.0, 0.25) - (6.0 * 1.25 + 2.0 + 1.0)).abs() < 1e-12);
        assert_eq!(speed(Measured::exact(0.0)), None);
        assert_eq!(speed(Measured::exact(2.0)).map(|speed| speed.median), Some(500.0));
    }
}
