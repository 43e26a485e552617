//! What all requests are answered from.

use crate::config::Config;
use crate::history::History;
use crate::sources::Sources;
use crate::stop::Stop;
use std::sync::Arc;

/// What requests are answered from.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) sources: Sources,
    pub(crate) history: History,
    pub(crate) stop: Stop,
}

impl Shared {
    pub(crate) fn new(config: Config, sources: Sources, stop: Stop) -> Arc<Shared> {
        Arc::new(Shared { config, sources, history: History::default(), stop })
    }
}
