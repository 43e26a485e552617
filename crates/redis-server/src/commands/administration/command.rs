//! COMMAND: what the server tells of its commands, from the command table.

use crate::call::Call;
use crate::commands::reply_help;
use crate::failure::Outcome;
use crate::reply_tree::write_reply;
use esker_redis_commands::describe;

pub(super) fn all(call: &mut Call<'_, '_>) -> Outcome {
    write_reply(&mut call.reply, describe::all(call.server.names()))
}

pub(super) fn count(call: &mut Call<'_, '_>) -> Outcome {
    write_reply(&mut call.reply, describe::count(call.server.names()))
}

pub(super) fn docs(call: &mut Call<'_, '_>) -> Outcome {
    write_reply(&mut call.reply, describe::docs(call.server.names(), &call.args[2..]))
}

pub(super) fn getkeys(call: &mut Call<'_, '_>) -> Outcome {
    write_reply(&mut call.reply, describe::getkeys(call.server.names(), &call.args[2..], false))
}

pub(super) fn getkeys_and_flags(call: &mut Call<'_, '_>) -> Outcome {
    write_reply(&mut call.reply, describe::getkeys(call.server.names(), &call.args[2..], true))
}

pub(super) fn info(call: &mut Call<'_, '_>) -> Outcome {
    write_reply(&mut call.reply, describe::info(call.server.names(), &call.args[2..]))
}

pub(super) fn list(call: &mut Call<'_, '_>) -> Outcome {
    write_reply(&mut call.reply, describe::list(call.server.names(), &call.args[2..]))
}

pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "(no subcommand)",
            "    Return details about all Redis commands.",
            "COUNT",
            "    Return the total number of commands in this Redis server.",
            "LIST",
            "    Return a list of all commands in this Redis server.",
            "INFO [<command-name> ...]",
            "    Return details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "GETKEYS <full-command>",
            "    Return the keys from a full Redis command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full Redis command.",
        ],
    );
    Ok(())
}
