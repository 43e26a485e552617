//! `options`: lists the options, prints their values, and sets them.

mod document;
mod layout;

use super::{open_existing, open_for_reading, write_json};
use crate::args::{Global, OptionsArgs, Shape};
use crate::failure::{Exit, Failure};
use crate::host;
use esker::options::{OptionInfo, OptionScope, OptionValue, Preset};
use esker::{Database, KeyspaceOptions, Options};
use layout::Layout;
use std::io::Write;

pub(crate) fn run(global: &Global, args: &OptionsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let shape = global.shape.or(&Shape::default());
    let layout = Layout { width: host::output_width(), json: shape.json };
    if args.presets {
        layout.presets(out)?;
    } else if args.markdown {
        document::page(out)?;
    } else if args.chosen.iter().any(|chosen| chosen.contains('=')) {
        let changes = changes(args)?;
        let database = open_existing(global, |options| options)?;
        let changed = change(&database, &shape.keyspace, &changes, &layout, out);
        let closed = database.close();
        changed?;
        closed?;
    } else if let Some(shown) = shown(global, args, &shape.keyspace)? {
        print(&shown, args, &layout, out)?;
    } else if args.toml {
        document::template(out)?;
    } else {
        layout.list(out, &chosen(args)?)?;
    }
    Ok(Exit::Done)
}

/// Shows and changes options of keyspaces of a database that is open. Those that it was opened with are of
/// the process that did it, and are not told.
pub(crate) fn run_open(
    database: &Database,
    args: &OptionsArgs,
    shape: &Shape,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if args.presets || args.markdown || args.preset.is_some() {
        return Err(Failure::usage(
            "presets and the page of the manual are those of the program, not of a database",
        ));
    }
    let layout = Layout { width: host::output_width(), json: shape.json };
    if args.chosen.iter().any(|chosen| chosen.contains('=')) {
        change(database, &shape.keyspace, &changes(args)?, &layout, out)?;
    } else {
        let of_process = chosen(args)?.into_iter().find(|info| info.scope == OptionScope::Database);
        if let Some(info) = of_process.filter(|_| !args.chosen.is_empty()) {
            let what = format!("{} was given when the database was opened, and is not told", info.name);
            return Err(Failure::usage(what)
                .advise("the process that has the database open was started with it, or has its default"));
        }
        print(&of_keyspace(database, &shape.keyspace, None)?, args, &layout, out)?;
    }
    Ok(Exit::Done)
}

fn print(shown: &Shown, args: &OptionsArgs, layout: &Layout, out: &mut dyn Write) -> Result<(), Failure> {
    if args.toml {
        write!(out, "{}", shown.configuration)?;
        return Ok(());
    }
    let chosen = chosen(args)?;
    let wanted = |value: &&OptionValue| chosen.iter().any(|info| info.name == value.name);
    for (title, infos, values) in [
        (&shown.database_title, Options::list(), &shown.database),
        (&shown.keyspace_title, KeyspaceOptions::list(), &shown.keyspace),
    ] {
        let values: Vec<OptionValue> = values.iter().filter(wanted).cloned().collect();
        layout.values(out, title, &infos, &values)?;
    }
    Ok(())
}

/// The named options, in their usual order; all if none is named.
fn chosen(args: &OptionsArgs) -> Result<Vec<OptionInfo>, Failure> {
    let mut all = OptionInfo::all();
    if !args.chosen.is_empty() {
        let named = args.chosen.iter().map(|name| Ok(OptionInfo::find(name)?));
        let named = named.collect::<Result<Vec<OptionInfo>, Failure>>()?;
        all.retain(|info| named.contains(info));
    }
    Ok(all)
}

struct Shown {
    database_title: String,
    database: Vec<OptionValue>,
    keyspace_title: String,
    keyspace: Vec<OptionValue>,
    configuration: String,
}

/// The values of the chosen source: a preset, a database, or a configuration.
fn shown(global: &Global, args: &OptionsArgs, keyspace: &str) -> Result<Option<Shown>, Failure> {
    let of_options = |options: &Options| Shown {
        database_title: "Options of the database".into(),
        database: options.values(),
        keyspace_title: "Options of keyspaces that are created".into(),
        keyspace: options.keyspace_defaults().values(),
        configuration: options.to_toml(),
    };
    if let Some(name) = &args.preset {
        return Ok(Some(of_options(&Options::preset(name)?)));
    }
    let given = super::configured(global)?;
    if global.data.is_none() {
        return Ok((global.config.is_some() || global.memory.is_some()).then(|| of_options(&given)));
    }
    let database = open_for_reading(global)?;
    let shown = of_keyspace(&database, keyspace, Some(given))?;
    database.close()?;
    Ok(Some(shown))
}

