//! Commands of users and their rights.

use super::{Family, reply_help, subcommand_syntax};
use crate::call::Call;
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome};
use crate::reply_tree::write_reply;
use esker_redis_commands::Reply;
use esker_redis_commands::acl::{Users, category_list, genpass};
use esker_redis_store::secret_number;
use esker_resp::integer::parse_integer;
use std::path::PathBuf;

pub(crate) const COMMANDS: Family = &[
    ("acl|cat", categories),
    ("acl|deluser", delete_users),
    ("acl|dryrun", dry_run),
    ("acl|genpass", generate_password),
    ("acl|getuser", get_user),
    ("acl|help", help),
    ("acl|list", |call| answer(call, Users::list)),
    ("acl|load", load),
    ("acl|log", log),
    ("acl|save", save),
    ("acl|setuser", set_user),
    ("acl|users", |call| answer(call, Users::names)),
    ("acl|whoami", who_am_i),
];

/// Entries of the log that are shown if no number is given.
const ENTRIES_SHOWN: usize = 10;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.";

fn answer(call: &mut Call<'_, '_>, read: impl FnOnce(&Users) -> Reply) -> Outcome {
    let reply = call.server.access.read(read);
    write_reply(&mut call.reply, reply)
}

/// The error of a text without its code. Line breaks, which would end it early, become spaces.
fn error(text: impl AsRef<[u8]>) -> Failure {
    match Reply::error(text) {
        Reply::Error(text) => text.into(),
        _ => NOT_AN_INTEGER.into(),
    }
}

fn categories(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(subcommand_syntax(call));
    }
    let reply = category_list(call.args.get(2).copied());
    write_reply(&mut call.reply, reply)
}

fn delete_users(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.server.delete_users(call.session, &call.args[2..]).map_err(error)?;
    call.reply.integer(count as i64);
    Ok(())
}

fn dry_run(call: &mut Call<'_, '_>) -> Outcome {
    let (name, arguments) = (call.args[2], &call.args[3..]);
    let names = call.server.names();
    answer(call, |users| users.dry_run(names, name, arguments))
}

fn generate_password(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(subcommand_syntax(call));
    }
    let mut has_randomness = true;
    let reply = genpass(call.args.get(2).copied(), |bytes| {
        for piece in bytes.chunks_mut(8) {
            let number = secret_number();
            has_randomness &= number.is_some();
            piece.copy_from_slice(&number.unwrap_or_default().to_le_bytes()[..piece.len()]);
        }
    });
    if !has_randomness {
        return Err("ERR the system gives no random numbers, so that no password can be made".into());
    }
    write_reply(&mut call.reply, reply)
}

fn get_user(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.args[2];
    answer(call, |users| users.get_user(name))
}

fn set_user(call: &mut Call<'_, '_>) -> Outcome {
    call.server.set_user(call.session, call.args[2], &call.args[3..]).map_err(error)?;
    call.reply.status(b"OK");
    Ok(())
}

fn who_am_i(call: &mut Call<'_, '_>) -> Outcome {
    match call.session.user() {
        Some(name) => call.reply.bulk(name),
        None => call.reply.null(),
    }
    Ok(())
}

fn log(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(subcommand_syntax(call));
    }
    if call.is_word(2, "reset") {
        call.server.access.with_log(|log| log.reset());
        call.reply.status(b"OK");
        return Ok(());
    }
    let count = match call.args.get(2) {
        Some(text) => parse_integer(text).ok_or(NOT_AN_INTEGER)?.max(0) as usize,
        None => ENTRIES_SHOWN,
    };
    let now_ms = call.server.now_ms() as i64;
    let reply = call.server.access.with_log(|log| log.reply(count, now_ms));
    write_reply(&mut call.reply, reply)
}

/// The file of users, on a thread that may wait for a device.
fn user_file(call: &Call<'_, '_>) -> Outcome<PathBuf> {
    let path = call.server.user_file().ok_or(NO_FILE)?;
    if call.is_resident { Err(Failure::MustWait) } else { Ok(path) }
}

fn load(call: &mut Call<'_, '_>) -> Outcome {
    let path = user_file(call)?;
    call.server.reload_user_file(call.session, &path).map_err(error)?;
    call.reply.status(b"OK");
    Ok(())
}

fn save(call: &mut Call<'_, '_>) -> Outcome {
    let path = user_file(call)?;
    if let Err(reason) = call.server.save_users(&path) {
        let text = format!("There was an error trying to save the ACLs into '{}': {reason}", path.display());
        return Err(error(text));
    }
    call.reply.status(b"OK");
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
            "DELUSER <username> [<username> ...]",
            "    Delete a list of users.",
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether the user can execute the given command without executing the command.",
            "GETUSER <username>",
            "    Get the user's details.",
            "GENPASS [<bits>]",
            "    Generate a secure 256-bit user password. The optional `bits` argument can",
            "    be used to specify a different size.",
            "LIST",
            "    Show users details in config file format.",
            "LOAD",
            "    Reload users from the ACL file.",
            "LOG [<count> | RESET]",
            "    Show the ACL log entries.",
            "SAVE",
            "    Save the current config to the ACL file.",
            "SETUSER <username> <attribute> [<attribute> ...]",
            "    Create or modify a user with the specified attributes.",
            "USERS",
            "    List all the registered usernames.",
            "WHOAMI",
            "    Return the current connection username.",
        ],
    );
    Ok(())
}
