//! Samples from a seed that resemble stored data.

/// Bytes of a sample.
const SAMPLE_BYTES: usize = 1 << 20;

/// A sample, cut into blocks.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) blocks: Vec<Vec<u8>>,
}

/// Makers of samples, by the bytes of a block.
pub(crate) const SAMPLES: [fn(usize) -> Sample; 9] = [
    |block| cut("text", &text(), block),
    |block| cut("json", &json(), block),
    |block| cut("integers, 64 bits within 2^16", &near(1 << 16), block),
    |block| cut("integers, 64 bits within 50,000", &near(50_000), block),
    |block| cut("integers, 64 bits, rising", &rising(), block),
    |block| cut("integers, 32 bits, few values", &few(), block),
    |block| cut("integers, 64 bits, forty values", &forty(), block),
    |block| cut("binary records", &records(), block),
    |block| cut("random", &noise(), block),
];

fn cut(name: &'static str, bytes: &[u8], block_bytes: usize) -> Sample {
    Sample { name, blocks: bytes[..SAMPLE_BYTES].chunks(block_bytes).map(<[u8]>::to_vec).collect() }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Small numbers often, great ones seldom: rank r about as often as 1 / r, as words are.
    fn rank(&mut self, end: usize) -> usize {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((end as f64).powf(unit) as usize - 1).min(end - 1)
    }
}

/// Words of one to four syllables, frequent ones short.
fn vocabulary(random: &mut Random, words: usize) -> Vec<String> {
    const STARTS: [&str; 20] = [
        "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "th", "st", "w", "pr", "ch", "sh",
        "",
    ];
    const ENDS: [&str; 16] =
        ["e", "a", "o", "i", "er", "an", "in", "on", "es", "ed", "ing", "u", "al", "or", "ea", "ent"];
    (0..words)
        .map(|rank| {
            let syllables = 1 + u64::from(rank > 30) + random.below(2) + u64::from(rank > 1000);
            (0..syllables)
                .map(|_| {
                    let (start, end) = (random.below(20) as usize, random.below(16) as usize);
                    [STARTS[start], ENDS[end]].concat()
                })
                .collect()
        })
        .collect()
}

fn text() -> Vec<u8> {
    let mut random = Random(1);
    let words = vocabulary(&mut random, 8_000);
    let mut out = String::new();
    let mut starts = true;
    while out.len() < SAMPLE_BYTES {
        let word = &words[random.rank(words.len())];
        if starts {
            out.extend(word.chars().take(1).flat_map(char::to_uppercase));
            out.extend(word.chars().skip(1));
        } else {
            out.push_str(word);
        }
        starts = false;
        match random.below(60) {
            0..=3 => {
                out.push_str(". ");
                starts = true;
            }
            4..=8 => out.push_str(", "),
            9 => {
                out.push_str(".\n\n");
                starts = true;
            }
            _ => out.push(' '),
        }
    }
    out.into_bytes()
}

fn json() -> Vec<u8> {
    let mut random = Random(2);
    let words = vocabulary(&mut random, 3_000);
    let mut out = String::new();
    let mut created = 1_700_000_000_000u64;
    while out.len() < SAMPLE_BYTES {
        created += random.below(5_000);
        let word = |random: &mut Random| words[random.rank(3_000)].clone();
        let (first, last, city) = (word(&mut random), word(&mut random), word(&mut random));
        let status = ["active", "pending", "closed"][random.rank(3)];
        out.push_str(&format!(
            "{{\"id\":{},\"created_at\":{created},\"user\":{{\"name\":\"{first} {last}\",\"email\":\"{first}.{last}@{city}.example\"}},\
             \"status\":\"{status}\",\"amount\":{}.{:02},\"tags\":[\"{}\",\"{}\"],\"note\":\"{} {} {}\"}}\n",
            random.next() >> 20,
            random.below(5_000),
            random.below(100),
            word(&mut random),
            word(&mut random),
            word(&mut random),
            word(&mut random),
            word(&mut random),
        ));
    }
    out.into_bytes()
}

fn near(span: u64) -> Vec<u8> {
    let mut random = Random(3);
    (0..SAMPLE_BYTES / 8).flat_map(|_| (5_000_000_000 + random.below(span)).to_le_bytes()).collect()
}

/// Numbers of 44 bits, small places among forty more often.
fn forty() -> Vec<u8> {
    let mut random = Random(8);
    (0..SAMPLE_BYTES / 8)
        .flat_map(|_| {
            let bound = random.below(40) + 1;
            (random.below(bound).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20).to_le_bytes()
        })
        .collect()
}

fn rising() -> Vec<u8> {
    let (mut random, mut now) = (Random(4), 1_700_000_000_000_000u64);
    (0..SAMPLE_BYTES / 8)
        .flat_map(|_| {
            now += 900 + random.below(200);
            now.to_le_bytes()
        })
        .collect()
}

fn few() -> Vec<u8> {
    let mut random = Random(5);
    let values: Vec<u32> = (0..40).map(|_| random.next() as u32).collect();
    (0..SAMPLE_BYTES / 4).flat_map(|_| values[random.rank(40)].to_le_bytes()).collect()
}

/// Records of an order book: an id, a price, a quantity, flags, a symbol.
fn records() -> Vec<u8> {
    let mut random = Random(6);
    let symbols: Vec<[u8; 6]> =
        (0..200).map(|_| std::array::from_fn(|_| b'A' + random.below(26) as u8)).collect();
    let mut out = Vec::new();
    while out.len() < SAMPLE_BYTES {
        out.extend_from_slice(&random.next().to_be_bytes());
        out.extend_from_slice(&(100.0 + random.below(10_000) as f64 / 100.0).to_le_bytes());
        out.extend_from_slice(&(100 * (1 + random.rank(50) as u32)).to_le_bytes());
        out.extend_from_slice(&symbols[random.rank(200)]);
        // Of any length, so that nothing lies at a fixed distance.
        out.extend_from_slice(&[0x80; 5][..random.below(6) as usize]);
    }
    out
}

fn noise() -> Vec<u8> {
    let mut random = Random(7);
    (0..SAMPLE_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}
