//! Consumers of the change stream: how far each has read, and what of the log is held for it.

use esker_base::{Error, Result, SeqNo};
use esker_wal::Hold;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The consumers of an open database.
#[derive(Debug, Default)]
pub struct Consumers {
    named: Mutex<BTreeMap<Arc<str>, ConsumerPosition>>,
    /// Their number, including those being created: checked by flushes (HS6).
    count: AtomicUsize,
}

/// How far a consumer has read, and the log held for it.
#[derive(Clone, Debug)]
pub struct ConsumerPosition {
    /// It has read everything up to here.
    pub acknowledged: SeqNo,
    /// `None` if the history it needs is gone, and in a read-only database.
    pub hold: Option<Arc<Hold>>,
}

impl Consumers {
    /// The consumers in the manifest; `hold` registers each with the log.
    pub fn new(
        stored: &BTreeMap<Arc<str>, SeqNo>,
        hold: impl Fn(&Arc<str>, SeqNo) -> Option<Arc<Hold>>,
    ) -> Consumers {
        let stand = |(name, &acknowledged): (&Arc<str>, &SeqNo)| {
            (Arc::clone(name), ConsumerPosition { acknowledged, hold: hold(name, acknowledged) })
        };
        let named: BTreeMap<_, _> = stored.iter().map(stand).collect();
        Consumers { count: AtomicUsize::new(named.len()), named: Mutex::new(named) }
    }

    /// Whether the log must be durable before tables count (HS6).
    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// The standing of a consumer.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such consumer.
    pub fn standing(&self, name: &str) -> Result<ConsumerPosition> {
        let found = self.named.lock().get(name).cloned();
        found.ok_or_else(|| Error::NotFound(format!("there is no consumer {name:?}").into()))
    }

    /// Counts a consumer that is being created, until the result is dropped.
    pub fn count_one_more(&self) -> CountedConsumer<'_> {
        CountedConsumer::new(&self.count)
    }

    /// Adds a consumer that was created.
    pub fn add(&self, name: Arc<str>, standing: ConsumerPosition) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.named.lock().insert(name, standing);
    }

    /// Replaces the position of a consumer.
    pub fn update(&self, name: &Arc<str>, standing: ConsumerPosition) {
        self.named.lock().insert(Arc::clone(name), standing);
    }

    /// Removes a consumer that was dropped.
    pub fn remove(&self, name: &str) {
        self.named.lock().remove(name);
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// What `of` makes of each consumer, in the order of their names.
    pub fn map<T>(&self, of: impl Fn((&Arc<str>, &ConsumerPosition)) -> T) -> Vec<T> {
        self.named.lock().iter().map(of).collect()
    }
}

/// One more consumer for as long as it is being created.
pub struct CountedConsumer<'a>(&'a AtomicUsize);

impl<'a> CountedConsumer<'a> {
    fn new(count: &'a AtomicUsize) -> CountedConsumer<'a> {
        count.fetch_add(1, Ordering::AcqRel);
        CountedConsumer(count)
    }
}

impl Drop for CountedConsumer<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
