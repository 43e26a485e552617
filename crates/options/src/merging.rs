//! The merge operator option: which operator a keyspace may have.

use super::{KeyspaceOptions, Options};
use esker_base::{Error, Result};
use esker_iter::OperandMerger;
use esker_iter::operator::{Merge, MergeOperator};
use std::sync::Arc;

impl KeyspaceOptions {
    /// The merge operator of `Keyspace::merge`. Default: none, and then the keyspace takes no
    /// operands.
    ///
    /// A keyspace that has an operator keeps it, because there may be operands of it:
    /// `Keyspace::update_options` can give one to a keyspace that has none, but neither remove nor
    /// replace it. Its name and parameters are stored. A user-defined one has to be supplied each time the
    /// database is opened ([`Options::custom_merge`]).
    ///
    /// ```
    /// use esker_iter::operator::MergeOperator;
    /// use esker_options::KeyspaceOptions;
    ///
    /// let visits = KeyspaceOptions::default().merge_operator(MergeOperator::counter_wrapping());
    /// ```
    pub fn merge_operator(mut self, operator: MergeOperator) -> KeyspaceOptions {
        self.merge_operator = Some(operator);
        self
    }

    /// The merge operator, if there is one.
    pub fn operator(&self) -> Option<&MergeOperator> {
        self.merge_operator.as_ref()
    }

    /// The merge operator of a keyspace of this name with these options.
    pub fn operand_merger(&self, name: &Arc<str>) -> Option<OperandMerger> {
        let operator = self.merge_operator.clone()?;
        Some(OperandMerger::new(operator, Arc::clone(name)))
    }

    /// An error if the operator's function is missing.
    pub fn check_supplied(&self, keyspace: &str) -> Result<()> {
        let missing = self.merge_operator.as_ref().filter(|operator| !operator.is_supplied());
        let Some(name) = missing.and_then(MergeOperator::custom_name) else { return Ok(()) };
        Err(Error::invalid(format!(
            "keyspace {keyspace:?} has the merge operator {name:?}, which is not built in and was not supplied: name it by Options::custom_merge before the database is opened"
        )))
    }

    /// An error if other options expect another operator.
    pub fn check_operator_is(&self, expected: &KeyspaceOptions, keyspace: &str) -> Result<()> {
        match (&self.merge_operator, &expected.merge_operator) {
            (Some(own), Some(expected)) if own != expected => Err(Error::invalid(format!(
                "keyspace {keyspace:?} has the merge operator {own}, not {expected}: it keeps what it was given first; open it without naming one, or use another keyspace"
            ))),
            _ => Ok(()),
        }
    }

    /// An error if a keyspace with these options may not have those of `after`: there may be operands that
    /// only the present operator understands.
    pub fn check_operator_becomes(&self, after: &KeyspaceOptions, keyspace: &str) -> Result<()> {
        let Some(own) = self.merge_operator.as_ref().filter(|own| after.merge_operator.as_ref() != Some(own))
        else {
            return Ok(());
        };
        let wanted = after.merge_operator.as_ref().map_or("none", MergeOperator::text);
        Err(Error::invalid(format!(
            "merge_operator of keyspace {keyspace:?} cannot become {wanted}: there may be operands of {own}; copy what is there into another keyspace"
        )))
    }
}

impl Options {
    /// Supplies a user-defined merge operator to the keyspaces that have one with its name. May be called for
    /// several.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// use esker_iter::operator::{Merge, MergeError, MergeOperator};
    /// use esker_options::{KeyspaceOptions, Options};
    /// use std::sync::Arc;
    ///
    /// /// Values are JSON texts, operands are patches; here the last patch wins.
    /// struct Patch;
    ///
    /// impl Merge for Patch {
    ///     fn name(&self) -> &str {
    ///         "patch"
    ///     }
    ///     fn merge(&self, _: &[u8], _: Option<&[u8]>, patches: &[&[u8]]) -> Result<Vec<u8>, MergeError> {
    ///         Ok(patches.last().ok_or("no patch")?.to_vec())
    ///     }
    /// }
    ///
    /// let database = Options::default().custom_merge(Arc::new(Patch));
    /// let documents = KeyspaceOptions::default().merge_operator(MergeOperator::custom(Arc::new(Patch)));
    /// # Ok(()) }
    /// ```
    pub fn custom_merge(mut self, function: Arc<dyn Merge>) -> Options {
        self.merge_operators.push(MergeOperator::custom(function));
        self
    }

    /// Whether a database may be opened without the user-defined merge operators of its keyspaces. Default:
    /// no. With it, reading a key with such operands is an error, writing operands is refused, and
    /// compactions leave them as they are; everything else works. For tools.
    pub fn allow_missing_operators(mut self, allow: bool) -> Options {
        self.allow_missing_operators = allow;
        self
    }

    /// Stored options with the supplied functions.
    pub fn supply(&self, mut stored: KeyspaceOptions) -> KeyspaceOptions {
        let supplied = self.merge_operators.iter().chain(&self.keyspace.merge_operator);
        stored.merge_operator =
            stored.merge_operator.map(|operator| supplied.fold(operator, MergeOperator::supplied_by));
        stored
    }
}
