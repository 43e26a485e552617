//! Reports without a listener: for a program that answers them by a way of its own, such as the control
//! socket of the command.

use crate::config::Config;
use crate::reports;
use crate::shared::Shared;
use crate::sources::Sources;
use crate::stop::Stop;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Least time between two samples that reports take. Shorter ones hold too few commands for percentiles.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// Makes the reports of [`Sources`].
#[derive(Clone, Debug)]
pub struct Observer(Arc<Shared>);

impl Observer {
    /// Observes the sources.
    pub fn new(sources: Sources) -> Observer {
        Observer(Shared::new(Config::default(), sources, Stop::default()))
    }

    /// What `/api/v1/status` tells. Its history has a sample of each call that comes some time after the one
    /// before.
    pub fn status(&self) -> Value {
        self.0.history.sample_after(SAMPLE_INTERVAL, &self.0.sources);
        reports::status(&self.0)
    }
}
