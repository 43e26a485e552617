//! The merge operators and the compaction filter that keyspaces under test have, and what the oracle takes
//! them to do: written down a second time, so that a mistake in one of the two is noticed.

use esker::compaction_filter::{CompactionFilter, Decision};
use esker::merge::{Merge, MergeError};
use esker::parts::base::checksum;
use esker::{KeyspaceOptions, MergeOperator};
use std::sync::Arc;

/// What operands do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// They are appended, with commas.
    Append,
    /// The greatest stays.
    Max,
    /// Each makes a new hash of the value and itself: no order of them but the right one gives the right
    /// value, and no two of them make one.
    Chain,
}

impl Operator {
    /// The operator that a keyspace with these options has.
    ///
    /// # Panics
    /// If it is none of those that tests use.
    pub fn of(options: &KeyspaceOptions) -> Option<Operator> {
        let text = options.operator()?.text();
        Some(match text {
            "append:," => Operator::Append,
            "max" => Operator::Max,
            "custom:chain" => Operator::Chain,
            _ => panic!("{text} is no operator of a test"),
        })
    }

    /// The operator as the database takes it.
    pub fn make(self) -> MergeOperator {
        match self {
            Operator::Append => MergeOperator::append(","),
            Operator::Max => MergeOperator::max(),
            Operator::Chain => MergeOperator::custom(Arc::new(Chain)),
        }
    }

    /// What an operand makes of a value.
    pub fn apply(self, value: Option<Vec<u8>>, operand: &[u8]) -> Vec<u8> {
        match (self, value) {
            (Operator::Append | Operator::Max, None) => operand.to_vec(),
            (Operator::Append, Some(value)) => [value.as_slice(), b",", operand].concat(),
            (Operator::Max, Some(value)) => value.max(operand.to_vec()),
            (Operator::Chain, value) => link(&value.unwrap_or_default(), operand),
        }
    }
}

fn link(value: &[u8], operand: &[u8]) -> Vec<u8> {
    checksum::xxh3_64(&[value, operand].concat()).to_le_bytes().to_vec()
}

/// [`Operator::Chain`], as a user would write it.
#[derive(Debug)]
pub struct Chain;

impl Merge for Chain {
    fn name(&self) -> &str {
        "chain"
    }

    fn merge(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeError> {
        let value = value.unwrap_or_default().to_vec();
        Ok(operands.iter().fold(value, |value, operand| link(&value, operand)))
    }
}

/// Writes half of what it is shown anew, with the value that it had: readers must not notice that it is
/// there.
#[derive(Debug)]
pub struct Unnoticed;

impl CompactionFilter for Unnoticed {
    fn name(&self) -> &str {
        "unnoticed"
    }

    fn filter(&self, key: &[u8], value: &[u8]) -> Decision {
        match checksum::xxh3_64(&[key, value].concat()) % 4 {
            0 | 1 => Decision::Change(value.to_vec()),
            _ => Decision::Keep,
        }
    }
}
