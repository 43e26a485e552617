//! `changes`: prints the change stream and manages its consumers.

use super::{Context, write_json};
use crate::args::ChangesArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_counted};
use esker::changes::{Change, ChangeBatch, Changes};
use esker::{Error, SeqNo};
use serde_json::{Value, json};

pub(super) fn run(context: &mut Context<'_>, args: &ChangesArgs) -> Result<Exit, Failure> {
    let since = args.since.map(SeqNo::new);
    if let Some(name) = &args.create {
        match since {
            Some(since) => context.database.create_consumer_at(name, since)?,
            None => context.database.create_consumer(name)?,
        };
        report_done(context, "created", name)?;
    } else if let Some(name) = &args.drop {
        context.database.drop_consumer(name)?;
        report_done(context, "dropped", name)?;
    } else if let (Some(name), Some(seqno)) = (&args.consumer, args.acknowledge) {
        context.database.consumer(name)?.acknowledge(SeqNo::new(seqno))?;
        report_done(context, "moved", name)?;
    } else if args.consumers {
        list(context)?;
    } else {
        let changes = match &args.consumer {
            Some(name) => context.database.consumer(name)?.changes()?,
            None => since_or_oldest(context, since)?,
        };
        show(context, changes, args.limit)?;
    }
    Ok(Exit::Done)
}

/// Changes after a sequence number, or all that the log still holds.
fn since_or_oldest(context: &Context<'_>, since: Option<SeqNo>) -> Result<Changes, Failure> {
    let database = context.database;
    match (database.changes_since(since.unwrap_or(SeqNo::ZERO)), since) {
        (Err(Error::HistoryGone(gone)), None) => Ok(database.changes_since(gone.oldest)?),
        (Err(error @ Error::HistoryGone(_)), Some(_)) => Err(Failure::from(error).advise(
            "leave out --since to see what there is; for a consumer (--create NAME) the log is kept",
        )),
        (changes, _) => Ok(changes?),
    }
}

fn show(context: &mut Context<'_>, mut changes: Changes, limit: Option<u64>) -> Result<(), Failure> {
    let mut shown = 0;
    while limit.is_none_or(|limit| shown < limit)
        && let Some(batch) = changes.try_next()?
    {
        let only = context.only.clone();
        let is_wanted = |change: &Change<'_>| only.is_none() || change.keyspace().name == only.as_deref();
        let wanted: Vec<Change<'_>> = batch.iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            continue;
        }
        shown += 1;
        match context.shape.json {
            true => show_json(context, &batch, &wanted)?,
            false => show_text(context, &batch, &wanted)?,
        }
    }
    Ok(())
}

fn show_text(context: &mut Context<'_>, batch: &ChangeBatch, changes: &[Change<'_>]) -> Result<(), Failure> {
    match batch.len() {
        1 => writeln!(context.out, "{}", batch.last_seqno())?,
        _ => writeln!(context.out, "{}..={}", batch.first_seqno(), batch.last_seqno())?,
    }
    for change in changes {
        let space = change.keyspace();
        let space =
            space.name.map_or_else(|| format!("#{}", space.id), |name| name.escape_debug().to_string());
        let key = |bytes: &[u8]| context.shape.key.in_line(bytes).map_err(Failure::usage);
        let value = |bytes: &[u8]| context.shape.value.in_line(bytes).map_err(Failure::usage);
        let until =
            |expiry_ms: &Option<u64>| expiry_ms.map_or(String::new(), |at| format!("  until {at} ms"));
        let text = match change {
            Change::Put { key: k, value: v, expiry_ms, .. } => {
                format!("put {} = {}{}", key(k)?, value(v)?, until(expiry_ms))
            }
            Change::Delete { key: k, .. } | Change::SingleDelete { key: k, .. } => {
                format!("delete {}", key(k)?)
            }
            Change::DeleteRange { start, end, .. } => {
                format!("delete-range {} .. {}", key(start)?, end.map_or(Ok(String::new()), key)?)
            }
            Change::Merge { key: k, operand, expiry_ms, .. } => {
                format!("merge {} + {}{}", key(k)?, value(operand)?, until(expiry_ms))
            }
            Change::Ingest { tables, bytes, .. } => {
                format!("ingest {}, {}", human_counted(*tables as u64, "table"), human_bytes(*bytes))
            }
            other => format!("{other:?}"),
        };
        writeln!(context.out, "  {space}  {text}")?;
    }
    Ok(())
}

