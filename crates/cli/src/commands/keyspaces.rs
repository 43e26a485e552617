//! `keyspaces`: lists, creates, drops and renames keyspaces, and sets their options.

use super::{Context, write_json};
use crate::args::KeyspacesArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count};
use esker::KeyspaceOptions;

pub(super) fn run(context: &mut Context<'_>, args: &KeyspacesArgs) -> Result<Exit, Failure> {
    if let Some(name) = &args.create {
        create(context, name, &args.set)?;
    } else if let Some(name) = &args.drop {
        context.database.drop_keyspace(name)?;
        report_done(context, "dropped", name)?;
    } else if let Some([from, to]) = args.rename.as_deref() {
        context.database.rename_keyspace(from, to)?;
        report_done(context, "renamed", to)?;
    } else if args.options {
        show_options(context)?;
    } else if !args.set.is_empty() {
        let keyspace = context.existing_keyspace()?;
        let options = with_settings(keyspace.options(), &args.set)?;
        keyspace.update_options(|_| options.clone())?;
        report_done(context, "changed", &keyspace.name())?;
    } else {
        list(context)?;
    }
    Ok(Exit::Done)
}

fn create(context: &mut Context<'_>, name: &str, settings: &[String]) -> Result<(), Failure> {
    if context.database.open_keyspace(name).is_ok() {
        return Err(Failure::usage(format!("there is a keyspace {name:?} already")));
    }
    context.database.keyspace_with(name, with_settings(KeyspaceOptions::default(), settings)?)?;
    report_done(context, "created", name)
}

fn report_done(context: &mut Context<'_>, what: &str, name: &str) -> Result<(), Failure> {
    if context.shape.json {
        return write_json(context.out, [(what.to_owned(), name.into())]);
    }
    writeln!(context.out, "keyspace {name:?} {what}")?;
    Ok(())
}

/// The options changed by `OPTION=VALUE` of the command line.
pub(super) fn with_settings(
    options: KeyspaceOptions,
    settings: &[String],
) -> Result<KeyspaceOptions, Failure> {
    settings.iter().try_fold(options, |options, setting| {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("'{setting}' is not written OPTION=VALUE")))?;
        Ok(options.set(name, value)?)
    })
}

fn show_options(context: &mut Context<'_>) -> Result<(), Failure> {
    let options = context.existing_keyspace()?.options();
    if context.shape.json {
        let members = options
            .values()
            .into_iter()
            .map(|value| (value.name.to_owned(), value.number.map_or_else(|| value.text.into(), Into::into)));
        return write_json(context.out, members);
    }
    for (name, value) in options.named_values() {
        writeln!(context.out, "{name}={value}")?;
    }
    Ok(())
}

fn list(context: &mut Context<'_>) -> Result<(), Failure> {
    let keyspaces = context.database.metrics().keyspaces;
    let shown = |name: &str| name.escape_debug().to_string();
    let width = keyspaces.iter().map(|keyspace| shown(&keyspace.name).chars().count()).max().unwrap_or(0);
    for keyspace in keyspaces {
        let entries = keyspace.memtable_entries + keyspace.table_entries;
        if context.shape.json {
            let members = [
                ("keyspace".to_owned(), keyspace.name.into()),
                ("entries".to_owned(), entries.into()),
                ("tables".to_owned(), keyspace.tables.into()),
                ("bytes".to_owned(), (keyspace.table_bytes + keyspace.blob_bytes).into()),
            ];
            write_json(context.out, members)?;
        } else {
            writeln!(
                context.out,
                "{:width$}  {:>8} entries  {:>6} tables  {:>10}",
                shown(&keyspace.name),
                human_count(entries),
                human_count(keyspace.tables as u64),
                human_bytes(keyspace.table_bytes + keyspace.blob_bytes)
            )?;
        }
    }
    Ok(())
}
