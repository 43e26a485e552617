//! Counts collisions of hash functions and measures their avalanche: what CS265's table (2.2.1) has words
//! for.
//!
//! Both are counts that depend on the keys alone, so a run on any machine has the same.

use super::functions::{HashFunction, KeyKind};
use crate::context::Context;
use crate::table::{Column, Table};

/// Collisions are counted in the highest bits of a hash: in all 64 there would be none to count.
const COLLISION_BITS: u32 = 32;
/// Length of the keys whose bits are flipped: the length of a key in most tables here.
const FLIPPED_BYTES: usize = 16;

pub(super) fn steps() -> usize {
    HashFunction::ALL.len()
}

/// Collisions by kind of keys beside what is to be expected of a random function, and how a flipped bit of
/// the key changes the hash.
pub(super) fn table(context: &mut Context<'_>) -> Table {
    let columns = [
        Column::key("hash"),
        Column::number("collisions_random", 0),
        Column::number("collisions_decimal", 0),
        Column::number("collisions_counter", 0),
        Column::number("collisions_expected", 0),
        Column::number("flipped_percent", 2),
        Column::number("worst_bit_percent", 1),
    ];
    let title = "Collisions in the highest 32 bits, and bits of the hash that change with one of the key";
    let mut table = Table::new("quality", title, &columns);
    let keys = context.pick(20_000, 200_000, 10_000_000);
    let samples = context.pick(200, 1_000, 10_000);
    for subject in HashFunction::ALL {
        context.step(&format!("collisions and avalanche of {}", subject.name));
        let [random, decimal, counter] = KeyKind::ALL.map(|kind| collisions(subject, kind, keys));
        let avalanche = Avalanche::of(subject, samples);
        table.push(vec![
            subject.name.into(),
            random.into(),
            decimal.into(),
            counter.into(),
            expected_collisions(keys).into(),
            (avalanche.flipped * 100.0).into(),
            (avalanche.worst * 100.0).into(),
        ]);
    }
    table
}

/// Keys, of so many, whose hash another one has already.
fn collisions(subject: &HashFunction, kind: KeyKind, keys: u64) -> u64 {
    let mut key = Vec::new();
    let mut hashes: Vec<u32> = (0..keys)
        .map(|number| {
            kind.write(number, &mut key);
            ((subject.hash)(&key) >> (u64::BITS - COLLISION_BITS)) as u32
        })
        .collect();
    hashes.sort_unstable();
    hashes.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
}

/// What [`collisions`] finds on average if every key gets a random value: keys less occupied values.
fn expected_collisions(keys: u64) -> f64 {
    let (keys, values) = (keys as f64, f64::from(COLLISION_BITS).exp2());
    // `exp_m1` keeps the digits that 1 - exp(-x) loses for small x.
    keys + values * (-keys / values).exp_m1()
}

/// How a flipped bit of the key changes the bits of the hash.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Avalanche {
    /// Share of the hash's bits that change, over all bits of the key; a half of a random function's.
    flipped: f64,
    /// The pair of a key's and a hash's bit that is farthest from a half: the share of keys in which flipping
    /// the one changes the other. 0 and 1 are equally bad, so this is the distance from the nearer of them:
    /// 0.5 at best, 0 where the one decides the other.
    worst: f64,
}

impl Avalanche {
    fn of(subject: &HashFunction, samples: u64) -> Avalanche {
        let mut changed = vec![[0u32; 64]; FLIPPED_BYTES * 8];
        let mut key = Vec::with_capacity(FLIPPED_BYTES);
        for number in 0..samples {
            KeyKind::Random.write(number, &mut key);
            let before = (subject.hash)(&key);
            for (bit, changed) in changed.iter_mut().enumerate() {
                let mask = 1 << (bit % 8);
                key[bit / 8] ^= mask;
                let difference = before ^ (subject.hash)(&key);
                key[bit / 8] ^= mask;
                for (place, count) in changed.iter_mut().enumerate() {
                    *count += (difference >> place & 1) as u32;
                }
            }
        }
        let used = 64 - subject.bits as usize;
        let shares = changed.iter().flat_map(|of_bit| &of_bit[used..]);
        let shares: Vec<f64> = shares.map(|&count| f64::from(count) / samples as f64).collect();
        let worst = shares.iter().map(|&share| share.min(1.0 - share)).fold(0.5, f64::min);
        Avalanche { flipped: shares.iter().sum::<f64>() / shares.len() as f64, worst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> &'static HashFunction {
        HashFunction::ALL.iter().find(|subject| subject.name == name).unwrap()
    }

    #[test]
    fn expected_collisions_are_those_of_the_birthday_problem() {
        // Few of many: n (n - 1) / 2 pairs, each equal with probability 2^-32.
        let few = expected_collisions(200_000);
        let pairs = 200_000.0 * 199_999.0 / 2.0 / f64::from(COLLISION_BITS).exp2();
        assert!((few / pairs - 1.0).abs() < 1e-4, "{few} {pairs}");
        assert!(expected_collisions(1) < 1e-9);
    }

    /// A code that is linear in its input decides each bit of the hash by the bits of the key: none is
    /// changed by chance. It has no collisions among numbers of fewer bits than its own either.
    #[test]
    fn a_linear_code_has_no_avalanche_and_a_good_hash_has_one() {
        let linear = Avalanche::of(function("crc32c"), 100);
        assert_eq!(linear.worst, 0.0);
        assert_eq!(collisions(function("crc32c"), KeyKind::Counter, 100_000), 0);
        let good = Avalanche::of(function("xxh3-64"), 500);
        assert!((0.49..0.51).contains(&good.flipped), "{good:?}");
        assert!(good.worst > 0.38, "{good:?}");
    }
}
