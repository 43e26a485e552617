//! `compact`.

use super::Context;
use crate::args::CompactArgs;
use crate::failure::{Exit, Failure};
use std::ops::Bound;

pub(super) fn compact(context: &mut Context<'_>, args: &CompactArgs) -> Result<Exit, Failure> {
    if args.all {
        context.database.compact_all()?;
        return Ok(Exit::Done);
    }
    let range = context.parse_range(&args.range)?;
    let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
    context.existing_keyspace()?.compact((Bound::Included(range.start), end))?;
    Ok(Exit::Done)
}
