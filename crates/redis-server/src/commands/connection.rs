//! Commands of the connection itself.

use super::Family;
use crate::call::Call;
use crate::checks::note_denied;
use crate::failure::{Outcome, shown};
use esker_redis_commands::acl::{Context, Reason, WRONG_PASSWORD};
use esker_resp::integer::parse_integer;
use esker_resp::writer::Protocol;

pub(crate) const COMMANDS: Family =
    &[("ping", ping), ("echo", echo), ("quit", quit), ("reset", reset), ("hello", hello), ("auth", auth)];

const NOAUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";

fn ping(call: &mut Call<'_, '_>) -> Outcome {
    let message = call.args.get(1).copied();
    if call.args.len() > 2 {
        return Err("ERR wrong number of arguments for 'ping' command".into());
    }
    if call.session.is_subscribed() && call.session.protocol == Protocol::Resp2 {
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(message.unwrap_or_default());
        return Ok(());
    }
    match message {
        Some(message) => call.reply.bulk(message),
        None => call.reply.status(b"PONG"),
    }
    Ok(())
}

fn echo(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.bulk(call.args[1]);
    Ok(())
}

fn quit(call: &mut Call<'_, '_>) -> Outcome {
    call.session.closes_after_reply = true;
    call.reply.status(b"OK");
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> Outcome {
    call.session.reset(call.server);
    call.reply.status(b"RESET");
    Ok(())
}

fn hello(call: &mut Call<'_, '_>) -> Outcome {
    let mut protocol = call.session.protocol;
    if let Some(version) = call.args.get(1) {
        protocol = match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => return Err("ERR Protocol version is not an integer or out of range".into()),
        };
    }
    let mut position = 2;
    while position < call.args.len() {
        let left = call.args.len() - position - 1;
        if call.is_word(position, "auth") && left >= 2 {
            log_in(call, call.args[position + 1], call.args[position + 2])?;
            position += 3;
        } else if call.is_word(position, "setname") && left >= 1 {
            super::clients::check_name(call.args[position + 1])?;
            call.session.set_name(call.args[position + 1]);
            position += 2;
        } else {
            let option = shown(call.args[position]);
            return Err([b"ERR Syntax error in HELLO option '", option, b"'"].concat().into());
        }
    }
    if call.session.account.is_none() {
        return Err(NOAUTH_HELLO.into());
    }
    call.set_protocol(protocol);
    call.reply.map(7);
    call.reply.bulk(b"server");
    call.reply.bulk(b"redis");
    call.reply.bulk(b"version");
    call.reply.bulk(crate::server::REDIS_VERSION.as_bytes());
    call.reply.bulk(b"proto");
    call.reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    call.reply.bulk(b"id");
    call.reply.integer(call.session.id as i64);
    call.reply.bulk(b"mode");
    call.reply.bulk(b"standalone");
    call.reply.bulk(b"role");
    call.reply.bulk(b"master");
    call.reply.bulk(b"modules");
    call.reply.array(0);
    Ok(())
}

fn auth(call: &mut Call<'_, '_>) -> Outcome {
    let (user, password) = match call.args.len() {
        2 if call
            .server
            .access
            .read(|users| users.user(b"default").is_some_and(|user| user.needs_no_password())) =>
        {
            return Err(NO_PASSWORD.into());
        }
        2 => (&b"default"[..], call.args[1]),
        3 => (call.args[1], call.args[2]),
        _ => return Err(crate::failure::SYNTAX.into()),
    };
    log_in(call, user, password)?;
    call.reply.status(b"OK");
    Ok(())
}

/// Makes the client the user of this name, if the password is right; otherwise that is noted for the log.
fn log_in(call: &mut Call<'_, '_>, name: &[u8], password: &[u8]) -> Outcome {
    let (server, session) = (call.server, &mut *call.session);
    if server.access.authenticate(name, password, |account| session.set_account(server, Some(account))) {
        return Ok(());
    }
    let context =
        if session.queue.is_some() || call.denies_waiting { Context::Multi } else { Context::Toplevel };
    note_denied(server, session, Reason::Auth, context, call.args[0], name.to_vec());
    Err(WRONG_PASSWORD.into())
}
