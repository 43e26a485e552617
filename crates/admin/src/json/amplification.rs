//! Measured amplification as JSON.

use esker::metrics::{Amplification, CauseInfo, LevelAmplification};
use esker::parts::strategy::WorstCase;
use serde_json::{Value, json};

/// The amplification of a keyspace.
pub fn amplification(seen: &Amplification) -> Value {
    let cause = |info: &CauseInfo| {
        json!({
            "cause": info.cause.name(),
            "jobs": info.jobs,
            "read_bytes": info.read_bytes,
            "written_bytes": info.written_bytes,
            "blob_bytes": info.blob_bytes,
            "busy_ms": info.busy.as_millis() as u64,
            "largest_job_bytes": info.largest_job_bytes,
        })
    };
    let level = |level: &LevelAmplification| {
        json!({
            "level": level.number,
            "label": level.label(),
            "written_bytes": level.written_bytes,
            "read_bytes": level.read_bytes,
            "table_bytes": level.table_bytes,
            "runs": level.runs,
            "expected_misses": level.expected_misses,
            "probed": level.probed,
            "searched": level.searched,
            "found": level.found,
        })
    };
    let bound = |bound: &WorstCase| json!({"formula": bound.formula, "source": bound.source, "max_sources": bound.max_sources});
    let (reads, space) = (&seen.reads, &seen.space);
    json!({
        "put_bytes": seen.put_bytes,
        "ingested_bytes": seen.ingested_bytes,
        "written_bytes": seen.written_bytes(),
        "write": seen.write(),
        "causes": seen.causes.iter().map(cause).collect::<Vec<_>>(),
        "levels": seen.levels.iter().map(level).collect::<Vec<_>>(),
        "read": {
            "memtables": reads.memtables,
            "runs": reads.runs,
            "worst_case": reads.worst_case.iter().map(bound).collect::<Vec<_>>(),
            "expected_absent": reads.expected_absent,
            "expected_present": reads.expected_present,
            "sampled_lookups": reads.lookups,
            "memtables_probed": reads.memtables_probed,
            "tables_probed": reads.tables_probed,
            "tables_searched": reads.tables_searched,
            "found_in_tables": reads.found_in_tables,
        },
        "space": {
            "table_bytes": space.table_bytes,
            "blob_bytes": space.blob_bytes,
            "live_bytes": space.live_bytes,
            "overwritten_share": space.overwritten_share,
            "is_measured": space.is_measured,
            "ratio": space.ratio(),
            "ratio_at_most": space.at_most(),
        },
    })
}
