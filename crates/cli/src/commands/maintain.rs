//! `compact`.

use super::Context;
use crate::args::CompactArgs;
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::format::human_bytes;
use crate::interrupt::Interrupt;
use esker::Database;
use esker::metrics::Metrics;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time between two updates of the progress bar, and until an interruption is noticed.
const STEP: Duration = Duration::from_millis(200);

pub(super) fn compact(context: &mut Context<'_>, args: &CompactArgs) -> Result<Exit, Failure> {
    let database = context.database.clone();
    if args.all {
        return run(context.database, &context.caller, None, true, move || database.compact_all());
    }
    let range = context.parse_range(&args.range)?;
    let is_whole = range.start.is_empty() && range.end.is_none();
    let keyspace = context.existing_keyspace()?;
    let name = context.shape.keyspace.clone();
    run(context.database, &context.caller, Some(&name), is_whole, move || keyspace.compact(range.bounds()))
}

/// Compacts on another thread, with a bar, until it is done or the user interrupts it. The size of the whole
/// is known if all keys are compacted.
fn run(
    database: &Database,
    caller: &Caller,
    keyspace: Option<&str>,
    is_whole: bool,
    work: impl FnOnce() -> esker::Result<()> + Send + 'static,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::of(caller)?;
    let before = Merged::of(&database.metrics(), keyspace);
    let bar = caller.progress_bar(is_whole.then_some(before.table_bytes));
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().name("esker-compact".to_owned());
    // It ends with the compaction, or with the database. Nothing receives its result after an interruption.
    let started = thread.spawn(move || done.send(work()).unwrap_or_default());
    started.map_err(|error| Failure::system("cannot start a thread", &error))?;
    loop {
        match result.recv_timeout(STEP) {
            Ok(result) => {
                bar.finish_and_clear();
                result?;
                return Ok(Exit::Done);
            }
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::defect("the compaction panicked")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let merged = Merged::of(&database.metrics(), keyspace).bytes.saturating_sub(before.bytes);
        bar.set_position(if is_whole { merged.min(before.table_bytes) } else { merged });
        if interrupt.is_set() {
            bar.finish_and_clear();
            return Err(Failure::interrupted(format!(
                "{} were merged, and stay so; the rest goes on while the database is open",
                human_bytes(merged)
            )));
        }
    }
}

/// What compactions have read, and what there is to read.
struct Merged {
    bytes: u64,
    table_bytes: u64,
}

impl Merged {
    fn of(metrics: &Metrics, keyspace: Option<&str>) -> Merged {
        let is_meant = |name: &str| keyspace.is_none_or(|keyspace| keyspace == name);
        let keyspaces = || metrics.keyspaces.iter().filter(|found| is_meant(&found.name));
        let jobs = metrics.jobs.iter().filter(|job| is_meant(&job.keyspace));
        Merged {
            bytes: keyspaces().map(|found| found.compacted_in_bytes).sum::<u64>()
                + jobs.map(|job| job.read_bytes).sum::<u64>(),
            table_bytes: keyspaces().map(|found| found.table_bytes).sum(),
        }
    }
}
