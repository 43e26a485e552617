//! What commands of other processes work on: the open database, and what observes it.

use esker::Database;
use esker_admin::{Observer, Sources};
use std::sync::{Mutex, PoisonError};

/// An open database and its observer.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) database: Database,
    observer: Mutex<Observer>,
}

impl Held {
    pub(super) fn new(database: &Database) -> Held {
        let sources = Sources::new(database.clone(), database.path());
        Held { database: database.clone(), observer: Mutex::new(Observer::new(sources)) }
    }

    /// What reports are made from.
    pub(crate) fn observer(&self) -> Observer {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on reports are made from these sources, such as those with a server of Redis.
    pub(super) fn observe(&self, sources: Sources) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = Observer::new(sources);
    }
}
