//! Metrics in the text format of Prometheus (version 0.0.4): the catalogue, and the figures behind each
//! name.
//!
//! Names begin with `esker_`, units are seconds and bytes, totals end in `_total`. A total that the database
//! keeps over its life begins with the directory, others with the process.

mod catalog;
mod document;
mod engine;
mod exposition;
mod process;
mod redis;

pub use catalog::{ALL, Kind, Metric};
pub use document::document;

use crate::sources::Sources;
use exposition::Exposition;

/// Most keyspaces and levels of them with series of their own: a page of some mebibytes at most.
/// `esker_keyspaces` tells how many there are.
pub const MAX_KEYSPACES: usize = 256;

/// The text of all metrics at this moment.
pub(crate) fn scrape(sources: &Sources) -> String {
    let began = sources.uptime();
    let mut out = Exposition::default();
    process::write(&mut out, sources);
    engine::write(&mut out, sources.database());
    if let Some(redis) = sources.redis() {
        redis::write(&mut out, redis);
    }
    process::write_duration(&mut out, sources.uptime().saturating_sub(began));
    out.into_text()
}
