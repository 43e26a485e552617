//! `get`, `put`, `delete` and `delete-range`.

use super::{Context, unprintable, write_json, write_json_pair};
use crate::args::{DeleteArgs, DeleteRangeArgs, GetArgs, PutArgs, TtlArgs};
use crate::failure::{Exit, Failure};
use esker::{Durability, Ttl, WriteOptions};

pub(super) fn get(context: &mut Context<'_>, args: &GetArgs) -> Result<Exit, Failure> {
    let key = context.parse_key(&args.wanted)?;
    let Some(value) = context.existing_keyspace()?.get(&key)? else { return Ok(Exit::Absent) };
    if context.shape.json {
        write_json_pair(context.out, &context.shape, &key, &value)?;
        return Ok(Exit::Done);
    }
    let plain = context.shape.value.plain(&value).map_err(|reason| unprintable("value", &reason))?;
    context.out.write_all(&plain)?;
    if !args.no_newline {
        context.out.write_all(b"\n")?;
    }
    Ok(Exit::Done)
}

pub(super) fn put(context: &mut Context<'_>, args: &PutArgs) -> Result<Exit, Failure> {
    let key = context.parse_key(&args.target)?;
    let written = context.caller.content_or_stdin(&args.content)?;
    let value = context.shape.value.parse(&written);
    let value = value.map_err(|reason| Failure::usage(format!("value: {reason}")))?;
    let keyspace = context.keyspace()?;
    let options = WriteOptions::from(Durability::from(args.durability));
    keyspace.put_with(&key, &value, args.ttl.map_or(options, |ttl| options.ttl(ttl)))?;
    Ok(Exit::Done)
}

pub(super) fn ttl(context: &mut Context<'_>, args: &TtlArgs) -> Result<Exit, Failure> {
    let key = context.parse_key(&args.wanted)?;
    let Some(ttl) = context.existing_keyspace()?.ttl(&key)? else { return Ok(Exit::Absent) };
    let (left_ms, at_ms) = match ttl {
        Ttl::Forever => (None, None),
        Ttl::Expires { at, left } => (Some(left.as_millis() as u64), Some(crate::format::unix_ms(at))),
    };
    if context.shape.json {
        write_json(
            context.out,
            [("ttl_ms".to_owned(), left_ms.into()), ("expires_at_ms".to_owned(), at_ms.into())],
        )?;
    } else {
        writeln!(context.out, "{}", left_ms.map_or_else(|| "forever".to_owned(), |ms| ms.to_string()))?;
    }
    Ok(Exit::Done)
}

pub(super) fn delete(context: &mut Context<'_>, args: &DeleteArgs) -> Result<Exit, Failure> {
    let keyspace = context.existing_keyspace()?;
    let mut batch = context.database.batch();
    for key in &args.targets {
        batch.delete(&keyspace, context.parse_key(key)?);
    }
    context.database.write(&batch)?;
    if context.shape.json {
        write_json(context.out, [("deleted".to_owned(), args.targets.len().into())])?;
    }
    Ok(Exit::Done)
}

pub(super) fn delete_range(context: &mut Context<'_>, args: &DeleteRangeArgs) -> Result<Exit, Failure> {
    let keyspace = context.existing_keyspace()?;
    let (start, end) = (context.parse_key(&args.start)?, context.parse_key(&args.end)?);
    if start >= end {
        return Err(Failure::usage(format!("no key lies from {} up to {}", args.start, args.end)));
    }
    keyspace.delete_range(start..end)?;
    Ok(Exit::Done)
}
