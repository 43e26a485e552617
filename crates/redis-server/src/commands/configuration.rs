//! Commands of the configuration.

use super::Family;
use crate::address_changes::moves;
use crate::call::Call;
use crate::config::SettingSource;
use crate::failure::{Failure, Outcome, SYNTAX};

pub(crate) const COMMANDS: Family = &[
    ("config|get", get),
    ("config|set", set),
    ("config|resetstat", reset_statistics),
    ("config|rewrite", rewrite),
    ("config|help", help),
];

fn get(call: &mut Call<'_, '_>) -> Outcome {
    let found = call.server.config.matching(&call.args[2..]);
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(&name);
        call.reply.bulk(&value);
    }
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> Outcome {
    let arguments = &call.args[2..];
    if !arguments.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    let pairs = arguments.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let settings = call.server.config.check(pairs, SettingSource::Command)?;
    call.server.check_possible(&settings)?;
    let moves = moves(&settings);
    if moves && call.is_resident {
        return Err(Failure::MustWait);
    }
    call.server.change_addresses(&settings)?;
    if let Err(text) = call.server.change_settings(&settings) {
        if moves {
            call.server.restore_addresses();
        }
        return Err(text.into());
    }
    call.reply.status(b"OK");
    Ok(())
}

fn reset_statistics(call: &mut Call<'_, '_>) -> Outcome {
    call.server.statistics.reset();
    call.server.rates.reset();
    call.server.observed.commands.reset();
    call.reply.status(b"OK");
    Ok(())
}

/// What was set is kept with the data, not in a file, so that it is there wherever the data go.
fn rewrite(call: &mut Call<'_, '_>) -> Outcome {
    call.server.store_settings()?;
    call.reply.status(b"OK");
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::reply_help(
        call,
        &[
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
            "SET <directive> <value>",
            "    Set the configuration <directive> to <value>.",
            "RESETSTAT",
            "    Reset statistics reported by the INFO command.",
            "REWRITE",
            "    Rewrite the configuration file.",
        ],
    );
    Ok(())
}
