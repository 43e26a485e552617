//! Commands of the server: its clock, its version and its role.

mod command;

use super::{Family, Handler};
use crate::call::Call;
use crate::failure::Outcome;

pub(crate) const COMMANDS: Family = &[
    ("command", command::all as Handler),
    ("command|count", command::count),
    ("command|docs", command::docs),
    ("command|getkeys", command::getkeys),
    ("command|getkeysandflags", command::getkeys_and_flags),
    ("command|help", command::help),
    ("command|info", command::info),
    ("command|list", command::list),
    ("lolwut", lolwut),
    ("role", role),
    ("time", time),
];

/// There is no replication: always a master whose stream has not begun, and which has no replicas.
fn role(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

/// Seconds, and microseconds of the second that has begun. They are whole milliseconds: it is the clock that
/// expiries are measured by, which has no finer ones.
fn time(call: &mut Call<'_, '_>) -> Outcome {
    let now_ms = call.server.now_ms();
    call.reply.array(2);
    call.reply.bulk_integer((now_ms / 1000) as i64);
    call.reply.bulk_integer((now_ms % 1000 * 1000) as i64);
    Ok(())
}

/// The version without a picture, which is what Redis answers for versions that have none. The pictures of 5
/// and 6 are measured by integers.
fn lolwut(call: &mut Call<'_, '_>) -> Outcome {
    if call.is_word(1, "version") && call.args.len() > 2 {
        let measures = match call.integer(2)? as u32 {
            5 => 3,
            6 => 2,
            _ => 0,
        };
        for position in (3..call.args.len()).take(measures) {
            call.integer(position)?;
        }
    }
    let text = format!("Redis ver. {}\n", crate::server::REDIS_VERSION);
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}
