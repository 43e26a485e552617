//! What all requests are answered from.

use crate::config::Config;
use crate::history::History;
use crate::sources::Sources;
use crate::stop::Stop;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What requests are answered from.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) sources: Sources,
    pub(crate) history: History,
    pub(crate) stop: Stop,
    /// The permit to explain something: one at a time, so that other reports have a thread.
    pub(crate) explaining: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(config: Config, sources: Sources, stop: Stop) -> Arc<Shared> {
        let (history, explaining) = (History::default(), Arc::new(Semaphore::new(1)));
        Arc::new(Shared { config, sources, history, stop, explaining })
    }
}
