//! FUNCTION and FCALL.

use super::host::LoadHost;
use super::run::{Program, run};
use super::{SCRIPT_IS_BUSY, key_count, reply_killed, stored};
use crate::call::Call;
use crate::commands::{reply_help, subcommand_syntax};
use crate::failure::{Outcome, shown};
use crate::scripts::flush_engines;
use esker::parts::env::Clock;
use esker_lua::{Library, RestorePolicy};
use esker_redis_data::{MAX_DECOMPRESSED_BYTES, dump_functions, restore_functions};
use esker_resp::glob::{Case, matches};
use esker_resp::writer::Aggregate;

pub(super) fn fcall(call: &mut Call<'_, '_>) -> Outcome {
    let libraries = stored::libraries(call)?;
    let (library, function) = libraries.function(call.args[1]).ok_or("ERR Function not found")?;
    let count = key_count(call, "ERR Bad number of keys provided")?;
    run(call, &Program::Function(library, function), count)
}

pub(super) fn load(call: &mut Call<'_, '_>) -> Outcome {
    let code_at = call.args.len() - 1;
    for at in 2..code_at {
        if !call.is_word(at, "replace") {
            return Err([b"ERR Unknown option given: ", shown(call.args[at])].concat().into());
        }
    }
    let replaces = code_at > 2;
    let code = call.args[code_at];
    let library = stored::change(call, |libraries| {
        let mut host = LoadHost::new(call.server);
        stored::engine(|engine| libraries.load(engine, code, replaces, &mut host))
    })?;
    call.reply.bulk(library.name());
    Ok(())
}

pub(super) fn delete(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.args[2];
    stored::change(call, |libraries| match libraries.remove(name) {
        true => Ok(()),
        false => Err("ERR Library not found".into()),
    })?;
    call.reply.status(b"OK");
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(subcommand_syntax(call));
    }
    if call.args.len() == 3 && !call.is_word(2, "sync") && !call.is_word(2, "async") {
        return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
    }
    stored::change(call, |libraries| {
        libraries.clear();
        Ok(())
    })?;
    flush_engines();
    call.reply.status(b"OK");
    Ok(())
}

pub(super) fn dump(call: &mut Call<'_, '_>) -> Outcome {
    let libraries = stored::libraries(call)?;
    call.reply.bulk(&dump_functions(libraries.iter().map(Library::code)));
    Ok(())
}

pub(super) fn restore(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 4 {
        return Err(subcommand_syntax(call));
    }
    let policy = match call.args.len() {
        3 => RestorePolicy::Append,
        _ if call.is_word(3, "append") => RestorePolicy::Append,
        _ if call.is_word(3, "replace") => RestorePolicy::Replace,
        _ if call.is_word(3, "flush") => RestorePolicy::Flush,
        _ => {
            let text = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
            return Err(text.into());
        }
    };
    let codes = restore_functions(call.args[2], MAX_DECOMPRESSED_BYTES)
        .map_err(|error| format!("ERR {}", error.redis_text()))?;
    stored::change(call, |libraries| {
        let mut restored = Vec::with_capacity(codes.len());
        for code in &codes {
            let mut host = LoadHost::new(call.server);
            restored.push(stored::engine(|engine| engine.load_library(code, &mut host))?);
        }
        Ok(libraries.restore(restored, policy)?)
    })?;
    call.reply.status(b"OK");
    Ok(())
}

pub(super) fn list(call: &mut Call<'_, '_>) -> Outcome {
    let (mut pattern, mut has_code, mut at) = (None, false, 2);
    while at < call.args.len() {
        if !has_code && call.is_word(at, "withcode") {
            has_code = true;
        } else if pattern.is_none() && call.is_word(at, "libraryname") {
            at += 1;
            pattern = Some(*call.args.get(at).ok_or("ERR library name argument was not given")?);
        } else {
            return Err([b"ERR Unknown argument ", shown(call.args[at])].concat().into());
        }
        at += 1;
    }
    let libraries = stored::libraries(call)?;
    let place = call.reply.reserve(Aggregate::Array, libraries.len());
    let mut count = 0;
    for library in libraries.iter() {
        if pattern.is_none_or(|pattern| matches(pattern, library.name(), Case::Insensitive)) {
            list_library(call, library, has_code);
            count += 1;
        }
    }
    call.reply.fill(place, count);
    Ok(())
}

fn list_library(call: &mut Call<'_, '_>, library: &Library, has_code: bool) {
    let reply = &mut call.reply;
    reply.map(if has_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions().len());
    for function in library.functions() {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| reply.status(name.as_bytes()));
    }
    if has_code {
        reply.bulk(b"library_code");
        reply.bulk(library.code());
    }
}

pub(super) fn stats(call: &mut Call<'_, '_>) -> Outcome {
    let running = call.server.scripting.running();
    if running.as_ref().is_some_and(|run| run.is_script) {
        return Err(SCRIPT_IS_BUSY.into());
    }
    let libraries = stored::libraries(call)?;
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(run) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&run.name);
            reply.bulk(b"command");
            reply.array(run.command.len());
            run.command.iter().for_each(|argument| reply.bulk(argument));
            reply.bulk(b"duration_ms");
            let run_ns = call.server.clock.monotonic_ns().saturating_sub(run.started_ns);
            reply.integer((run_ns / 1_000_000) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(libraries.len() as i64);
    reply.bulk(b"functions_count");
    reply.integer(libraries.function_count() as i64);
    Ok(())
}

pub(super) fn kill(call: &mut Call<'_, '_>) -> Outcome {
    reply_killed(call, false)
}

pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "LOAD [REPLACE] <FUNCTION CODE>",
            "    Create a new library with the given library name and code.",
            "DELETE <LIBRARY NAME>",
            "    Delete the given library.",
            "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
            "    Return general information on all the libraries:",
            "    * Library name",
            "    * The engine used to run the Library",
            "    * Library description",
            "    * Functions list",
            "    * Library code (if WITHCODE is given)",
            "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
            "STATS",
            "    Return information about the current function running:",
            "    * Function name",
            "    * Command used to run the function",
            "    * Duration in MS that the function is running",
            "    If no function is running, return nil",
            "    In addition, returns a list of available engines.",
            "KILL",
            "    Kill the current running function.",
            "FLUSH [ASYNC|SYNC]",
            "    Delete all the libraries.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the libraries.",
            "    * SYNC: Synchronously flush the libraries.",
            "DUMP",
            "    Return a serialized payload representing the current libraries, can be restored using \
             FUNCTION RESTORE command",
            "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
            "    Restore the libraries represented by the given payload, it is possible to give a restore \
             policy to",
            "    control how to handle existing libraries (default APPEND):",
            "    * FLUSH: delete all existing libraries.",
            "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
            "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace \
             the old",
            "      libraries with the new libraries (notice that even on this option there is a chance of \
             failure",
            "      in case of functions name collision with another library).",
        ],
    );
    Ok(())
}
