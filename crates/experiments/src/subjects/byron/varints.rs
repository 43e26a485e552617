//! The document's expectation of a varint's length (its section 3.3), beside the mean of numbers encoded as
//! tables encode them.

use crate::context::Context;
use crate::table::{Column, Table};
use esker::parts::base::coding::put_varint;
use esker::parts::env::{Random, SeededRandom};

/// Bits of a byte that hold the number.
const PAYLOAD_BITS: u32 = 7;
/// The document's uniform numbers have 32 bits, its geometric ones this probability.
const UNIFORM_BITS: u32 = 32;
const GEOMETRIC: f64 = 0.2;

pub(super) const UNIFORM: &str = "uniform, 32 bits";
pub(super) const SKEWED: &str = "geometric, p = 0.2";

/// Expected bytes by the tail sum: one, and one more for each power of 128 that the number reaches. The
/// document's formula gives 0 no byte; a varint has one.
fn expected(reaches: impl Fn(f64) -> f64) -> f64 {
    1.0 + (1..10).map(|byte| reaches(f64::from(PAYLOAD_BITS * byte).exp2())).sum::<f64>()
}

fn uniform_expectation() -> f64 {
    let numbers = f64::from(UNIFORM_BITS).exp2();
    expected(|bound| (1.0 - bound / numbers).max(0.0))
}

fn geometric_expectation() -> f64 {
    expected(|bound| (1.0 - GEOMETRIC).powf(bound))
}

fn mean_len(count: u32, mut number: impl FnMut() -> u64) -> f64 {
    let mut bytes = Vec::new();
    (0..count).for_each(|_| put_varint(&mut bytes, number()));
    bytes.len() as f64 / f64::from(count)
}

/// A number of failures before the first success, by inversion.
fn geometric(random: &SeededRandom) -> u64 {
    let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    ((1.0 - unit).ln() / (1.0 - GEOMETRIC).ln()) as u64
}

pub(super) fn table(context: &Context<'_>) -> Table {
    let columns = [
        Column::key("numbers"),
        Column::number("expected_bytes", 6),
        Column::number("measured_bytes", 6),
        Column::number("document_bytes", 2),
    ];
    let mut table = Table::new("varints", "Bytes of a varint: expected, and encoded", &columns);
    let (count, random) = (context.pick(10_000, 100_000, 10_000_000), context.random(9));
    let measured = mean_len(count, || random.next_u64() >> (u64::BITS - UNIFORM_BITS));
    table.push(vec![UNIFORM.into(), uniform_expectation().into(), measured.into(), 4.94.into()]);
    let measured = mean_len(count, || geometric(&random));
    table.push(vec![SKEWED.into(), geometric_expectation().into(), measured.into(), 1.0.into()]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_those_of_the_document_but_for_its_power() {
        assert!((uniform_expectation() - 4.937).abs() < 0.001);
        // 0.8 to the 128th is 3.9e-13, where the document prints 1.7e-31.
        let beyond_one_byte = geometric_expectation() - 1.0;
        assert!((3.8e-13..4.1e-13).contains(&beyond_one_byte), "{beyond_one_byte}");
    }
}
