//! `compact` and `verify`.

use super::{Context, write_json};
use crate::args::CompactArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count};
use serde_json::json;
use std::ops::Bound;

pub(super) fn compact(context: &mut Context<'_>, args: &CompactArgs) -> Result<Exit, Failure> {
    if args.all {
        context.database.compact_all()?;
        return Ok(Exit::Done);
    }
    let range = context.parse_range(&args.range)?;
    let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
    context.existing_keyspace()?.compact((Bound::Included(range.start), end))?;
    Ok(Exit::Done)
}

pub(super) fn verify(context: &mut Context<'_>) -> Result<Exit, Failure> {
    let report = context.database.verify()?;
    if context.shape.json {
        let damage: Vec<serde_json::Value> = report
            .damage
            .iter()
            .map(|damage| {
                let file = damage.file.display().to_string();
                json!({ "keyspace": damage.keyspace, "file": file, "error": damage.error.to_string() })
            })
            .collect();
        let counts = [
            ("tables", report.tables),
            ("blocks", report.blocks),
            ("entries", report.entries),
            ("range_deletes", report.range_deletes),
            ("blob_files", report.blob_files),
            ("blob_values", report.blob_values),
            ("bytes", report.bytes),
        ];
        let members = counts.map(|(name, count)| (name.to_owned(), count.into()));
        write_json(context.out, members.into_iter().chain([("damage".to_owned(), damage.into())]))?;
    } else {
        writeln!(
            context.out,
            "{} tables, {} blocks, {} entries, {} range deletes, {} read",
            human_count(report.tables),
            human_count(report.blocks),
            human_count(report.entries),
            human_count(report.range_deletes),
            human_bytes(report.bytes)
        )?;
        if report.blob_files > 0 {
            let (files, values) = (human_count(report.blob_files), human_count(report.blob_values));
            writeln!(context.out, "{files} blob files, {values} large values")?;
        }
        for damage in &report.damage {
            writeln!(context.out, "damaged: {}", damage.error)?;
        }
        writeln!(context.out, "{}", if report.is_clean() { "no damage" } else { "damage was found" })?;
    }
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damage })
}
