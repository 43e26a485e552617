//! Benchmark of the codecs: ratio, speed both ways, and a score, for samples like text, JSON, integers and
//! noise.
//!
//! `cargo run --release -p esker-codec --example codec_bench [block bytes [codec ...]]`
//!
//! Each sample has 1 MiB, in blocks of 4,096 bytes by default, from a fixed seed. The score is the cost of a
//! block that is written once and read four times from the page cache:
//! `stored bytes / 400 MB/s + time to compress + 4 x time to decompress`, in milliseconds for the sample,
//! less is better. Of each block the best of some rounds counts, in which the codecs take turns: a busy
//! machine disturbs little. "best" is the least score among the other codecs that shrink the sample by a
//! fifth, or among all if none does: under this score blocks are nearly always best left raw, which is why
//! upper levels are not compressed by default.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod samples;

use esker_codec::dictionary::SAMPLE_BYTES;
use esker_codec::{Codec, DictionaryDecoder, DictionaryEncoder, History, decompress_with};
use samples::{SAMPLES, Sample};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;
/// A codec that has taken this long for a sample takes no more turns.
const LONGEST: Duration = Duration::from_secs(2);
const DEVICE_BYTES_PER_MS: f64 = 400_000.0;
const READS: f64 = 4.0;

struct Measured {
    codec: Codec,
    raw_bytes: usize,
    stored_bytes: usize,
    /// Best times of each block, to compress and to decompress.
    best: Vec<(Duration, Duration)>,
    spent: Duration,
    /// As of a long table: all rounds share one.
    history: History,
}

impl Measured {
    fn compress_ms(&self) -> f64 {
        self.best.iter().map(|(compress, _)| compress).sum::<Duration>().as_secs_f64() * 1e3
    }

    fn decompress_ms(&self) -> f64 {
        self.best.iter().map(|(_, decompress)| decompress).sum::<Duration>().as_secs_f64() * 1e3
    }

    fn score(&self) -> f64 {
        self.stored_bytes as f64 / DEVICE_BYTES_PER_MS + self.compress_ms() + READS * self.decompress_ms()
    }
}

/// The dictionary that a table of these blocks would have.
fn dictionary(codec: Codec, sample: &Sample) -> Option<(DictionaryEncoder, DictionaryDecoder)> {
    let Codec::ZstdDictionary { level } = codec else { return None };
    let mut samples = sample.blocks.concat();
    samples.truncate(SAMPLE_BYTES);
    let lengths: Vec<usize> = samples.chunks(4096).map(<[u8]>::len).collect();
    let start = Instant::now();
    let encoder = DictionaryEncoder::train(&samples, &lengths, level)?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    let decoder = DictionaryDecoder::new(encoder.bytes())?;
    let (len, open) = (encoder.bytes().len(), decoder.memory_bytes());
    println!("dictionary: {len} bytes, trained in {took:.0} ms, {open} bytes while a table is open");
    Some((encoder, decoder))
}

fn measure(codecs: &[Codec], sample: &Sample) -> Vec<Measured> {
    let dictionaries: Vec<_> = codecs.iter().map(|&codec| dictionary(codec, sample)).collect();
    let raw_bytes = sample.blocks.iter().map(Vec::len).sum();
    let mut all: Vec<Measured> = codecs
        .iter()
        .map(|&codec| Measured {
            codec,
            raw_bytes,
            stored_bytes: 0,
            best: vec![(Duration::MAX, Duration::MAX); sample.blocks.len()],
            spent: Duration::ZERO,
            history: History::default(),
        })
        .collect();
    let mut scratch = Vec::new();
    for _ in 0..ROUNDS {
        for (measured, dictionary) in all.iter_mut().zip(&dictionaries) {
            if measured.spent < LONGEST {
                round(measured, dictionary.as_ref(), sample, &mut scratch);
            }
        }
    }
    all
}

fn round(
    measured: &mut Measured,
    dictionary: Option<&(DictionaryEncoder, DictionaryDecoder)>,
    sample: &Sample,
    scratch: &mut Vec<u8>,
) {
    let encoder = dictionary.map(|(encoder, _)| encoder);
    let decoder = dictionary.map(|(_, decoder)| decoder);
    let mut out = vec![0; sample.blocks.iter().map(Vec::len).max().unwrap_or_default()];
    measured.stored_bytes = 0;
    for (raw, best) in sample.blocks.iter().zip(&mut measured.best) {
        let start = Instant::now();
        let stored =
            measured.codec.compress_with(black_box(raw), &[], encoder, &mut measured.history, scratch);
        let compressing = start.elapsed();
        let mut decompressing = Duration::ZERO;
        // A raw block is used where it lies.
        if stored.codec_id != esker_codec::id::NONE {
            let start = Instant::now();
            decompress_with(stored.codec_id, decoder, black_box(stored.bytes), &mut out[..raw.len()])
                .expect("just compressed");
            decompressing = start.elapsed();
            black_box(&out);
        }
        *best = (best.0.min(compressing), best.1.min(decompressing));
        measured.stored_bytes += stored.bytes.len();
        measured.spent += compressing + decompressing;
    }
}

fn report(sample: &Sample, all: &[Measured]) {
    println!("{:<36} {:>6} {:>10} {:>10} {:>9}", sample.name, "ratio", "MB/s in", "MB/s out", "score");
    for measured in all {
        let speed = |ms: f64| {
            if ms < 1e-3 { "-".to_owned() } else { format!("{:.0}", measured.raw_bytes as f64 / ms / 1e3) }
        };
        println!(
            "  {:<34} {:>6.2} {:>10} {:>10} {:>9.3}",
            measured.codec.to_string(),
            measured.raw_bytes as f64 / measured.stored_bytes as f64,
            speed(measured.compress_ms()),
            speed(measured.decompress_ms()),
            measured.score()
        );
    }
    let fixed = || all.iter().filter(|measured| !matches!(measured.codec, Codec::Adaptive(_)));
    let shrinks = |measured: &&Measured| measured.stored_bytes * 6 <= measured.raw_bytes * 5;
    let least = |a: &&Measured, b: &&Measured| a.score().total_cmp(&b.score());
    let Some(best) = fixed().filter(shrinks).min_by(least).or_else(|| fixed().min_by(least)) else { return };
    for adaptive in all.iter().filter(|measured| matches!(measured.codec, Codec::Adaptive(_))) {
        let excess = 100.0 * (adaptive.score() / best.score() - 1.0);
        println!("  {}: {excess:+.1} % against the best, {}", adaptive.codec, best.codec);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let block_bytes = match arguments.next().map(|text| text.parse::<usize>()) {
        None => 4096,
        Some(Ok(block_bytes @ 64..=1_048_576)) => block_bytes,
        Some(_) => return println!("blocks have 64 to 1048576 bytes"),
    };
    let mut codecs = Vec::new();
    for text in arguments {
        match text.parse() {
            Ok(codec) => codecs.push(codec),
            Err(error) => return println!("{error}"),
        }
    }
    if codecs.is_empty() {
        codecs = Codec::ALL.to_vec();
        codecs.extend([Codec::Zstd { level: 1 }, Codec::Zstd { level: 10 }]);
    }
    for make in SAMPLES {
        let sample = make(block_bytes);
        report(&sample, &measure(&codecs, &sample));
    }
}
