//! EVAL and its kin, SCRIPT, and functions.

mod functions;
mod host;
mod run;
mod stored;

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use crate::scripts::{FUNCTION_IS_BUSY, Killed, SCRIPT_IS_BUSY, with_engine};
use crate::server::Server;
use esker_lua::{Flags, Script};
use esker_redis_commands::Command;
use run::{Program, run};

pub(crate) const COMMANDS: Family = &[
    ("eval", eval),
    ("eval_ro", eval),
    ("evalsha", evalsha),
    ("evalsha_ro", evalsha),
    ("fcall", functions::fcall),
    ("fcall_ro", functions::fcall),
    ("function|delete", functions::delete),
    ("function|dump", functions::dump),
    ("function|flush", functions::flush),
    ("function|help", functions::help),
    ("function|kill", functions::kill),
    ("function|list", functions::list),
    ("function|load", functions::load),
    ("function|restore", functions::restore),
    ("function|stats", functions::stats),
    ("script|debug", debug),
    ("script|exists", exists),
    ("script|flush", flush),
    ("script|help", help),
    ("script|kill", kill),
    ("script|load", load),
];

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
const NOTHING_RUNS: &str = "NOTBUSY No scripts in execution right now.";

/// The number of keys behind a script or the name of a function.
fn key_count(call: &Call<'_, '_>, not_an_integer: &'static str) -> Outcome<usize> {
    let number = esker_resp::integer::parse_integer(call.args[2]).ok_or(not_an_integer)?;
    if number > (call.args.len() - 3) as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    usize::try_from(number).map_err(|_| "ERR Number of keys can't be negative".into())
}

/// The flags that the script or function of a call declares. `None`: it declares none, or is not known.
pub(crate) fn flags_of_script(server: &Server, command: &Command, arguments: &[&[u8]]) -> Option<Flags> {
    match command.name() {
        "eval" | "eval_ro" => Script::new(arguments[1]).ok()?.flags(),
        "evalsha" | "evalsha_ro" => server.scripting.script(arguments[1])?.flags(),
        "fcall" | "fcall_ro" => {
            let libraries = stored::libraries_of(server).ok()?;
            let (_, function) = libraries.function(arguments[1])?;
            Some(function.flags)
        }
        _ => None,
    }
}

fn eval(call: &mut Call<'_, '_>) -> Outcome {
    let count = key_count(call, crate::failure::NOT_AN_INTEGER)?;
    let sha = esker_lua::sha1_hex(call.args[1]);
    let script = match call.server.scripting.script(&sha) {
        Some(script) => script,
        None => add(call, call.args[1])?,
    };
    run(call, &Program::Script(&script), count)
}

fn evalsha(call: &mut Call<'_, '_>) -> Outcome {
    if call.args[1].len() != 40 {
        return Err(NO_SCRIPT.into());
    }
    let count = key_count(call, crate::failure::NOT_AN_INTEGER)?;
    let script = call.server.scripting.script(call.args[1]).ok_or(NO_SCRIPT)?;
    run(call, &Program::Script(&script), count)
}

/// Compiles a script and keeps it for EVALSHA.
fn add(call: &Call<'_, '_>, body: &[u8]) -> Outcome<Script> {
    let script = Script::new(body)?;
    with_engine(|engine| engine.check(&script)).unwrap_or(Ok(()))?;
    call.server.scripting.insert(script.clone());
    Ok(script)
}

fn load(call: &mut Call<'_, '_>) -> Outcome {
    let script = add(call, call.args[2])?;
    call.reply.bulk(script.sha());
    Ok(())
}

fn exists(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.array(call.args.len() - 2);
    for sha in &call.args[2..] {
        call.reply.integer(call.server.scripting.contains(sha).into());
    }
    Ok(())
}

fn flush(call: &mut Call<'_, '_>) -> Outcome {
    let is_known = call.args.len() == 3 && (call.is_word(2, "sync") || call.is_word(2, "async"));
    if call.args.len() != 2 && !is_known {
        return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
    }
    call.server.scripting.flush();
    call.reply.status(b"OK");
    Ok(())
}

fn kill(call: &mut Call<'_, '_>) -> Outcome {
    reply_killed(call, true)
}

/// Stops scripts, or functions.
fn reply_killed(call: &mut Call<'_, '_>, scripts: bool) -> Outcome {
    match call.server.scripting.kill(scripts) {
        Killed::Some => {
            call.reply.status(b"OK");
            Ok(())
        }
        Killed::None => Err(NOTHING_RUNS.into()),
        Killed::OtherKind => Err(if scripts { FUNCTION_IS_BUSY } else { SCRIPT_IS_BUSY }.into()),
    }
}

/// There is no debugger: NO, the default, is all that can be chosen.
fn debug(call: &mut Call<'_, '_>) -> Outcome {
    if call.is_word(2, "no") {
        call.reply.status(b"OK");
        return Ok(());
    }
    match call.is_word(2, "yes") || call.is_word(2, "sync") {
        true => Err("ERR this server has no debugger of scripts".into()),
        false => Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into()),
    }
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::reply_help(
        call,
        &[
            "DEBUG (YES|SYNC|NO)",
            "    Set the debug mode for subsequent scripts executed.",
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the scripts cache.",
            "    * SYNC: Synchronously flush the scripts cache.",
            "KILL",
            "    Kill the currently executing Lua script.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
        ],
    );
    Ok(())
}
