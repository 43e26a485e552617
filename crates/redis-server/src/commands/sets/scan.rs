//! SSCAN.

use crate::call::Call;
use crate::commands::scan_options::{ScanOptions, cursor};
use crate::failure::Outcome;
use esker_redis_data::Strings;
use esker_redis_store::Kind;
use esker_redis_store::types::set;

pub(super) fn sscan(call: &mut Call<'_, '_>) -> Outcome {
    let cursor = cursor(call.args[2])?;
    let entry = call.entry_of(1, Kind::Set)?;
    let (mut next, mut found) = (0, Strings::new());
    // Redis does not read the options for a key that is not there.
    if entry.record().is_some() {
        let options = ScanOptions::read(call, 3, false)?;
        next = set::read(&entry)?.scan(call.txn, cursor, options.count, |member, _| {
            if options.takes(member) {
                found.push(member);
            }
        })?;
    }
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.len());
    found.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}
