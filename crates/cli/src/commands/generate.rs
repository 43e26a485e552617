//! `generate`: writes a workload of DSL commands to standard output.

use crate::args::GenerateArgs;
use crate::failure::{Exit, Failure};
use crate::host;
use esker_bench::dsl_workload::ExternalFiles;
use std::io::Write;

pub(crate) fn run(args: &GenerateArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let workload = args.workload();
    let mut operations = workload.operations()?;
    match &args.external_puts {
        Some(directory) => {
            let mut files = ExternalFiles::new(directory, args.pairs_per_file)?;
            for operation in operations.by_ref() {
                files.take(operation, out)?;
            }
            files.finish(out)?;
        }
        None => {
            for operation in operations.by_ref() {
                writeln!(out, "{operation}")?;
            }
        }
    }
    out.flush()?;
    let counts = operations.counts();
    writeln!(
        host::stderr(),
        "{} puts, {} gets ({} find their key, {} do not; {} repeat an earlier one), {} ranges, {} deletes; seed {}",
        counts.puts,
        counts.hits + counts.misses,
        counts.hits,
        counts.misses,
        counts.repeated,
        counts.ranges,
        counts.deletes,
        workload.seed
    )?;
    Ok(Exit::Done)
}
