//! `checkpoint`, `backup` and `restore`.

use super::{Context, open_existing, write_json};
use crate::args::{
    BackupCommand, BackupCreateArgs, BackupPruneArgs, BackupVerifyArgs, CheckpointArgs, Global, RestoreArgs,
    Shape,
};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_counted, human_time, unix_ms};
use crate::interrupt::Interrupt;
use esker::Database;
use esker::backup::{BackupId, BackupInfo, Backups, CopyProgress, Retention};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

pub(super) fn checkpoint(context: &mut Context<'_>, args: &CheckpointArgs) -> Result<Exit, Failure> {
    let target = context.caller.path(&args.target);
    let work = |told: Told<'_>| context.database.checkpoint_with(target, told);
    let report = interruptible(&context.caller, "no checkpoint was made", work)?;
    if context.shape.json {
        let members = json!({
            "seqno": report.seqno.get(),
            "linked_tables": report.linked_tables, "linked_bytes": report.linked_bytes,
            "written_tables": report.written_tables, "written_bytes": report.written_bytes,
        });
        write_object(context.out, members)?;
    } else {
        writeln!(
            context.out,
            "{}: {} linked ({}), {} written ({})",
            args.target.display(),
            human_counted(report.linked_tables, "table"),
            human_bytes(report.linked_bytes),
            human_count(report.written_tables),
            human_bytes(report.written_bytes)
        )?;
    }
    Ok(Exit::Done)
}

pub(crate) fn backup(global: &Global, command: &BackupCommand, out: &mut dyn Write) -> Result<Exit, Failure> {
    let is_json = global.shape.or(&Shape::default()).json;
    match command {
        BackupCommand::Create(args) => create(global, args, is_json, out),
        BackupCommand::List(args) => {
            for backup in existing(&Backups::new(&args.dir), &args.dir)? {
                show(out, &backup, is_json)?;
            }
            Ok(Exit::Done)
        }
        BackupCommand::Verify(args) => verify(args, is_json, out),
        BackupCommand::Prune(args) => prune(args, is_json, out),
    }
}

fn create(
    global: &Global,
    args: &BackupCreateArgs,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let database = open_existing(global, |options| options)?;
    let created = create_open(&database, &Caller::default(), args, is_json, out);
    let closed = database.close();
    let exit = created?;
    closed?;
    Ok(exit)
}

/// `backup create` of a database that is open.
pub(crate) fn create_open(
    database: &Database,
    caller: &Caller,
    args: &BackupCreateArgs,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let backups = Backups::new(caller.path(&args.dir));
    let left = "no backup was made; tables that were copied whole stay for the next one";
    let report = interruptible(caller, left, |told| database.backup_with(&backups, told))?;
    if is_json {
        let members = json!({
            "id": report.id.get(), "seqno": report.seqno.get(),
            "tables": report.tables, "bytes": report.bytes,
            "copied_tables": report.copied_tables, "copied_bytes": report.copied_bytes,
        });
        write_object(out, members)?;
    } else {
        writeln!(
            out,
            "backup {}: {}, {}; new: {}, {}",
            report.id.get(),
            human_counted(report.tables, "table"),
            human_bytes(report.bytes),
            human_counted(report.copied_tables, "table"),
            human_bytes(report.copied_bytes)
        )?;
    }
    Ok(Exit::Done)
}

fn verify(args: &BackupVerifyArgs, is_json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let backups = Backups::new(&args.dir);
    let ids: Vec<BackupId> = match args.id {
        Some(id) => vec![parse_id(id)?],
        None => existing(&backups, &args.dir)?.iter().map(|backup| backup.id).collect(),
    };
    let mut exit = Exit::Done;
    for (done, &id) in ids.iter().enumerate() {
        let left = format!("{} were read to their end", human_counted(done as u64, "backup"));
        let found = interruptible(&Caller::default(), &left, |told| backups.verify_with(id, told))?;
        if !found.is_clean() {
            exit = Exit::Damage;
        }
        if is_json {
            let damage: Vec<Value> = found
                .damage
                .iter()
                .map(|damage| json!({ "file": damage.file.display().to_string(), "error": damage.error.to_string() }))
                .collect();
            let members = json!({
                "id": id.get(), "tables": found.tables, "entries": found.entries,
                "bytes": found.bytes, "damage": damage,
            });
            write_object(out, members)?;
            continue;
        }
        let verdict = if found.is_clean() { "can be restored" } else { "is damaged" };
        writeln!(
            out,
            "backup {} {verdict}: {}, {} entries, {} read",
            id.get(),
            human_counted(found.tables, "table"),
            human_count(found.entries),
            human_bytes(found.bytes)
        )?;
        for damage in &found.damage {
            writeln!(out, "damaged: {}", damage.error)?;
        }
    }
    Ok(exit)
}

