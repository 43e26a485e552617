//! Fuzz target for what merge operators read: sets, numbers, and the texts that name operators in stored
//! options.
//!
//! The first byte selects: 0 a set, 1 a number, 2 the text of an operator.

use super::random_text;
use esker_env::{Random, SeededRandom};
use esker_iter::OperandMerger;
use esker_iter::operator::{MergeOperator, set};

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the rest is a valid encoding of the kind that the first byte selects; what is accepted must come
/// back the same when it is encoded again.
///
/// # Panics
/// If reading the bytes panics, or if two ways of reading disagree.
pub fn accepts(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((0, bytes)) => accepts_set(bytes),
        Some((1, bytes)) => accepts_number(bytes),
        Some((2, bytes)) => std::str::from_utf8(bytes).is_ok_and(accepts_operator),
        _ => false,
    }
}

fn operand_merger(operator: MergeOperator) -> OperandMerger {
    OperandMerger::new(operator, "fuzz".into())
}

fn accepts_set(bytes: &[u8]) -> bool {
    let union = operand_merger(MergeOperator::set_union());
    let elements = set::elements(bytes);
    assert_eq!(elements.is_ok(), union.check_operand(b"k", bytes).is_ok());
    let Ok(elements) = elements else {
        assert!(union.full_merge(b"k", Some(bytes), &[&[]]).is_err());
        return false;
    };
    assert_eq!(set::encode(&elements), bytes);
    let (some, others) = elements.split_at(elements.len() / 2);
    let (some, others) = (set::encode(some), set::encode(others));
    assert_eq!(union.full_merge(b"k", Some(&others), &[&some]).ok().as_deref(), Some(bytes));
    assert_eq!(union.partial_merge(b"k", &[&some, bytes]).as_deref(), Some(bytes));
    true
}

fn accepts_number(bytes: &[u8]) -> bool {
    let [checked, wrapping] =
        [MergeOperator::counter_checked(), MergeOperator::counter_wrapping()].map(operand_merger);
    let is_number = checked.check_operand(b"k", bytes).is_ok();
    let [same, again] =
        [&checked, &wrapping].map(|counter| counter.full_merge(b"k", Some(bytes), &[b"0"]).ok());
    assert_eq!((is_number, &same), (same.is_some(), &again));
    if let Some(number) = same {
        assert_eq!(wrapping.full_merge(b"k", Some(&number), &[b"1", b"-1"]).ok(), Some(number));
    }
    is_number
}

fn accepts_operator(text: &str) -> bool {
    let Some(operator) = MergeOperator::parse(text) else { return false };
    assert_eq!(operator.text(), text);
    assert_eq!(operator.is_supplied(), operator.custom_name().is_none());
    let _ = operator.validate();
    let _ = operand_merger(operator).full_merge(b"k", None, &[b"1", b"2"]);
    true
}

/// A set, a number or an operator.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let kind = random.below(3) as u8;
    let rest = match kind {
        0 => set::encode((0..random.below(8)).map(|_| random_text(random, 200))),
        1 => (random.next_u64() as i64 >> random.below(63)).to_string().into_bytes(),
        _ => {
            let own = String::from_utf8_lossy(&random_text(random, 9)).into_owned();
            let append = MergeOperator::append(super::random_bytes(random, 9));
            let all = ["counter", "counter-checked", "set-union", "min", "max", append.text()];
            match all.get(random.below(8) as usize) {
                Some(text) => (*text).into(),
                None => format!("custom:{own}").into_bytes(),
            }
        }
    };
    [vec![kind], rest].concat()
}
