//! `dump`: writes a keyspace, as it is at one moment, into a file that `load` reads.

use super::Context;
use crate::args::{DumpArgs, FileFormat};
use crate::failure::{Exit, Failure};
use crate::format::human_count;
use crate::interrupt::Interrupt;
use crate::output::Output;
use indicatif::ProgressBar;
use std::io::Write;
use std::path::Path;

/// Pairs between two updates of the progress bar.
const PAIRS_PER_TOLD: u64 = 4096;

pub(super) fn run(context: &mut Context<'_>, args: &DumpArgs) -> Result<Exit, Failure> {
    let to_stdout = args.file == Path::new("-");
    let by_name = if to_stdout { Some(FileFormat::Jsonl) } else { FileFormat::of(&args.file) };
    let format = args.format.or(by_name).ok_or_else(|| {
        Failure::usage(format!("cannot tell a format by the name {}", args.file.display()))
            .advise("name it with --format csv, tsv, jsonl or pairs")
    })?;
    let header = match (args.header, format.header()) {
        (true, None) => return Err(Failure::usage("--header is for CSV and TSV files")),
        (true, header) => header,
        (false, _) => None,
    };
    let range = context.parse_range(&args.range)?;
    // Before the output is created: a missing keyspace must not overwrite an older dump.
    let keyspace = context.existing_keyspace()?;
    let cursor = keyspace.cursor()?;
    let bar = match to_stdout && context.caller.output_may_be_seen() {
        true => ProgressBar::hidden(),
        false => context.caller.pairs_bar(keyspace.approximate_size(range.bounds())?.entries),
    };
    let interrupt = Interrupt::of(&context.caller)?;
    let mut file = if to_stdout { None } else { Some(Output::create(&context.caller.path(&args.file))?) };
    let out: &mut dyn Write = match &mut file {
        Some(file) => file,
        None => context.out,
    };
    if let Some(header) = header {
        writeln!(out, "{header}")?;
    }
    let mut writer = format.writer(&context.shape);
    let mut pairs: u64 = 0;
    let walked = range.walk(cursor, false, |key, value| {
        writer.write(out, key, value)?;
        pairs += 1;
        if pairs.is_multiple_of(PAIRS_PER_TOLD) {
            bar.set_position(pairs);
            return Ok(!interrupt.is_set());
        }
        Ok(true)
    });
    bar.finish_and_clear();
    walked?;
    out.flush()?;
    if interrupt.is_set() {
        return Err(Failure::interrupted(match to_stdout {
            true => format!("{} pairs were written", human_count(pairs)),
            false => format!("{} was not written", args.file.display()),
        }));
    }
    file.map_or(Ok(()), Output::complete)?;
    Ok(Exit::Done)
}
