//! `compact` and `verify`.

use super::{Context, write_json};
use crate::args::CompactArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_counted};
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
            "{}, {}, {} entries, {}, {} read",
            human_counted(report.tables, "table"),
            human_counted(report.blocks, "block"),
            human_count(report.entries),
            human_counted(report.range_deletes, "range delete"),
            human_bytes(report.bytes)
        )?;
        if report.blob_files > 0 {
            let files = human_counted(report.blob_files, "blob file");
            writeln!(context.out, "{files}, {}", human_counted(report.blob_values, "large value"))?;
        }
        for damage in &report.damage {
            writeln!(context.out, "damaged: {}", damage.error)?;
        }
        writeln!(context.out, "{}", if report.is_clean() { "no damage" } else { "damage was found" })?;
    }
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damage })
}
