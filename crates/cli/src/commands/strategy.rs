//! `strategy`: how the tree is kept in form, and the way from one form to another.

use super::{Context, write_json};
use crate::args::StrategyArgs;
use crate::failure::{Exit, Failure};
use crate::format::human_bytes;
use esker::{Keyspace, MigrationInfo};
use serde_json::json;

pub(super) fn run(context: &mut Context<'_>, args: &StrategyArgs) -> Result<Exit, Failure> {
    let keyspace = context.existing_keyspace()?;
    if let Some(text) = &args.strategy {
        let changed = keyspace.options().set("strategy", text)?;
        keyspace.set_options(|_| changed.clone())?;
    }
    if args.pause {
        keyspace.pause_migration()?;
    }
    if args.resume {
        keyspace.resume_migration()?;
    }
    if args.wait {
        // A paused migration is nothing that is left to do.
        context.database.drain()?;
    }
    show(context, &keyspace)?;
    Ok(Exit::Done)
}

fn show(context: &mut Context<'_>, keyspace: &Keyspace) -> Result<(), Failure> {
    let (name, migration) = (keyspace.name(), keyspace.migration());
    let options = keyspace.options().named_values();
    let strategy = options.into_iter().find(|(name, _)| name == "strategy").map(|(_, text)| text);
    let strategy = strategy.unwrap_or_default();
    if context.shape.json {
        let migration = migration.as_ref().map(as_json);
        let members = [
            ("keyspace".to_owned(), name.to_string().into()),
            ("strategy".to_owned(), strategy.into()),
            ("migration".to_owned(), migration.into()),
        ];
        return write_json(context.out, members);
    }
    let state = match migration {
        None => "the tree has its form".to_owned(),
        Some(migration) => progress(&migration),
    };
    writeln!(context.out, "{}: {strategy}, {state}", name.escape_debug())?;
    Ok(())
}

/// How far a tree has come on its way from one form to another.
pub(super) fn progress(migration: &MigrationInfo) -> String {
    format!(
        "{} % of the way from {} done, {} of {} left{}",
        migration.percent_done(),
        migration.from,
        human_bytes(migration.bytes_left),
        human_bytes(migration.bytes_at_switch),
        if migration.is_paused { ", paused" } else { "" }
    )
}

pub(super) fn as_json(migration: &MigrationInfo) -> serde_json::Value {
    json!({
        "from": migration.from.to_string(),
        "bytes_at_switch": migration.bytes_at_switch,
        "bytes_left": migration.bytes_left,
        "paused": migration.is_paused,
    })
}
