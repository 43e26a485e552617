//! Advice on the design of a keyspace, from what is seen of it.
//!
//! The counters that a live database keeps anyway say what it is used for: lookups that are followed (one in
//! 64, [`crate::amplification`]), what flushes wrote, and what cursors counted ([`scans`]). Together with the
//! metadata of the tables that is a [`Usage`], and [`esker_model::advice`] finds the cheapest design for it.
//! The formulas are first held against what was measured here ([`ModelCheck`]); what they are off by corrects
//! them. Taking advice is a change of options like any other, so the tree migrates step by step
//! ([`crate::keyspace`]).
//!
//! Nothing of this is stored: a database that was just opened knows its tables, and of its use nothing.

mod adapt;
mod check;
mod question;
mod scans;

pub use adapt::AdaptationInfo;
pub(crate) use adapt::Adapting;
pub use check::{ModelCheck, ModelTerm};
pub(crate) use scans::{ScanCounts, ScanTally};

use crate::handle::Keyspace;
use crate::options::KeyspaceOptions;
use esker_base::{Error, Result};
use esker_filter::FilterKind;
use esker_model::advice::{Advice, Design, Operations, Prices, Usage, advise};

/// What advice is to go by. The default: what was seen since the database was opened, and the usual prices.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AdviceRequest {
    /// The operations that it is to suit, in the place of those that were seen.
    pub operations: Option<Operations>,
    /// The memory that it may divide, in bytes, in the place of the keyspace's share of the budget.
    pub memory_bytes: Option<u64>,
    /// What blocks and bytes are worth.
    pub prices: Prices,
}

impl AdviceRequest {
    /// Advice for these operations, whatever was seen.
    #[must_use]
    pub fn operations(mut self, operations: Operations) -> AdviceRequest {
        self.operations = Some(operations);
        self
    }

    /// Advice on so much memory.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> AdviceRequest {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Advice at these prices.
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
    /// What was asked: what the keyspace holds and what it is used for.
    pub usage: Usage,
    /// Whether the operations are those that were seen.
    pub is_observed: bool,
    /// The formulas beside what was measured on this database.
    pub checks: Vec<ModelCheck>,
    /// What is proposed.
    pub advice: Advice,
}

impl Keyspace {
    /// How often each operation was asked for since the database was opened. Lookups are estimated from one
    /// in 64, by the key's hash; deletes from the share that flushes met. Lookups are not counted while there
    /// are no tables.
    ///
    /// O(memtables).
    pub fn operations(&self) -> Operations {
        self.store().operations(self.state())
    }

    /// Which strategy, size ratio and division of memory would cost least for what the keyspace is used for,
    /// what the present ones cost beside it, and how far the formulas are off on this very database. Changes
    /// nothing; see [`Keyspace::take_advice`].
    ///
    /// O(tables), and some dozen milliseconds.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker_engine::Database::open("data")?;
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
    /// `InvalidArgument` if nothing was seen and nothing is stated, if there is no data, or if no design
    /// keeps the promised room; it says which. `Closed`; `NotFound` if the keyspace was dropped.
    pub fn advise(&self, request: &AdviceRequest) -> Result<KeyspaceAdvice> {
        let store = self.store();
        store.check_open()?;
        self.state().check_living()?;
        let (question, checks) = store.question(self.state(), request)?;
        let advice = advise(&question).map_err(Error::invalid)?;
        Ok(KeyspaceAdvice {
            usage: question.usage,
            is_observed: request.operations.is_none(),
            checks,
            advice,
        })
    }

    /// How the keyspace follows advice by itself, if it has the option `adaptive_compaction`; `None` if it
    /// does not.
    ///
    /// ```no_run
    /// # fn main() -> esker_base::Result<()> {
    /// # let db = esker_engine::Database::open("data")?;
    /// use std::time::Duration;
    ///
    /// let events = db.keyspace("events")?;
    /// events.set_options(|options| options.adaptive_compaction(Duration::from_secs(600)))?;
    /// if let Some(adaptation) = events.adaptation() {
    ///     println!("{} changes, {}", adaptation.changes, adaptation.last.unwrap_or_default());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn adaptation(&self) -> Option<AdaptationInfo> {
        self.store().adaptation(self.state())
    }

    /// Changes strategy, write buffer and filters to those of a design. The tree migrates step by step
    /// ([`Keyspace::migration`]); filters are those of new tables.
    ///
    /// # Errors
    /// As [`Keyspace::set_options`].
    pub fn take_advice(&self, design: &Design) -> Result<()> {
        self.set_options(|options| options.with_design(design))
    }
}

impl KeyspaceOptions {
    /// These options with strategy, write buffer and filters of a design. The kind of filter stays; a
    /// keyspace without filters gets blocked Bloom filters.
    pub(crate) fn with_design(self, design: &Design) -> KeyspaceOptions {
        let kind = match self.filter.kind() {
            FilterKind::None => FilterKind::BlockedBloom,
            kind => kind,
        };
        let filter = kind.policy(design.filter_bits_per_key);
        self.strategy(design.strategy).write_buffer_size(design.write_buffer_bytes as u64).filter(filter)
    }

    /// The design of a keyspace with these options, where memtables have so many bytes if the options do not
    /// say it.
    pub fn design(&self, default_write_buffer_bytes: u64) -> Design {
        Design {
            strategy: self.strategy,
            write_buffer_bytes: self.write_buffer_bytes.unwrap_or(default_write_buffer_bytes) as f64,
            filter_bits_per_key: self.filter.bits_per_key(),
        }
    }
}

#[cfg(test)]
mod tests;
