//! `scan` and `count`.

use super::{Context, KeyRange, unprintable, write_json, write_json_pair};
use crate::args::{CountArgs, ScanArgs};
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count};

pub(super) fn scan(context: &mut Context<'_>, args: &ScanArgs) -> Result<Exit, Failure> {
    let range = context.parse_range(&args.range)?;
    let cursor = context.existing_keyspace()?.cursor()?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(Exit::Done);
    }
    let (shape, out) = (&context.shape, &mut *context.out);
    range.walk(cursor, args.reverse, |key, value| {
        if shape.json {
            write_json_pair(out, shape, key, value)?;
        } else {
            let key = shape.key.in_line(key).map_err(|reason| unprintable("key", &reason))?;
            let value = shape.value.in_line(value).map_err(|reason| unprintable("value", &reason))?;
            writeln!(out, "{key}\t{value}")?;
        }
        left -= 1;
        Ok(left > 0)
    })?;
    Ok(Exit::Done)
}

pub(super) fn count(context: &mut Context<'_>, args: &CountArgs) -> Result<Exit, Failure> {
    let range = context.parse_range(&args.range)?;
    if args.estimate {
        return estimate(context, &range);
    }
    let cursor = context.existing_keyspace()?.cursor()?;
    let mut count = 0u64;
    range.walk(cursor, false, |_, _| {
        count += 1;
        Ok(true)
    })?;
    if context.shape.json {
        write_json(context.out, [("count".to_owned(), count.into())])?;
    } else {
        writeln!(context.out, "{count}")?;
    }
    Ok(Exit::Done)
}

fn estimate(context: &mut Context<'_>, range: &KeyRange) -> Result<Exit, Failure> {
    let size = context.existing_keyspace()?.approximate_size(range.bounds())?;
    if context.shape.json {
        let members =
            [("entries", size.entries), ("disk_bytes", size.disk_bytes), ("memory_bytes", size.memory_bytes)];
        write_json(context.out, members.map(|(name, number)| (name.to_owned(), number.into())))?;
    } else {
        let (disk, memory) = (human_bytes(size.disk_bytes), human_bytes(size.memory_bytes));
        writeln!(
            context.out,
            "about {} entries, {disk} in tables, {memory} in memory",
            human_count(size.entries)
        )?;
    }
    Ok(Exit::Done)
}
