//! Generates the data to compress: a fixed text, and data from a fixed seed, independent of the run's, so
//! that ratios of two runs can be compared.

use esker::parts::env::{Random, SeededRandom};

/// What one kind of data looks like.
#[derive(Clone, Debug)]
pub(super) struct DataSample {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// Appends some bytes of a kind of data.
type Push = fn(&SeededRandom, &mut Vec<u8>);

/// The name of integers of 64 bits that lie within 2^16 of each other.
pub(super) const NEAR: &str = "integers, near";

/// English, with code and tables in it: blocks are compressed alone, so it does not matter that it repeats
/// after its end. Documents of this project as they were once: they stay, so that ratios stay comparable.
const TEXT: &str = include_str!("../../../samples/prose.txt");

const SYLLABLES: [&str; 24] = [
    "an", "ber", "con", "del", "e", "fa", "go", "her", "in", "ka", "lo", "mar", "ne", "o", "pra", "qui",
    "ro", "sta", "ti", "un", "ver", "wa", "y", "zo",
];

impl DataSample {
    /// One of each kind, of so many bytes.
    pub(super) fn all(bytes: usize) -> Vec<DataSample> {
        let makers: [(&'static str, Push); 6] = [
            ("json", push_json),
            ("binary", push_binary),
            (NEAR, |random, out| out.extend((5_000_000_000 + random.below(1 << 16)).to_le_bytes())),
            ("integers, rising", push_rising),
            ("integers, few", |random, out| {
                let one_of_forty = few(random).wrapping_mul(0x2545_F491_4F6C_DD1D) >> 20;
                out.extend(one_of_forty.to_le_bytes());
            }),
            ("random", |random, out| out.extend(random.next_u64().to_le_bytes())),
        ];
        let text = TEXT.bytes();
        let text = DataSample { name: "text", bytes: text.cycle().take(bytes).collect() };
        let made = makers.into_iter().enumerate().map(|(number, (name, push))| {
            let random = SeededRandom::new(number as u64);
            let mut out = Vec::with_capacity(bytes + 256);
            while out.len() < bytes {
                push(&random, &mut out);
            }
            out.truncate(bytes);
            DataSample { name, bytes: out }
        });
        std::iter::once(text).chain(made).collect()
    }
}

/// A number below forty, small ones more often.
fn few(random: &SeededRandom) -> u64 {
    let bound = random.below(40) + 1;
    random.below(bound)
}

fn word(random: &SeededRandom) -> String {
    // Two thirds of a text are a few hundred words.
    let number = if random.below(3) < 2 { random.below(300) } else { random.below(20_000) };
    let word = SeededRandom::new(number);
    (0..2 + word.below(3)).map(|_| SYLLABLES[word.below(24) as usize]).collect()
}

fn push_json(random: &SeededRandom, out: &mut Vec<u8>) {
    let status = ["delivered", "open", "returned"][few(random) as usize % 3];
    let (name, city) = (word(random), word(random));
    let order = format!(
        "{{\"order\":{},\"placed_ms\":{},\"customer\":{{\"name\":\"{name}\",\"city\":\"{city}\",\"mail\":\"{name}@{city}.example\"}},\
         \"status\":\"{status}\",\"items\":[{{\"article\":\"{}\",\"count\":{},\"cents\":{}}}],\"remark\":\"{} {} {}\"}}\n",
        random.below(1 << 40),
        1_700_000_000_000 + random.below(1 << 36),
        word(random),
        1 + few(random),
        random.below(100_000),
        word(random),
        word(random),
        word(random),
    );
    out.extend_from_slice(order.as_bytes());
}

/// A record: number, price as a floating-point number, quantity, symbol, and a tail of flags of any length,
/// so that nothing lies at a fixed distance.
fn push_binary(random: &SeededRandom, out: &mut Vec<u8>) {
    out.extend(random.next_u64().to_be_bytes());
    out.extend((100.0 + random.below(10_000) as f64 / 100.0).to_le_bytes());
    out.extend((100 * (1 + few(random) as u32)).to_le_bytes());
    let symbol = SeededRandom::new(few(random) * 5 + random.below(5));
    out.extend((0..6).map(|_| b'A' + symbol.below(26) as u8));
    out.extend(std::iter::repeat_n(0x80, random.below(6) as usize));
}

/// Microseconds of events, about a thousand apart.
fn push_rising(random: &SeededRandom, out: &mut Vec<u8>) {
    let last = out.last_chunk::<8>().map_or(1_700_000_000_000_000, |last| u64::from_le_bytes(*last));
    out.extend((last + 900 + random.below(200)).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_match_their_names() {
        let samples = DataSample::all(8192);
        assert!(samples.iter().all(|sample| sample.bytes.len() == 8192));
        let words = |name: &str| {
            let sample = samples.iter().find(|sample| sample.name == name).unwrap();
            let chunks = sample.bytes.chunks_exact(8);
            chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect::<Vec<_>>()
        };
        let near = words(NEAR);
        assert!(near.iter().max().unwrap() - near.iter().min().unwrap() < 1 << 16);
        assert!(words("integers, rising").is_sorted());
        let mut few = words("integers, few");
        few.sort_unstable();
        few.dedup();
        assert!((20..=40).contains(&few.len()));
        assert_eq!(DataSample::all(4096)[1].bytes, samples[1].bytes[..4096]);
    }
}
