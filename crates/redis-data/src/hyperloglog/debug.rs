//! What PFDEBUG shows of a HyperLogLog, and the test of PFSELFTEST.

use super::{HyperLogLogError, REGISTERS, SPARSE_MAX_BYTES, check, header, make_dense, maximum, sparse};
use super::{add, count_union, empty};

/// Elements of [`self_test`].
const TESTED_ELEMENTS: u64 = 100_000;

/// Whether a checked string is dense.
pub fn is_dense(string: &[u8]) -> bool {
    header::encoding(string) == header::DENSE
}

/// Makes the string dense; `false` if it was.
///
/// # Errors
///
/// If the string is no HyperLogLog.
pub fn to_dense(string: &mut Vec<u8>) -> Result<bool, HyperLogLogError> {
    check(string)?;
    let is_sparse = !is_dense(string);
    make_dense(string);
    Ok(is_sparse)
}

/// The value of each register.
///
/// # Errors
///
/// If the string is no HyperLogLog.
pub fn registers(string: &[u8]) -> Result<Box<[u8; REGISTERS]>, HyperLogLogError> {
    let mut registers = Box::new([0; REGISTERS]);
    maximum(string, &mut registers)?;
    Ok(registers)
}

/// The codes of a checked string: `z` and `Z` are zeros in one and two bytes, `v` a value and how often it
/// is repeated. `None` if the string is dense.
///
/// ```
/// use esker_redis_data::hyperloglog;
/// assert_eq!(hyperloglog::describe_sparse(&hyperloglog::empty()).unwrap(), "Z:16384");
/// ```
pub fn describe_sparse(string: &[u8]) -> Option<String> {
    if is_dense(string) {
        return None;
    }
    let words = sparse::runs(header::registers(string)).map(|run| match (run.value, run.code_bytes) {
        (0, 1) => format!("z:{}", run.len),
        (0, _) => format!("Z:{}", run.len),
        (value, _) => format!("v:{value},{}", run.len),
    });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// Adds elements to a sparse and to a dense string, and checks at each power of ten that both count the same
/// and nearly the true number. Takes some milliseconds.
///
/// # Errors
///
/// What is wrong, in words.
pub fn self_test() -> Result<(), String> {
    let (mut growing, mut dense) = (empty(), empty());
    make_dense(&mut dense);
    let mut checkpoint = 1;
    for number in 1..=TESTED_ELEMENTS {
        for string in [&mut growing, &mut dense] {
            add(string, [number.to_le_bytes()], SPARSE_MAX_BYTES).map_err(|error| error.to_string())?;
        }
        if number != checkpoint {
            continue;
        }
        checkpoint *= 10;
        let counts = [&growing, &dense].map(|string| count_union([string.as_slice()]));
        let [Ok(sparse_count), Ok(dense_count)] = counts else {
            return Err(format!("the strings are damaged after {number} elements"));
        };
        if sparse_count != dense_count {
            return Err(format!("sparse counts {sparse_count}, dense {dense_count} of {number} elements"));
        }
        // Six standard errors, as the estimate has 1.04 / sqrt(registers).
        let most = (1.04 / (REGISTERS as f64).sqrt() * 6.0 * number as f64).ceil() as u64;
        if dense_count.abs_diff(number) > most {
            return Err(format!("{dense_count} counted of {number} elements"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_self_test_passes_and_registers_are_those_of_either_form() {
        self_test().expect("it passes");
        let mut string = empty();
        add(&mut string, ["a", "b", "c"], SPARSE_MAX_BYTES).expect("a HyperLogLog");
        let before = registers(&string).expect("a HyperLogLog");
        assert_eq!(before.iter().filter(|value| **value > 0).count(), 3);
        assert_eq!(to_dense(&mut string), Ok(true));
        assert_eq!(to_dense(&mut string), Ok(false));
        assert_eq!(registers(&string).expect("a HyperLogLog"), before);
    }
}