fn show_json(context: &mut Context<'_>, batch: &ChangeBatch, changes: &[Change<'_>]) -> Result<(), Failure> {
    let changes = changes.iter().map(|change| change_as_json(context, change));
    let changes = changes.collect::<Result<Vec<Value>, Failure>>()?;
    let members = [
        ("first_seqno", batch.first_seqno().get().into()),
        ("last_seqno", batch.last_seqno().get().into()),
        ("changes", changes.into()),
    ];
    write_json(context.out, members.map(|(name, value): (&str, Value)| (name.to_owned(), value)))
}

fn change_as_json(context: &Context<'_>, change: &Change<'_>) -> Result<Value, Failure> {
    let shape = &context.shape;
    let space = change.keyspace();
    let mut members = serde_json::Map::new();
    members.insert("keyspace".into(), space.name.into());
    members.insert("keyspace_id".into(), space.id.get().into());
    let mut put = |member: Result<(String, Value), String>| {
        let (name, value) = member.map_err(Failure::usage)?;
        members.insert(name, value);
        Ok::<_, Failure>(())
    };
    let mut expiry = None;
    let operation = match change {
        Change::Put { key, value, expiry_ms, .. } => {
            put(shape.key.json_member("key", key))?;
            put(shape.value.json_member("value", value))?;
            expiry = *expiry_ms;
            "put"
        }
        Change::Delete { key, .. } => {
            put(shape.key.json_member("key", key))?;
            "delete"
        }
        Change::SingleDelete { key, .. } => {
            put(shape.key.json_member("key", key))?;
            "single-delete"
        }
        Change::DeleteRange { start, end, .. } => {
            put(shape.key.json_member("start", start))?;
            if let Some(end) = end {
                put(shape.key.json_member("end", end))?;
            }
            "delete-range"
        }
        Change::Merge { key, operand, expiry_ms, .. } => {
            put(shape.key.json_member("key", key))?;
            put(shape.value.json_member("operand", operand))?;
            expiry = *expiry_ms;
            "merge"
        }
        Change::Ingest { tables, bytes, .. } => {
            put(Ok(("tables".into(), json!(tables))))?;
            put(Ok(("bytes".into(), json!(bytes))))?;
            "ingest"
        }
        _ => "unknown",
    };
    if let Some(expiry_ms) = expiry {
        members.insert("expiry_ms".into(), expiry_ms.into());
    }
    members.insert("operation".into(), operation.into());
    Ok(Value::Object(members))
}

fn list(context: &mut Context<'_>) -> Result<(), Failure> {
    for consumer in context.database.consumers() {
        if context.shape.json {
            let members = [
                ("consumer", json!(consumer.name)),
                ("acknowledged", json!(consumer.acknowledged.get())),
                ("newer_operations", json!(consumer.newer_operations)),
                ("kept_bytes", json!(consumer.kept_bytes)),
                ("is_cut_off", json!(consumer.is_cut_off)),
            ];
            write_json(context.out, members.map(|(name, value)| (name.to_owned(), value)))?;
            continue;
        }
        let behind = match consumer.is_cut_off {
            true => "cut off: what it wants next is gone".to_owned(),
            false => format!(
                "{} behind, {} of log kept",
                human_count(consumer.newer_operations),
                human_bytes(consumer.kept_bytes)
            ),
        };
        writeln!(context.out, "{}  at {}, {behind}", consumer.name.escape_debug(), consumer.acknowledged)?;
    }
    Ok(())
}

fn report_done(context: &mut Context<'_>, what: &str, name: &str) -> Result<(), Failure> {
    if context.shape.json {
        return write_json(context.out, [(what.to_owned(), name.into())]);
    }
    writeln!(context.out, "consumer {name:?} {what}")?;
    Ok(())
}
