//! `quarantine`: damaged files, the keys that need them, and their replacement.

use super::{Context, write_json};
use crate::args::QuarantineArgs;
use crate::failure::{Exit, Failure};
use esker::backup::ReplaceReport;
use esker::metrics::QuarantinedFile;
use esker::{Options, RecoveryMode};
use serde_json::{Value, json};

/// Options with which a database opens although files are damaged.
pub(super) fn options(options: Options) -> Options {
    options.recovery_mode(RecoveryMode::Quarantine)
}

pub(super) fn run(context: &mut Context<'_>, args: &QuarantineArgs) -> Result<Exit, Failure> {
    let report = match &args.replace_from {
        Some(from) => context.database.replace_quarantined(context.caller.path(from))?,
        None => ReplaceReport::default(),
    };
    let left = context.database.quarantined();
    if context.shape.json {
        let replaced: Vec<u64> = report.replaced.iter().map(|file| file.get()).collect();
        let missing: Vec<Value> =
            report.missing.iter().map(|(file, why)| json!({ "file": file.get(), "error": why })).collect();
        let left: Vec<Value> = left.iter().map(in_json).collect();
        let members =
            [("quarantined", left.into()), ("replaced", replaced.into()), ("missing", missing.into())];
        write_json(context.out, members.map(|(name, value): (&str, Value)| (name.to_owned(), value)))?;
    } else {
        print(context, &report, &left)?;
    }
    Ok(if left.is_empty() { Exit::Done } else { Exit::Damage })
}

fn in_json(file: &QuarantinedFile) -> Value {
    json!({
        "keyspace": file.keyspace,
        "number": file.number.get(),
        "file": file.path.display().to_string(),
        "keys": file.keys,
        "cause": file.cause,
        "reads": file.reads.name(),
    })
}

fn print(context: &mut Context<'_>, report: &ReplaceReport, left: &[QuarantinedFile]) -> Result<(), Failure> {
    for file in &report.replaced {
        writeln!(context.out, "replaced: file {file}")?;
    }
    for (file, why) in &report.missing {
        writeln!(context.out, "not replaced: file {file}: {why}")?;
    }
    for file in left {
        writeln!(
            context.out,
            "quarantined: {} of keyspace {}, keys {}: {}; reads of these keys: {}",
            file.path.display(),
            file.keyspace,
            file.keys,
            file.cause,
            file.reads.name()
        )?;
    }
    if left.is_empty() {
        writeln!(context.out, "nothing is quarantined")?;
    }
    Ok(())
}
