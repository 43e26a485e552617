//! Readiness: whether clients are to be sent to this process, and why not.

use esker::metrics::Metrics;
use std::time::Duration;

/// How long writes may be stopped before clients are sent elsewhere. A stop of some seconds is the store's
/// back-pressure, which a load balancer would turn into an outage of everything that reads.
const STOPPED_LIMIT: Duration = Duration::from_secs(10);

/// Why clients are not to be sent here. The words are a promise to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The process ends.
    Draining,
    /// The database takes no writes.
    ReadOnly,
    /// Background work failed and has not succeeded since.
    BackgroundError,
    /// Writes have been stopped for longer than [`STOPPED_LIMIT`].
    WritesStopped,
}

impl Reason {
    /// The word for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Reason::Draining => "draining",
            Reason::ReadOnly => "read_only",
            Reason::BackgroundError => "background_error",
            Reason::WritesStopped => "writes_stopped",
        }
    }

    /// The sentence for people. Health is told to all, so it names neither files nor keyspaces.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Reason::Draining => "the process is about to end",
            Reason::ReadOnly => "the database takes no writes; `esker stats` says why",
            Reason::BackgroundError => "a flush or compaction failed; `esker stats` says which and why",
            Reason::WritesStopped => {
                "writes have been stopped for more than ten seconds; `esker stalls` says why"
            }
        }
    }
}

/// All reasons that hold; none if clients may be sent here.
pub(crate) fn reasons(is_draining: bool, metrics: &Metrics, stopped_for: Duration) -> Vec<Reason> {
    let judged = [
        (Reason::Draining, is_draining),
        (Reason::ReadOnly, metrics.read_only_cause.is_some()),
        (Reason::BackgroundError, !metrics.background_errors.is_empty()),
        (Reason::WritesStopped, stopped_for >= STOPPED_LIMIT),
    ];
    judged.into_iter().filter(|(_, holds)| *holds).map(|(reason, _)| reason).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_told_with_its_word() {
        let dir = std::env::temp_dir().join(format!("esker-admin-ready-{}", std::process::id()));
        let database = esker::Database::open(&dir).unwrap();
        let mut metrics = database.metrics();
        assert_eq!(reasons(false, &metrics, STOPPED_LIMIT - Duration::from_millis(1)), []);
        metrics.read_only_cause = Some("a flush of the log failed".to_owned());
        metrics.background_errors.push(esker::Error::Closed);
        let all = reasons(true, &metrics, STOPPED_LIMIT);
        let words: Vec<_> = all.iter().map(|reason| reason.word()).collect();
        assert_eq!(words, ["draining", "read_only", "background_error", "writes_stopped"]);
        database.close().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
