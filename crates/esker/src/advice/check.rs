//! Predictions compared with measurements.

use esker_engine::amplification::Amplification;
use esker_model::advice::{Calibration, Operations, Prediction};
use std::fmt;

/// With fewer flushes the write amplification is not yet visible.
const LEAST_FLUSHES: u64 = 8;
/// Fewer sampled lookups say nothing about blocks that one in a hundred reads.
const LEAST_LOOKUPS: u64 = 100;

/// A figure that is predicted and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelTerm {
    /// Bytes written to tables over bytes of keys and values.
    WriteAmplification,
    /// False-positive block reads of a lookup, for the observed mixture of present and absent keys.
    BlocksInVain,
    /// Runs at present.
    Runs,
    /// Bytes of tables and blob files over live bytes.
    SpaceAmplification,
}

impl fmt::Display for ModelTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ModelTerm::WriteAmplification => "bytes written for a byte",
            ModelTerm::BlocksInVain => "block reads per lookup that miss",
            ModelTerm::Runs => "runs",
            ModelTerm::SpaceAmplification => "room for a byte alive",
        })
    }
}

/// The formulas' prediction for the present design, and the measurement over its life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelCheck {
    /// The figure.
    pub term: ModelTerm,
    /// By formula, in the steady state of uniform overwrites.
    pub predicted: f64,
    /// As measured; `None` with too little data.
    pub measured: Option<f64>,
}

impl ModelCheck {
    /// The relative error of the prediction: 0.1 if it is a tenth too high.
    pub fn error(&self) -> Option<f64> {
        self.measured.filter(|measured| *measured > 0.0).map(|measured| self.predicted / measured - 1.0)
    }
}

/// Compares the uncorrected prediction of the present design with measurements.
pub(super) fn checks(
    predicted: &Prediction,
    seen: &Amplification,
    operations: &Operations,
) -> Vec<ModelCheck> {
    let flushes = seen
        .causes
        .iter()
        .find(|info| info.cause == crate::metrics::Cause::Flush)
        .map_or(0, |info| info.jobs);
    let lookups = &seen.reads;
    let figures = &predicted.figures;
    let of_tables = lookups.found_in_tables as f64;
    // Lookups found in memtables search no table.
    let absent =
        lookups.lookups.saturating_sub(lookups.found_in_tables).saturating_sub(lookups.found_in_memtables);
    let followed = lookups.lookups.max(1) as f64;
    let in_vain = (absent as f64 * figures.absent_blocks
        + of_tables * (figures.present_blocks - 1.0).max(0.0))
        / followed;
    // The formulas describe trees under writes; a tree that was only loaded, or is idle, has another form.
    let is_written = flushes >= LEAST_FLUSHES && operations.writes() > 0.0;
    vec![
        ModelCheck {
            term: ModelTerm::WriteAmplification,
            predicted: figures.write_amplification,
            measured: seen.write().filter(|_| is_written),
        },
        ModelCheck {
            term: ModelTerm::BlocksInVain,
            predicted: in_vain,
            measured: lookups.misses().filter(|_| lookups.lookups >= LEAST_LOOKUPS),
        },
        ModelCheck {
            term: ModelTerm::Runs,
            predicted: figures.runs,
            measured: Some(lookups.runs as f64).filter(|_| is_written),
        },
        ModelCheck {
            term: ModelTerm::SpaceAmplification,
            predicted: figures.space,
            measured: seen.space.ratio().filter(|_| seen.space.is_measured && is_written),
        },
    ]
}

/// The correction of the formulas; `cache_skew` is determined elsewhere.
pub(super) fn calibration(checks: &[ModelCheck], cache_skew: f64) -> Calibration {
    let factor = |term: ModelTerm| {
        let check = checks.iter().find(|check| check.term == term);
        check.and_then(|check| Some(Calibration::factor(check.measured?, check.predicted))).unwrap_or(1.0)
    };
    Calibration {
        writes: factor(ModelTerm::WriteAmplification),
        in_vain: factor(ModelTerm::BlocksInVain),
        cache_skew,
    }
}
