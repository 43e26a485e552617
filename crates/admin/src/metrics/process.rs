//! Metrics of the process and of the file system.

use super::catalog::{BUILD_INFO, DISK_FREE, SCRAPE_SECONDS, UPTIME};
use super::exposition::Exposition;
use crate::sources::Sources;
use std::time::Duration;

pub(super) fn write(out: &mut Exposition, sources: &Sources) {
    out.sample(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1);
    out.sample(&UPTIME, &[], sources.uptime().as_secs_f64());
    if let Some(free_bytes) = sources.free_bytes() {
        out.sample(&DISK_FREE, &[], free_bytes);
    }
}

pub(super) fn write_duration(out: &mut Exposition, took: Duration) {
    out.sample(&SCRAPE_SECONDS, &[], took.as_secs_f64());
}
