//! Commands for several servers, modules and rewrites: this server is alone, and says so.
//!
//! What asks for what is so already is done (REPLICAOF NO ONE); all else is an error with the words of Redis
//! where it has an error for the same reason.

use super::{Family, reply_help};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_resp::integer::parse_integer;

pub(crate) const COMMANDS: Family = &[
    ("asking", no_cluster),
    ("bgrewriteaof", rewrite_log),
    ("cluster|addslots", no_cluster),
    ("cluster|addslotsrange", no_cluster),
    ("cluster|bumpepoch", no_cluster),
    ("cluster|count-failure-reports", no_cluster),
    ("cluster|countkeysinslot", no_cluster),
    ("cluster|delslots", no_cluster),
    ("cluster|delslotsrange", no_cluster),
    ("cluster|failover", no_cluster),
    ("cluster|flushslots", no_cluster),
    ("cluster|forget", no_cluster),
    ("cluster|getkeysinslot", no_cluster),
    ("cluster|help", no_cluster),
    ("cluster|info", no_cluster),
    ("cluster|keyslot", no_cluster),
    ("cluster|links", no_cluster),
    ("cluster|meet", no_cluster),
    ("cluster|myid", no_cluster),
    ("cluster|nodes", no_cluster),
    ("cluster|replicas", no_cluster),
    ("cluster|replicate", no_cluster),
    ("cluster|reset", no_cluster),
    ("cluster|saveconfig", no_cluster),
    ("cluster|set-config-epoch", no_cluster),
    ("cluster|setslot", no_cluster),
    ("cluster|shards", no_cluster),
    ("cluster|slaves", no_cluster),
    ("cluster|slots", no_cluster),
    ("failover", fail_over),
    ("migrate", migrate),
    ("module|help", module_help),
    ("module|list", module_list),
    ("module|load", no_modules),
    ("module|loadex", no_modules),
    ("module|unload", unload_module),
    ("psync", no_replication),
    ("readonly", no_cluster),
    ("readwrite", no_cluster),
    ("replconf", configure_replication),
    ("replicaof", replicate),
    ("slaveof", replicate),
    ("sync", no_replication),
];

const NO_REPLICATION: &str = "ERR this server does not replicate";

fn no_cluster(_call: &mut Call<'_, '_>) -> Outcome {
    Err("ERR This instance has cluster support disabled".into())
}

fn no_replication(_call: &mut Call<'_, '_>) -> Outcome {
    Err(NO_REPLICATION.into())
}

/// NO ONE is what the server is: a master.
fn replicate(call: &mut Call<'_, '_>) -> Outcome {
    if call.is_word(1, "no") && call.is_word(2, "one") {
        call.reply.status(b"OK");
        return Ok(());
    }
    match parse_integer(call.args[2]) {
        Some(port) if (0..=65_535).contains(&port) => Err(NO_REPLICATION.into()),
        _ => Err("ERR Invalid master port".into()),
    }
}

/// Without options nothing is configured.
fn configure_replication(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
        1 => {
            call.reply.status(b"OK");
            Ok(())
        }
        count if count.is_multiple_of(2) => Err(SYNTAX.into()),
        _ => Err(NO_REPLICATION.into()),
    }
}

fn fail_over(call: &mut Call<'_, '_>) -> Outcome {
    let (mut aborts, mut at) = (false, 1);
    while at < call.args.len() {
        let left = call.args.len() - at - 1;
        if call.is_word(at, "abort") && call.args.len() == 2 {
            aborts = true;
        } else if call.is_word(at, "to") && left >= 2 {
            call.integer(at + 2)?;
            at += 2;
            if call.is_word(at + 1, "force") {
                at += 1;
            }
        } else if call.is_word(at, "timeout") && left >= 1 {
            if call.integer(at + 1)? <= 0 {
                return Err("ERR FAILOVER timeout must be greater than 0".into());
            }
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Err(if aborts { "ERR No failover in progress." } else { "ERR FAILOVER requires connected replicas." }
        .into())
}

/// Absent keys need no other server.
fn migrate(call: &mut Call<'_, '_>) -> Outcome {
    call.integer(4)?;
    call.integer(5)?;
    let first = call.args.iter().position(|argument| argument.eq_ignore_ascii_case(b"keys"));
    let keys = match first {
        Some(position) if position > 5 && call.args[3].is_empty() => position + 1..call.args.len(),
        _ => 3..4,
    };
    for position in keys {
        if call.read_entry(position)?.record().is_some() {
            return Err(
                "ERR this server does not send keys to others: DUMP them here and RESTORE them there".into(),
            );
        }
    }
    call.reply.status(b"NOKEY");
    Ok(())
}

/// The log of the engine is cut off by itself as its data are written to tables.
fn rewrite_log(_call: &mut Call<'_, '_>) -> Outcome {
    Err("ERR there is no append-only file to rewrite: compaction gives space back by itself".into())
}

fn no_modules(_call: &mut Call<'_, '_>) -> Outcome {
    Err("ERR this server loads no modules".into())
}

fn unload_module(_call: &mut Call<'_, '_>) -> Outcome {
    Err("ERR Error unloading module: no such module with that name".into())
}

fn module_list(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.array(0);
    Ok(())
}

fn module_help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "LIST",
            "    Return a list of loaded modules.",
            "LOAD <path> [<arg> ...]",
            "    Load a module library from <path>, passing to it any optional arguments.",
            "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
            "    Load a module library from <path>, while passing it module configurations and optional arguments.",
            "UNLOAD <name>",
            "    Unload a module.",
        ],
    );
    Ok(())
}
