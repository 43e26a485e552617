//! `dump`: writes a keyspace, as it is at one moment, into a file that `load` reads.

use super::Context;
use crate::args::{DumpArgs, FileFormat};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use std::io::Write;
use std::path::Path;

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
    let cursor = context.existing_keyspace()?.cursor()?;
    let mut file = if to_stdout { None } else { Some(Output::create(&context.caller.path(&args.file))?) };
    let out: &mut dyn Write = match &mut file {
        Some(file) => file,
        None => context.out,
    };
    if let Some(header) = header {
        writeln!(out, "{header}")?;
    }
    let mut writer = format.writer(&context.shape);
    range.walk(cursor, false, |key, value| {
        writer.write(out, key, value)?;
        Ok(true)
    })?;
    out.flush()?;
    file.map_or(Ok(()), Output::complete)?;
    Ok(Exit::Done)
}
