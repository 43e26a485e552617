//! `strategy`: shows and changes the compaction strategy of a keyspace, and the progress of a migration.

use super::{Context, write_json};
use crate::args::StrategyArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_counted};
use esker::Keyspace;
use esker::advice::AdaptationInfo;
use esker::metrics::MigrationInfo;
use serde_json::{Value, json};
use std::io::Write;

pub(super) fn run(context: &mut Context<'_>, args: &StrategyArgs) -> Result<Exit, Failure> {
    let keyspace = context.existing_keyspace()?;
    if let Some(text) = &args.strategy {
        let changed = keyspace.options().set("strategy", text)?;
        keyspace.update_options(|_| changed.clone())?;
    }
    if args.pause {
        keyspace.pause_migration()?;
    }
    if args.resume {
        keyspace.resume_migration()?;
    }
    if args.wait {
        // Draining does not wait for a paused migration.
        context.database.drain()?;
    }
    show(context, args, &keyspace)?;
    Ok(Exit::Done)
}

fn show(context: &mut Context<'_>, args: &StrategyArgs, keyspace: &Keyspace) -> Result<(), Failure> {
    let (name, migration) = (keyspace.name(), keyspace.migration());
    let options = keyspace.options().named_values();
    let strategy = options.into_iter().find(|(name, _)| name == "strategy").map(|(_, text)| text);
    let strategy = strategy.unwrap_or_default();
    let adaptation = keyspace.adaptation();
    if context.shape.json {
        let migration = migration.as_ref().map(esker_admin::json::levels::migration);
        let members = [
            ("keyspace".to_owned(), name.to_string().into()),
            ("strategy".to_owned(), strategy.into()),
            ("migration".to_owned(), migration.into()),
            ("adaptation".to_owned(), adaptation.as_ref().map(adaptation_json).into()),
        ];
        return write_json(context.out, members);
    }
    let state = match migration {
        // A pause has no effect on a later change of strategy, so the user must be told.
        None if args.pause => "the tree has its form, so nothing was paused".to_owned(),
        None if args.resume && !args.wait => "the tree has its form, so nothing was resumed".to_owned(),
        None => "the tree has its form".to_owned(),
        Some(migration) => progress(&migration),
    };
    writeln!(context.out, "{}: {strategy}, {state}", name.escape_debug())?;
    if let Some(adaptation) = &adaptation {
        print_adaptation(context.out, adaptation)?;
    }
    Ok(())
}

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

fn print_adaptation(out: &mut dyn Write, told: &AdaptationInfo) -> Result<(), Failure> {
    let changes = human_counted(told.changes, "change");
    let last = told.last.as_deref().unwrap_or("the first window has not ended");
    writeln!(out, "adapts in windows of {} s, {changes} since opening: {last}", told.window.as_secs())?;
    Ok(())
}

fn adaptation_json(told: &AdaptationInfo) -> Value {
    json!({
        "window_s": told.window.as_secs(),
        "agreeing_windows": told.agreeing_windows,
        "needed_windows": told.needed_windows,
        "rest_s": told.rest.as_secs(),
        "changes": told.changes,
        "last": told.last,
    })
}
