//! The merge operators and the compaction filter of keyspaces under test, with a second implementation of
//! them for the oracle, so that a mistake in one of the two shows.

use esker::compaction_filter::{CompactionFilter, Decision};
use esker::merge::{Merge, MergeError};
use esker::parts::base::checksum;
use esker::{KeyspaceOptions, MergeOperator};
use std::sync::Arc;

/// The effect of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Appends it, with a comma.
    Append,
    /// Keeps the greater value.
    Max,
    /// Hashes value and operand: only the right order is right, and operands cannot be combined.
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

    /// The merge operator for the database.
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

/// Rewrites half of the entries it sees with their own values: readers must not notice the filter.
#[derive(Debug)]
pub struct IdentityFilter;

impl CompactionFilter for IdentityFilter {
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
