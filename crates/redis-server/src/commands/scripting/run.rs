//! Runs of scripts and functions: one transaction, begun anew where its keys or its thread do not suffice.
//!
//! What holds:
//! * SR1. A script or function is one batch: what it changed is there whole, or not at all when it is
//!   stopped.
//! * SR2. A run holds the stripes of every key that it uses. One that meets a key it did not declare is taken
//!   back and runs once more under all stripes.

use super::host::{ScriptHost, ScriptStop};
use crate::call::Call;
use crate::command_kinds::CommandKind;
use crate::failure::{Failure, Outcome, engine_error_text};
use crate::scripts::{Run, with_engine};
use esker::parts::env::Clock;
use esker_lua::{Engine, Flags, Invocation, Library, LibraryFunction, Script};
use esker_redis_commands::keys;
use esker_redis_store::locks::Stripe;
use std::sync::Arc;

/// What is run.
pub(super) enum Program<'p> {
    Script(&'p Script),
    Function(&'p Library, &'p LibraryFunction),
}

impl Program<'_> {
    fn name(&self) -> &[u8] {
        match self {
            Self::Script(script) => script.sha(),
            Self::Function(_, function) => &function.name,
        }
    }

    /// What it promises; `None` for a script without a first line.
    fn flags(&self) -> Option<Flags> {
        match self {
            Self::Script(script) => script.flags(),
            Self::Function(_, function) => Some(function.flags),
        }
    }

    fn run(
        &self,
        engine: &mut Engine,
        invocation: &Invocation<'_>,
        host: &mut ScriptHost<'_, '_>,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Script(script) => engine.run(script, invocation, host, out),
            Self::Function(library, function) => {
                engine.call_function(library, function, invocation, host, out);
            }
        }
    }
}

/// Runs a program with the keys and arguments of the call.
pub(super) fn run(call: &mut Call<'_, '_>, program: &Program<'_>, key_count: usize) -> Outcome {
    let flags = program.flags();
    let has_no_writes = flags.is_some_and(|flags| flags.contains(Flags::NO_WRITES));
    let is_read_only = !CommandKind::of(call.command).changes_keys || has_no_writes;
    if flags.is_some() && !has_no_writes && !CommandKind::of(call.command).changes_keys {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    let declared = if call.holds_all_stripes { None } else { Some(declared_stripes(call)) };
    let before = (call.session.db, call.session.protocol);
    let started_ns = call.server.clock.monotonic_ns();
    let is_script = matches!(program, Program::Script(_));
    let (keys, arguments) = call.args[3..].split_at(key_count);
    let mut host = ScriptHost {
        server: call.server,
        session: &mut *call.session,
        txn: &mut *call.txn,
        observer: &mut *call.observer,
        declared,
        is_read_only,
        is_resident: call.is_resident,
        started_ns,
        run: Arc::new(Run::new(program.name().to_vec(), call.args, is_script, started_ns)),
        is_listed: false,
        stop: None,
        keys: Vec::new(),
    };
    let invocation = Invocation { keys, arguments, protocol: before.1 };
    let mut reply = Vec::new();
    host.observer.is_in_script = true;
    let has_run = with_engine(|engine| program.run(engine, &invocation, &mut host, &mut reply));
    host.observer.is_in_script = false;
    if host.is_listed {
        host.server.scripting.end(&host.run);
    }
    let stop = host.stop.take();
    let run_ns = call.server.clock.monotonic_ns().saturating_sub(started_ns);
    host.observer.turns().count_script(run_ns, runs_again(stop.as_ref(), host.is_resident));
    (call.session.db, call.session.protocol) = before;
    if has_run.is_none() {
        return Err("ERR a script cannot run within another".into());
    }
    match stop {
        None => {
            call.reply.written(&reply);
            Ok(())
        }
        Some(ScriptStop::Undeclared) => Err(Failure::NeedsAllStripes),
        Some(ScriptStop::TooLong) => Err(Failure::MustWait),
        Some(ScriptStop::Engine(error)) if call.is_resident => Err(Failure::Engine(error)),
        Some(ScriptStop::Engine(error)) => Err(Failure::Undo(engine_error_text(&error).into_bytes().into())),
        Some(ScriptStop::Killed) => {
            let text = reply.strip_prefix(b"-").and_then(|text| text.strip_suffix(b"\r\n"));
            Err(Failure::Undo(
                text.unwrap_or(b"ERR Script killed by user with SCRIPT KILL...").to_vec().into(),
            ))
        }
    }
}

/// Whether a run that stopped so is taken back and begun anew. An error of the engine on a thread that may
/// not wait is one of data that is not in memory, but for damage and full devices.
fn runs_again(stop: Option<&ScriptStop>, is_resident: bool) -> bool {
    match stop {
        Some(ScriptStop::Undeclared | ScriptStop::TooLong) => true,
        Some(ScriptStop::Engine(_)) => is_resident,
        Some(ScriptStop::Killed) | None => false,
    }
}

/// The stripes of the keys that the call declares, ascending.
fn declared_stripes(call: &Call<'_, '_>) -> Vec<Stripe> {
    let mut found = Vec::new();
    keys(call.command, call.args, &mut found);
    let stripes = &call.server.store.stripes;
    let mut declared: Vec<Stripe> =
        found.iter().map(|key| stripes.of(call.session.db, call.args[key.position])).collect();
    declared.sort_unstable();
    declared
}
