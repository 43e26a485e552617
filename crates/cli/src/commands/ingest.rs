//! `ingest` and `build-table`.

use super::keyspaces::with_settings;
use super::load::known_format;
use super::{Context, write_json};
use crate::args::{BuildTableArgs, Global, IngestArgs, Shape};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, human_counted};
use crate::interrupt::Interrupt;
use crate::records::ReadError;
use esker::KeyspaceOptions;
use esker::ingest::{IngestMode, IngestOptions, TableWriter};
use std::io::Write;

/// Pairs between two updates of the progress bar.
const PAIRS_PER_TOLD: u64 = 4096;

pub(super) fn run(context: &mut Context<'_>, args: &IngestArgs) -> Result<Exit, Failure> {
    let mode = match (args.moves, args.link) {
        (true, _) => IngestMode::Move,
        (_, true) => IngestMode::Link,
        _ => IngestMode::Copy,
    };
    let keyspace = context.keyspace()?;
    let files: Vec<_> = args.files.iter().map(|file| context.caller.path(file)).collect();
    let interrupt = Interrupt::of(&context.caller)?;
    let bar = context.caller.progress_bar(Some(0));
    let outcome = interrupt.during(|| {
        keyspace.ingest_with(&files, IngestOptions::new().mode(mode), &mut |progress| {
            bar.set_length(progress.total_bytes);
            bar.set_position(progress.done_bytes);
            if !context.caller.is_remote() {
                // Copies that are there already have no name. The next open deletes them, and nothing before.
                interrupt.leave_if_set();
            }
        })
    });
    bar.finish_and_clear();
    let report = outcome.ok_or_else(|| Failure::interrupted("nothing was ingested"))??;
    if context.shape.json {
        let counts = [
            ("entries", report.entries),
            ("tables", report.tables),
            ("linked_tables", report.linked_tables),
            ("bytes", report.bytes),
        ];
        write_json(context.out, counts.map(|(name, count)| (name.to_owned(), count.into())))?;
    } else {
        let (tables, bytes) = (human_counted(report.tables, "table"), human_bytes(report.bytes));
        writeln!(context.out, "{} entries in {tables}, {bytes}", human_count(report.entries))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn build_table(
    global: &Global,
    args: &BuildTableArgs,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (shape, caller) = (global.shape.or(&Shape::default()), Caller::default());
    let format = known_format(&caller, args.format, &args.file, args.header)?;
    let options = with_settings(KeyspaceOptions::default(), &args.set)?;
    let input = caller.open_input(&args.file)?;
    let (bar, interrupt) = (caller.progress_bar(input.len), Interrupt::of(&caller)?);
    let mut reader = format.reader(input.reader, &shape, args.header);
    let mut table = TableWriter::create(&args.table, &options)?;
    let mut pairs = 0;
    let name = args.file.display();
    let written = loop {
        match reader.next() {
            Ok(Some(record)) => table.put(&record.key, &record.value).map_err(|error| {
                Failure::from(error)
                    .about(format_args!("{name}: {} {}", format.unit(), reader.number()))
                    .advise("sort the pairs first; `esker load --bulk` takes them in any order")
            })?,
            Ok(None) => break table.finish()?,
            Err(ReadError::Bad { number, reason }) => {
                return Err(Failure::input(format!("{name}: {} {number}: {reason}", format.unit())));
            }
            Err(ReadError::Io(error)) => {
                return Err(Failure::system(format_args!("cannot read {name} any further"), &error));
            }
        }
        pairs += 1;
        if pairs % PAIRS_PER_TOLD == 0 {
            bar.set_position(reader.position());
            if interrupt.is_set() {
                bar.finish_and_clear();
                return Err(Failure::interrupted(format!("{} was not written", args.table.display())));
            }
        }
    };
    bar.finish_and_clear();
    if shape.json {
        let counts = [("entries", written.entries), ("bytes", written.bytes)];
        write_json(out, counts.map(|(name, count)| (name.to_owned(), count.into())))?;
    } else {
        let (pairs, bytes) = (human_counted(written.entries, "pair"), human_bytes(written.bytes));
        writeln!(out, "{}: {pairs}, {bytes}", args.table.display())?;
    }
    Ok(Exit::Done)
}
