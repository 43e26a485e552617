//! Advice on the design of a keyspace, from observed operations.
//!
//! The counters that a live database keeps anyway show how it is used: sampled lookups (one in 64,
//! [`esker_engine::amplification`]), bytes written by flushes, and the counts of cursors
//! ([`esker_view::read::scan_tally`]). Together with the metadata of the tables that is a [`Usage`], and
//! [`esker_model::advice`] finds the cheapest design for it. The formulas are first compared with
//! measurements ([`ModelCheck`]) and corrected by their error. Taking advice is a change of options like any
//! other, so the tree migrates step by step ([`esker_engine::state::keyspace`]).
//!
//! The counters go on after an open where the last one has left them ([`esker_engine::state::figures`]).

pub(crate) mod adapt;
mod check;
mod question;

pub use adapt::AdaptationInfo;
pub use check::{ModelCheck, ModelTerm};
pub use esker_model::advice::{
    AdaptiveRules, Advice, Alternative, Calibration, Decision, Design, Family, Figures, History, IndexAdvice,
    IndexForm, IndexPrediction, Knob, Observation, Operations, Parts, Prediction, Prices, Question, Usage,
    advise, decide,
};

use crate::handle::Keyspace;
use esker_base::{Error, Result};

/// The input of advice. By default the operations of the keyspace's life, and the usual prices.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AdviceRequest {
    /// The operations to optimise for, instead of the observed ones.
    pub operations: Option<Operations>,
    /// The memory to divide, in bytes, instead of the keyspace's share of the budget.
    pub memory_bytes: Option<u64>,
    /// Prices of blocks and bytes.
    pub prices: Prices,
}

impl AdviceRequest {
    /// Sets the operations, instead of the observed ones.
    #[must_use]
    pub fn operations(mut self, operations: Operations) -> AdviceRequest {
        self.operations = Some(operations);
        self
    }

    /// Sets the memory.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> AdviceRequest {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Sets the prices.
    #[must_use]
    pub fn prices(mut self, prices: Prices) -> AdviceRequest {
        self.prices = prices;
        self
    }
}

/// Advice on a keyspace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceAdvice {
    /// The input: contents and operations of the keyspace.
    pub usage: Usage,
    /// Whether the operations were observed.
    pub is_observed: bool,
    /// Predictions compared with measurements on this database.
    pub checks: Vec<ModelCheck>,
    /// The proposal.
    pub advice: Advice,
}

impl Keyspace {
    /// The number of operations of each kind in the keyspace's life. Lookups are estimated from one in
    /// 64, by the key's hash; deletes from their share in flushes. Lookups are not counted while there are no
    /// tables.
    ///
    /// O(memtables).
    pub fn operations(&self) -> Operations {
        question::operations(self.store(), self.state())
    }

    /// The cheapest strategy, size ratio and division of memory for the keyspace's operations, the cost of
    /// the present ones in comparison, and the error of the formulas on this database. Changes nothing; see
    /// [`Keyspace::take_advice`].
    ///
    /// O(tables), and some dozen milliseconds.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let events = db.keyspace("events")?;
    /// let advice = events.advise(&Default::default())?.advice;
    /// println!("{}: {}", advice.best.design.strategy, advice.reason);
    /// if advice.is_worth_it() {
    ///     events.take_advice(&advice.best.design)?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if no operations were observed or given, if there is no data, or if no design meets
    /// the space target; the message says which. `Closed`; `NotFound` if the keyspace was dropped.
    pub fn advise(&self, request: &AdviceRequest) -> Result<KeyspaceAdvice> {
        let store = self.store();
        store.check_open()?;
        self.state().check_living()?;
        let (question, checks) = question::question(store, self.state(), request)?;
        let advice = advise(&question).map_err(Error::invalid)?;
        Ok(KeyspaceAdvice {
            usage: question.usage,
            is_observed: request.operations.is_none(),
            checks,
            advice,
        })
    }

    /// The state of automatic tuning, if the keyspace has the option `adaptive_compaction`; otherwise `None`.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// use std::time::Duration;
    ///
    /// let events = db.keyspace("events")?;
    /// events.update_options(|options| options.adaptive_compaction(Duration::from_secs(600)))?;
    /// if let Some(adaptation) = events.adaptation() {
    ///     println!("{} changes, {}", adaptation.changes, adaptation.last.unwrap_or_default());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn adaptation(&self) -> Option<AdaptationInfo> {
        adapt::adaptation(self.store(), self.state())
    }

    /// Changes strategy, write buffer and filters to those of a design. The tree migrates step by step
    /// ([`Keyspace::migration`]); filters are those of new tables.
    ///
    /// # Errors
    /// As [`Keyspace::update_options`].
    pub fn take_advice(&self, design: &Design) -> Result<()> {
        self.update_options(|options| options.with_design(design)).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