fn prune(args: &BackupPruneArgs, is_json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let rule = match (args.keep, args.within) {
        (Some(keep), None) => Retention::keep_last(keep),
        (Some(keep), Some(age)) => Retention::keep_last(keep).and_within(age),
        (None, Some(age)) => Retention::keep_within(age),
        (None, None) => return Err(Failure::usage("say what to keep: --keep N, --within AGE, or both")),
    };
    let backups = Backups::new(&args.dir);
    existing(&backups, &args.dir)?;
    let removed = backups.retain(rule)?;
    if !is_json {
        writeln!(out, "{} removed", human_counted(removed.len() as u64, "backup"))?;
    }
    removed.iter().try_for_each(|backup| show(out, backup, is_json))?;
    Ok(Exit::Done)
}

pub(crate) fn restore(global: &Global, args: &RestoreArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let backups = Backups::new(&args.dir);
    let id = match args.id {
        Some(id) => parse_id(id)?,
        None => {
            let newest = existing(&backups, &args.dir)?.last().map(|backup| backup.id);
            newest.ok_or_else(|| Failure::usage(format!("there are no backups in {}", args.dir.display())))?
        }
    };
    let target = global.data();
    let work = |told: Told<'_>| backups.restore_with(id, target, told);
    let report = interruptible(&Caller::default(), "nothing was restored", work)?;
    if global.shape.or(&Shape::default()).json {
        let members = json!({
            "id": id.get(), "tables": report.tables, "bytes": report.bytes, "seqno": report.seqno.get(),
        });
        write_object(out, members)?;
    } else {
        let (tables, bytes) = (human_counted(report.tables, "table"), human_bytes(report.bytes));
        writeln!(out, "backup {} restored to {}: {tables}, {bytes}", id.get(), target.display())?;
    }
    Ok(Exit::Done)
}

fn existing(backups: &Backups, dir: &Path) -> Result<Vec<BackupInfo>, Failure> {
    backups.list().map_err(|error| {
        Failure::from(error)
            .advise(format!("`esker backup create {} --data DIR` makes the first backup", dir.display()))
    })
}

fn parse_id(id: u32) -> Result<BackupId, Failure> {
    Ok(id.to_string().parse()?)
}

fn show(out: &mut dyn Write, backup: &BackupInfo, is_json: bool) -> Result<(), Failure> {
    if is_json {
        let members = json!({
            "id": backup.id.get(), "created_ms": unix_ms(backup.created), "seqno": backup.seqno.get(),
            "entries": backup.entries, "tables": backup.tables, "bytes": backup.bytes,
        });
        return write_object(out, members);
    }
    writeln!(
        out,
        "{:>6}  {}  {:>14} entries  {:>6} tables  {:>10}",
        backup.id.get(),
        human_time(unix_ms(backup.created)),
        human_count(backup.entries),
        human_count(backup.tables),
        human_bytes(backup.bytes)
    )?;
    Ok(())
}

fn write_object(out: &mut dyn Write, object: Value) -> Result<(), Failure> {
    match object {
        Value::Object(members) => write_json(out, members),
        _ => Ok(()),
    }
}

/// What a copy calls with its progress.
type Told<'a> = &'a mut dyn FnMut(CopyProgress);

/// Copies with a bar, until it is done or the user interrupts it; `left` says what is there then.
fn interruptible<T>(
    caller: &Caller,
    left: &str,
    work: impl FnOnce(Told<'_>) -> esker::Result<T>,
) -> Result<T, Failure> {
    let interrupt = Interrupt::of(caller)?;
    let bar = caller.progress_bar(Some(0));
    let mut so_far = CopyProgress::default();
    let result = interrupt.during(|| {
        work(&mut |progress| {
            so_far = progress;
            bar.set_length(progress.total_bytes);
            bar.set_position(progress.done_bytes);
            interrupt.leave_if_set();
        })
    });
    bar.finish_and_clear();
    let interrupted = || {
        let (done, total) = (human_bytes(so_far.done_bytes), human_bytes(so_far.total_bytes));
        Failure::interrupted(format!("{left}; {done} of {total} were done"))
    };
    Ok(result.ok_or_else(interrupted)??)
}