/// The options of a keyspace, and those that the database was opened with, if they are known.
fn of_keyspace(database: &Database, keyspace: &str, given: Option<Options>) -> Result<Shown, Failure> {
    let stored = super::existing_keyspace(database, keyspace)?.options();
    Ok(Shown {
        database_title: "Options of the database, given when it is opened".into(),
        database: given.as_ref().map(Options::values).unwrap_or_default(),
        keyspace_title: format!("Options of keyspace {keyspace:?}, stored with it"),
        keyspace: stored.values(),
        configuration: configuration(database, given.unwrap_or_default())?,
    })
}

/// A configuration that gives keyspaces the options that they have in the database.
fn configuration(database: &Database, mut options: Options) -> Result<String, Failure> {
    for name in database.keyspaces() {
        for value in database.open_keyspace(&name)?.options().values() {
            if !value.is_default {
                options = options.set_keyspace(&name, value.name, &value.text)?;
            }
        }
    }
    Ok(options.to_toml())
}

/// An option, its new value, and what is known of it.
type Change<'a> = (&'a str, &'a str, OptionInfo);

fn changes(args: &OptionsArgs) -> Result<Vec<Change<'_>>, Failure> {
    let mut changes = Vec::new();
    for written in &args.chosen {
        let (name, value) = written
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("'{written}' has no value; write NAME=VALUE")))?;
        let info = OptionInfo::find(name)?;
        if info.scope == OptionScope::Database {
            let failure =
                Failure::usage(format!("{name} is not stored: it is given each time the database is opened"));
            return Err(failure
                .advise(format!(
                    "write `{} = ...` into a file, and open with --config FILE; `esker serve` reads its file again \
                     at SIGHUP",
                    info.name
                )));
        }
        changes.push((name, value, info));
    }
    Ok(changes)
}

fn change(
    database: &Database,
    keyspace: &str,
    changes: &[Change<'_>],
    layout: &Layout,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let keyspace = super::existing_keyspace(database, keyspace)?;
    let before = keyspace.options();
    let set = |options: KeyspaceOptions, (name, value, _): &Change<'_>| options.set(name, value);
    let after = changes.iter().try_fold(before.clone(), set)?;
    let kept = keyspace.update_options(|_| after.clone())?;
    for (.., info) in changes {
        let value = |options: &KeyspaceOptions| {
            options
                .values()
                .into_iter()
                .find(|value| value.name == info.name)
                .map(|value| value.text)
                .unwrap_or_default()
        };
        layout.changed(out, info, &value(&before), &value(&after), &kept)?;
    }
    Ok(())
}

fn write_json_option(
    out: &mut dyn Write,
    info: &OptionInfo,
    value: Option<&OptionValue>,
) -> Result<(), Failure> {
    let scope = info.scope.to_string();
    let mut members = vec![("option".to_owned(), info.name.into()), ("scope".to_owned(), scope.into())];
    if let Some(value) = value {
        let typed = value.number.map_or_else(|| value.text.clone().into(), Into::into);
        members.push(("value".to_owned(), typed));
        members.push(("text".to_owned(), value.text.clone().into()));
        members.push(("is_default".to_owned(), value.is_default.into()));
    }
    members.push(("default".to_owned(), info.default.clone().into()));
    if value.is_none() {
        members.push(("allowed".to_owned(), info.allowed.clone().into()));
        members.push(("aliases".to_owned(), info.aliases.into()));
        members.push(("help".to_owned(), info.help.into()));
    }
    members.push(("online".to_owned(), info.change.is_online().into()));
    members.push(("holds".to_owned(), info.change.to_string().into()));
    write_json(out, members)
}

fn write_json_preset(out: &mut dyn Write, preset: &Preset) -> Result<(), Failure> {
    let members = [("preset", preset.name), ("help", preset.help)];
    write_json(out, members.map(|(name, value)| (name.to_owned(), value.into())))
}
