//! `verify` and `repair`.

use super::{Context, write_json};
use crate::args::{Global, RepairArgs, Shape, VerifyArgs};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_counted};
use crate::host;
use crate::interrupt::Interrupt;
use esker::repair::{
    Comparison, DirectoryReport, Finding, KeySpan, RepairBasis, RepairOptions, RepairReport, VerifyOptions,
    repair_directory, verify_directory_with,
};
use serde_json::{Value, json};
use std::io::Write;

/// Files that are named one by one.
const NAMED_FILES: usize = 10;

/// `verify` of a directory that is not open.
pub(super) fn verify_alone(global: &Global, args: &VerifyArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut options = VerifyOptions::new();
    if let Some(against) = &args.against {
        options = options.against(against);
    }
    let report = verified(&Caller::default(), host::bytes_of_tables(global.data()), |told| {
        verify_directory_with(global.data(), &options, |report| {
            told(report.tables + report.blob_files, report.bytes, report.damage.len());
        })
    })?;
    let exit = if report.is_clean() { Exit::Done } else { Exit::Damage };
    if global.shape.json {
        write_json(out, members(verify_object(&report)))?;
        return Ok(exit);
    }
    let read =
        what_was_read(report.tables, report.blocks, report.entries, report.range_deletes, report.bytes);
    writeln!(out, "{read}")?;
    if report.blob_files > 0 {
        let values = human_counted(report.blob_values, "large value");
        let pointers = human_counted(report.pointers, "pointer");
        writeln!(out, "{}, {values}, {pointers} followed", human_counted(report.blob_files, "blob file"))?;
    }
    if report.log_records > 0 {
        writeln!(out, "{} of the log to replay", human_counted(report.log_records, "record"))?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    for finding in &report.damage {
        writeln!(out, "damaged: {finding}")?;
    }
    if let (Some(comparison), Some(against)) = (&report.comparison, &args.against) {
        show_comparison(out, comparison, &against.display().to_string())?;
    }
    if report.is_clean() {
        writeln!(out, "no damage")?;
    } else {
        let places = human_counted(report.damage.len() as u64, "place");
        writeln!(
            out,
            "damage was found: {places}; `esker repair DIR --into NEW` makes a new database of the rest"
        )?;
    }
    Ok(exit)
}

/// Verifies with a bar, until it is done or the user interrupts it. The work tells after each file how many
/// files and bytes it has read, and how many places are damaged.
fn verified<T>(
    caller: &Caller,
    total_bytes: u64,
    work: impl FnOnce(&mut dyn FnMut(u64, u64, usize)) -> esker::Result<T>,
) -> Result<T, Failure> {
    let interrupt = Interrupt::of(caller)?;
    let bar = caller.progress_bar(Some(total_bytes));
    let mut so_far = (0, 0);
    let report = interrupt.during(|| {
        work(&mut |files, bytes, damaged| {
            so_far = (files, damaged);
            bar.set_position(bytes);
            interrupt.leave_if_set();
        })
    });
    bar.finish_and_clear();
    let interrupted = || {
        let (files, damaged) = (human_counted(so_far.0, "file"), human_counted(so_far.1 as u64, "place"));
        Failure::interrupted(format!("{files} read, {damaged} damaged in them; the rest was not read"))
    };
    Ok(report.ok_or_else(interrupted)??)
}

fn show_comparison(out: &mut dyn Write, comparison: &Comparison, against: &str) -> Result<(), Failure> {
    let (same, differing) = (comparison.same, comparison.differing.len() as u64);
    writeln!(
        out,
        "compared with {against}: {} alike, {} different, {} only there, {} only here",
        human_counted(same, "file"),
        human_count(differing),
        human_count(comparison.only_in_copy.len() as u64),
        human_count(comparison.only_here.len() as u64)
    )?;
    for difference in &comparison.differing {
        let (file, copy) = (difference.file.display(), difference.copy.display());
        writeln!(out, "different: {file} and {copy} from byte {} on", difference.offset)?;
    }
    for path in &comparison.only_in_copy {
        writeln!(out, "only in the copy: {}", path.display())?;
    }
    Ok(())
}

/// `verify` in the shell, whose database is open.
pub(super) fn verify_open(context: &mut Context<'_>, args: &VerifyArgs) -> Result<Exit, Failure> {
    if args.against.is_some() {
        return Err(Failure::usage("--against compares a database that is not open")
            .advise("leave the shell and run `esker verify --data DIR --against COPY`"));
    }
    let keyspaces = context.database.metrics().keyspaces;
    let total_bytes = keyspaces.iter().map(|keyspace| keyspace.table_bytes + keyspace.blob_bytes).sum();
    let report = verified(&context.caller, total_bytes, |told| {
        context.database.verify_with(|report| {
            told(report.tables + report.blob_files, report.bytes, report.damage.len());
        })
    })?;
    if context.shape.json {
        let damage: Vec<Value> = report
            .damage
            .iter()
            .map(|damage| {
                let file = damage.file.display().to_string();
                json!({ "keyspace": damage.keyspace, "file": file, "error": damage.error.to_string() })
            })
            .collect();
        let object = json!({
            "tables": report.tables, "blocks": report.blocks, "entries": report.entries,
            "range_deletes": report.range_deletes, "blob_files": report.blob_files,
            "blob_values": report.blob_values, "bytes": report.bytes, "damage": damage,
        });
        write_json(context.out, members(object))?;
    } else {
        let read =
            what_was_read(report.tables, report.blocks, report.entries, report.range_deletes, report.bytes);
        writeln!(context.out, "{read}")?;
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

pub(crate) fn repair(global: &Global, args: &RepairArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut options = RepairOptions::new().copy_files(args.copy);
    if let Some(refill) = &args.refill {
        options = options.refill(refill);
    }
    let report = repair_directory(&args.dir, &args.into, &options)?;
    let exit = if report.is_complete() { Exit::Done } else { Exit::Damage };
    if global.shape.or(&Shape::default()).json {
        write_json(out, members(repair_object(&report)))?;
        return Ok(exit);
    }
    show_basis(out, &report)?;
    for keyspace in &report.keyspaces {
        write!(
            out,
            "keyspace {:?}: {}, {} {}",
            keyspace.name,
            human_counted(keyspace.tables, "table"),
            human_count(keyspace.entries),
            if keyspace.entries == 1 { "entry" } else { "entries" }
        )?;
        if keyspace.blob_files > 0 {
            write!(out, ", {}", human_counted(keyspace.blob_files, "blob file"))?;
        }
        match (keyspace.is_name_lost, keyspace.are_options_lost) {
            (true, _) => writeln!(out, " (name and options are lost)")?,
            (false, true) => writeln!(out, " (options are lost: these are the defaults)")?,
            (false, false) => writeln!(out)?,
        }
    }
    writeln!(
        out,
        "kept: {} unchanged ({}), {} written anew, {} of the log",
        human_counted(report.kept_files, "file"),
        human_bytes(report.kept_bytes),
        human_counted(report.written_tables, "table"),
        human_counted(report.log_records, "record")
    )?;
    show_refill(out, &report)?;
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    for lost in &report.lost {
        writeln!(out, "lost: {}", lost.finding)?;
    }
    for doubt in &report.doubtful {
        writeln!(out, "doubtful: {doubt}")?;
    }
    let into = args.into.display();
    match (report.is_complete(), report.lost_entries_at_most()) {
        (true, _) => writeln!(out, "nothing is lost; the new database is {into}")?,
        (false, Some(0)) => writeln!(out, "no entry is known to be lost; the new database is {into}")?,
        (false, Some(entries)) => {
            let entries = human_count(entries);
            writeln!(out, "at most {entries} entries are lost; the new database is {into}")?;
        }
        (false, None) => writeln!(out, "how many entries are lost is not known; the new database is {into}")?,
    }
    Ok(exit)
}

fn show_basis(out: &mut dyn Write, report: &RepairReport) -> Result<(), Failure> {
    match &report.basis {
        RepairBasis::Manifest { file } => writeln!(out, "the manifest {} is whole", file.display())?,
        RepairBasis::EarlierManifest { file, last_edit } => writeln!(
            out,
            "the manifest {} lost what came after edit {last_edit}: all tables were merged by sequence number",
            file.display()
        )?,
        _ => writeln!(out, "there is no readable manifest: all tables were merged by sequence number")?,
    }
    Ok(())
}

fn show_refill(out: &mut dyn Write, report: &RepairReport) -> Result<(), Failure> {
    for path in report.refilled.iter().take(NAMED_FILES) {
        writeln!(out, "taken from the copy: {}", path.display())?;
    }
    for path in report.not_in_copy.iter().take(NAMED_FILES) {
        writeln!(out, "not whole in the copy: {}", path.display())?;
    }
    let unnamed = |paths: &[std::path::PathBuf]| paths.len().saturating_sub(NAMED_FILES);
    let more = unnamed(&report.refilled) + unnamed(&report.not_in_copy);
    if more > 0 {
        writeln!(out, "and {more} more files; --json lists all")?;
    }
    Ok(())
}

fn members(object: Value) -> impl Iterator<Item = (String, Value)> {
    let Value::Object(members) = object else { unreachable!("the reports are objects") };
    members.into_iter()
}

fn verify_object(report: &DirectoryReport) -> Value {
    let comparison = report.comparison.as_ref().map(|other| {
        let differing = other.differing.iter().map(|difference| {
            json!({
                "file": difference.file.display().to_string(),
                "copy": difference.copy.display().to_string(),
                "offset": difference.offset,
            })
        });
        json!({
            "same": other.same, "differing": differing.collect::<Vec<_>>(),
            "only_in_copy": shown(&other.only_in_copy), "only_here": shown(&other.only_here),
        })
    });
    json!({
        "tables": report.tables, "blocks": report.blocks, "entries": report.entries,
        "range_deletes": report.range_deletes, "blob_files": report.blob_files,
        "blob_values": report.blob_values, "pointers": report.pointers, "log_records": report.log_records,
        "bytes": report.bytes, "notes": report.notes, "comparison": comparison,
        "damage": report.damage.iter().map(finding_object).collect::<Vec<_>>(),
    })
}

fn repair_object(report: &RepairReport) -> Value {
    let (basis, manifest) = match &report.basis {
        RepairBasis::Manifest { file } => ("manifest", Some(file.display().to_string())),
        RepairBasis::EarlierManifest { file, .. } => ("earlier manifest", Some(file.display().to_string())),
        _ => ("files", None),
    };
    let keyspaces = report.keyspaces.iter().map(|keyspace| {
        json!({
            "name": keyspace.name, "name_lost": keyspace.is_name_lost,
            "options_lost": keyspace.are_options_lost, "tables": keyspace.tables,
            "entries": keyspace.entries, "blob_files": keyspace.blob_files,
        })
    });
    let lost = report.lost.iter().map(|lost| {
        let mut object = finding_object(&lost.finding);
        object["first_seqno"] = json!(lost.seqnos.map(|(first, _)| first.get()));
        object["last_seqno"] = json!(lost.seqnos.and_then(|(_, last)| last).map(|last| last.get()));
        object
    });
    let doubtful = report.doubtful.iter().map(
        |doubt| json!({ "keyspace": doubt.keyspace, "keys": keys_object(&doubt.keys), "why": doubt.why }),
    );
    json!({
        "basis": basis, "manifest": manifest, "keyspaces": keyspaces.collect::<Vec<_>>(),
        "kept_files": report.kept_files, "kept_bytes": report.kept_bytes,
        "written_tables": report.written_tables, "log_records": report.log_records,
        "refilled": shown(&report.refilled), "not_in_copy": shown(&report.not_in_copy),
        "seqno": report.seqno.get(), "lost": lost.collect::<Vec<_>>(),
        "lost_entries_at_most": report.lost_entries_at_most(),
        "doubtful": doubtful.collect::<Vec<_>>(), "notes": report.notes,
    })
}

fn finding_object(finding: &Finding) -> Value {
    json!({
        "file": finding.file.display().to_string(), "offset": finding.offset,
        "keyspace": finding.keyspace, "keys": finding.keys.as_ref().map(keys_object),
        "entries_at_most": finding.entries_at_most, "what": finding.what, "meaning": finding.meaning,
    })
}

fn keys_object(keys: &KeySpan) -> Value {
    let hex = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    json!({ "start_hex": hex(&keys.start), "end_hex": keys.end.as_deref().map(hex) })
}

fn shown(paths: &[std::path::PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// The first line of both forms of `verify`.
fn what_was_read(tables: u64, blocks: u64, entries: u64, range_deletes: u64, bytes: u64) -> String {
    format!(
        "{}, {}, {} entries, {}, {} read",
        human_counted(tables, "table"),
        human_counted(blocks, "block"),
        human_count(entries),
        human_counted(range_deletes, "range delete"),
        human_bytes(bytes)
    )
}
