//! `explain`: prints explanations as a tree or as JSON.

use super::Context;
use crate::args::{ExplainArgs, ExplainCommand, ExplainScanArgs};
use crate::failure::{Exit, Failure};
use esker::explain::{Explanation, ScanOptions};
use std::ops::Bound;

pub(super) fn run(context: &mut Context<'_>, args: &ExplainArgs) -> Result<Exit, Failure> {
    let explanation = match &args.what {
        ExplainCommand::Get { wanted } => {
            let key = context.parse_key(wanted)?;
            context.existing_keyspace()?.explain_get(&key)?.1
        }
        ExplainCommand::Scan(scan) => explain_scan(context, scan)?,
        ExplainCommand::Put => context.existing_keyspace()?.explain_put()?,
        ExplainCommand::Space => context.database.explain_space()?,
        ExplainCommand::Memory => context.database.explain_memory(),
        ExplainCommand::Stall => context.database.explain_stall(),
    };
    if context.shape.json {
        writeln!(context.out, "{}", explanation.to_json())?;
    } else {
        write!(context.out, "{explanation}")?;
    }
    Ok(Exit::Done)
}

fn explain_scan(context: &Context<'_>, args: &ExplainScanArgs) -> Result<Explanation, Failure> {
    let range = context.parse_range(&args.range)?;
    let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let options = ScanOptions::default().limit(args.limit.unwrap_or(u64::MAX)).reverse(args.reverse);
    let bounds = (Bound::Included(range.start.as_slice()), end);
    Ok(context.existing_keyspace()?.explain_scan(bounds, options, |_, _| ())?)
}
