//! `export` and `import`.

use super::{Context, open, write_json};
use crate::args::{ExportArgs, Global, ImportArgs, Shape};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_counted};
use crate::interrupt::Interrupt;
use crate::output::Output;
use esker::backup::check_export;
use esker::error::MergeFailure;
use esker::{Database, Keyspace};
use indicatif::ProgressBar;
use std::cell::Cell;
use std::io::Write;
use std::path::Path;

/// Keys that an export has left out.
#[derive(Default)]
struct Skipped {
    count: u64,
    first: Vec<MergeFailure>,
}

impl Skipped {
    /// So many are named.
    const NAMED: usize = 10;

    fn add(&mut self, failure: &MergeFailure) {
        self.count += 1;
        if self.first.len() < Self::NAMED {
            self.first.push(failure.clone());
        }
    }

    fn report(&self, caller: &Caller) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        let mut out = caller.errors();
        let keys = human_counted(self.count, "key");
        writeln!(out, "left out: {keys} whose operands cannot be merged; the first:")?;
        self.first.iter().try_for_each(|failure| writeln!(out, "  {failure}"))?;
        Ok(())
    }
}

pub(super) fn export(context: &mut Context<'_>, args: &ExportArgs) -> Result<Exit, Failure> {
    let keyspaces: Vec<Keyspace> = match &context.only {
        Some(_) => vec![context.existing_keyspace()?],
        None => {
            let names = context.database.keyspaces();
            names.iter().map(|name| context.database.open_keyspace(name)).collect::<Result<_, _>>()?
        }
    };
    let to_stdout = args.file == Path::new("-");
    let bar = match to_stdout && context.caller.output_may_be_seen() {
        true => ProgressBar::hidden(),
        false => context.caller.progress_bar(None),
    };
    let interrupt = Interrupt::of(&context.caller)?;
    let told = |report: esker::backup::ExportReport| {
        bar.set_position(report.written_bytes);
        interrupt.leave_if_set();
    };
    let mut skipped = Skipped::default();
    let mut export = |out: &mut dyn Write| {
        let exported = interrupt.during(|| match args.skip_failed_merges {
            true => context.database.export_skipping(&keyspaces, out, told, |failure| skipped.add(failure)),
            false => context.database.export(&keyspaces, out, told),
        });
        bar.finish_and_clear();
        let left = || Failure::interrupted(format!("{} is no whole export", args.file.display()));
        exported.ok_or_else(left)?.map_err(Failure::from)
    };
    if to_stdout {
        // Standard output carries the export, so no report is printed there.
        export(context.out)?;
        skipped.report(&context.caller)?;
        return Ok(Exit::Done);
    }
    let mut file = Output::create(&context.caller.path(&args.file))?;
    let report = export(&mut file)?;
    file.complete()?;
    skipped.report(&context.caller)?;
    if context.shape.json {
        let counts = [
            ("seqno", report.seqno.get()),
            ("keyspaces", report.keyspaces),
            ("entries", report.entries),
            ("data_bytes", report.data_bytes),
            ("written_bytes", report.written_bytes),
            ("skipped", report.skipped),
        ];
        write_json(context.out, counts.map(|(name, count)| (name.to_owned(), count.into())))?;
    } else {
        writeln!(
            context.out,
            "{} of {}, {}, in {}",
            human_counted(report.entries, "pair"),
            human_counted(report.keyspaces, "keyspace"),
            human_bytes(report.data_bytes),
            human_bytes(report.written_bytes)
        )?;
    }
    Ok(Exit::Done)
}

pub(crate) fn import(global: &Global, args: &ImportArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let is_json = global.shape.or(&Shape::default()).json;
    import_into(|| open(global, |options| options), Database::close, &Caller::default(), args, is_json, out)
}

/// Imports into a database that is open.
pub(crate) fn import_open(
    database: &Database,
    caller: &Caller,
    args: &ImportArgs,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    import_into(|| Ok(database.clone()), |_| Ok(()), caller, args, is_json, out)
}

fn import_into(
    open: impl FnOnce() -> Result<Database, Failure>,
    close: impl FnOnce(&Database) -> esker::Result<()>,
    caller: &Caller,
    args: &ImportArgs,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    // Before the database is opened and perhaps created: a missing file must not leave a new database behind.
    let mut input = caller.open_input(&args.file)?;
    let (bar, interrupt) = (caller.progress_bar(input.len), Interrupt::of(caller)?);
    let so_far = Cell::new(0);
    let told = |report: esker::backup::ImportReport| {
        bar.set_position(report.read_bytes);
        so_far.set(report.entries);
        interrupt.leave_if_set();
    };
    let outcome = if args.check {
        interrupt.during(|| check_export(&mut input.reader, told))
    } else {
        let database = open()?;
        let outcome = interrupt.during(|| database.import(&mut input.reader, told));
        let closed = close(&database);
        outcome.map(|outcome| outcome.and_then(|report| closed.map(|()| report)))
    };
    bar.finish_and_clear();
    let left = || {
        let pairs = human_counted(so_far.get(), "pair");
        Failure::interrupted(match args.check {
            true => format!("{pairs} were checked"),
            false => format!("{pairs} were imported, and stay"),
        })
    };
    let report =
        outcome.ok_or_else(left)?.map_err(|error| Failure::from(error).about(args.file.display()))?;
    if is_json {
        let counts = [
            ("keyspaces", report.keyspaces),
            ("entries", report.entries),
            ("data_bytes", report.data_bytes),
            ("read_bytes", report.read_bytes),
        ];
        write_json(out, counts.map(|(name, count)| (name.to_owned(), count.into())))?;
    } else {
        let done = if args.check { "checked" } else { "imported" };
        writeln!(
            out,
            "{} of {} {done}, {}",
            human_counted(report.entries, "pair"),
            human_counted(report.keyspaces, "keyspace"),
            human_bytes(report.data_bytes)
        )?;
    }
    Ok(Exit::Done)
}
