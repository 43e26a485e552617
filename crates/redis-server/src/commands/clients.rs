//! Commands of clients.

use super::Family;
use crate::call::Call;
use crate::client_line::write_line;
use crate::clients::{Client, Shown, shown_address};
use crate::failure::{Outcome, SYNTAX};
use crate::pausing::{Held, PauseChange};
use crate::session::ReplyMode;
use esker_resp::integer::parse_integer;

pub(crate) const COMMANDS: Family = &[
    ("client|id", id),
    ("client|getname", get_name),
    ("client|setname", set_name),
    ("client|info", info),
    ("client|list", list),
    ("client|kill", kill),
    ("client|reply", reply),
    ("client|no-evict", no_evict),
    ("client|pause", pause),
    ("client|unpause", unpause),
    ("client|help", help),
];

fn id(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.integer(call.session.id as i64);
    Ok(())
}

fn get_name(call: &mut Call<'_, '_>) -> Outcome {
    if call.session.name.is_empty() {
        call.reply.null();
    } else {
        call.reply.bulk(&call.session.name);
    }
    Ok(())
}

fn set_name(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.args[2];
    check_name(name)?;
    call.session.set_name(name);
    call.reply.status(b"OK");
    Ok(())
}

/// Whether a name would not break the lines of CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Outcome {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(()),
        false => Err("ERR Client names cannot contain spaces, newlines or special characters.".into()),
    }
}

fn info(call: &mut Call<'_, '_>) -> Outcome {
    let now_ms = call.server.now_ms();
    let mut text = Vec::new();
    if let Some(client) = call.server.clients.get(call.session.id) {
        client.note_last_command(Some(call.command));
        write_line(&client, &call.session.shown(), now_ms, &mut text);
    }
    call.reply.verbatim(*b"txt", &text);
    Ok(())
}

fn list(call: &mut Call<'_, '_>) -> Outcome {
    let mut only_type = None;
    let mut only_ids: Option<Vec<u64>> = None;
    match call.args.len() {
        2 => {}
        4 if call.is_word(2, "type") => only_type = Some(client_type(call.args[3])?),
        4.. if call.is_word(2, "id") => {
            let mut ids = Vec::new();
            for argument in &call.args[3..] {
                // No client has a negative number; asking for one is no error.
                ids.extend(u64::try_from(parse_integer(argument).ok_or("ERR Invalid client ID")?));
            }
            only_ids = Some(ids);
        }
        _ => return Err(SYNTAX.into()),
    }
    let now_ms = call.server.now_ms();
    let mut text = Vec::new();
    if let Some(own) = call.server.clients.get(call.session.id) {
        own.note_last_command(Some(call.command));
    }
    for client in call.server.clients.all() {
        let shown =
            if client.id == call.session.id { call.session.shown() } else { client.shown.lock().clone() };
        let is_meant = only_ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && only_type.is_none_or(|wanted| wanted == type_of(&shown));
        if is_meant {
            write_line(&client, &shown, now_ms, &mut text);
        }
    }
    call.reply.verbatim(*b"txt", &text);
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    PubSub,
    /// Masters and replicas, of which there are none.
    Replication,
}

fn client_type(word: &[u8]) -> Outcome<ClientType> {
    let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
    if is("normal") {
        Ok(ClientType::Normal)
    } else if is("pubsub") {
        Ok(ClientType::PubSub)
    } else if is("master") || is("replica") || is("slave") {
        Ok(ClientType::Replication)
    } else {
        Err([&b"ERR Unknown client type '"[..], word, b"'"].concat().into())
    }
}

fn type_of(shown: &Shown) -> ClientType {
    if shown.subscriptions == [0; 3] { ClientType::Normal } else { ClientType::PubSub }
}

fn kill(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() == 3 {
        let wanted = String::from_utf8_lossy(call.args[2]).into_owned();
        let found =
            call.server.clients.all().into_iter().find(|client| shown_address(client.address) == wanted);
        let client = found.ok_or("ERR No such client")?;
        end(call, &client);
        call.reply.status(b"OK");
        return Ok(());
    }
    let mut filter = KillFilter { skips_me: true, ..KillFilter::default() };
    let options = &call.args[2..];
    if !options.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    for pair in options.chunks_exact(2) {
        filter.add(call, pair[0], pair[1])?;
    }
    let mut count = 0;
    for client in call.server.clients.all() {
        let shown = client.shown.lock().clone();
        if filter.takes(&client, &shown) && !(filter.skips_me && client.id == call.session.id) {
            end(call, &client);
            count += 1;
        }
    }
    call.reply.integer(count);
    Ok(())
}

#[derive(Debug, Default)]
struct KillFilter {
    id: Option<u64>,
    address: Option<Vec<u8>>,
    local_address: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    client_type: Option<ClientType>,
    skips_me: bool,
}

impl KillFilter {
    fn add(&mut self, call: &Call<'_, '_>, option: &[u8], value: &[u8]) -> Outcome {
        let is = |known: &str| option.eq_ignore_ascii_case(known.as_bytes());
        if is("id") {
            let id = parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            self.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
        } else if is("addr") {
            self.address = Some(value.to_vec());
        } else if is("laddr") {
            self.local_address = Some(value.to_vec());
        } else if is("type") {
            self.client_type = Some(client_type(value)?);
        } else if is("user") {
            if call.server.access.read(|users| users.user(value).is_none()) {
                return Err([&b"ERR No such user '"[..], value, b"'"].concat().into());
            }
            self.user = Some(value.to_vec());
        } else if is("skipme") {
            self.skips_me = match value {
                value if value.eq_ignore_ascii_case(b"yes") => true,
                value if value.eq_ignore_ascii_case(b"no") => false,
                _ => return Err(SYNTAX.into()),
            };
        } else {
            return Err(SYNTAX.into());
        }
        Ok(())
    }

    fn takes(&self, client: &Client, shown: &Shown) -> bool {
        let is_at = |wanted: &Option<Vec<u8>>, at| {
            wanted.as_ref().is_none_or(|wanted| *wanted == shown_address(at).as_bytes())
        };
        self.id.is_none_or(|id| id == client.id)
            && is_at(&self.address, client.address)
            && is_at(&self.local_address, client.local_address)
            && self.user.as_deref().is_none_or(|user| shown.user.as_deref() == Some(user))
            && self.client_type.is_none_or(|wanted| wanted == type_of(shown))
    }
}

fn end(call: &mut Call<'_, '_>, client: &Client) {
    if client.id == call.session.id {
        call.session.closes_after_reply = true;
    } else {
        call.server.end_client(client);
    }
}

fn reply(call: &mut Call<'_, '_>) -> Outcome {
    if call.is_word(2, "on") {
        call.session.replies = ReplyMode::On;
        call.reply.status(b"OK");
    } else if call.is_word(2, "off") {
        call.session.replies = ReplyMode::Off;
    } else if call.is_word(2, "skip") {
        // Of several in a row each leaves out the reply of its successor, and all have none.
        if call.session.replies != ReplyMode::Off {
            call.session.replies = ReplyMode::SkipNext;
        }
    } else {
        return Err(SYNTAX.into());
    }
    Ok(())
}

fn pause(call: &mut Call<'_, '_>) -> Outcome {
    let held = match call.args.len() {
        3 => Held::All,
        4 if call.is_word(3, "write") => Held::Writes,
        4 if call.is_word(3, "all") => Held::All,
        4 => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(super::subcommand_syntax(call)),
    };
    let wait_ms = parse_integer(call.args[2]).ok_or("ERR timeout is not an integer or out of range")?;
    let wait_ms = u64::try_from(wait_ms).map_err(|_| "ERR timeout is negative")?;
    let until_ms = if wait_ms == 0 { 0 } else { call.server.now_ms().saturating_add(wait_ms) };
    call.session.pause_changes.push(PauseChange::Begin { until_ms, held });
    call.reply.status(b"OK");
    Ok(())
}

fn unpause(call: &mut Call<'_, '_>) -> Outcome {
    call.session.pause_changes.push(PauseChange::End);
    call.reply.status(b"OK");
    Ok(())
}

/// Clients are never evicted for their memory, so this is kept by itself.
fn no_evict(call: &mut Call<'_, '_>) -> Outcome {
    if !call.is_word(2, "on") && !call.is_word(2, "off") {
        return Err(SYNTAX.into());
    }
    call.reply.status(b"OK");
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::reply_help(
        call,
        &[
            "CACHING (YES|NO)",
            "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
            "GETREDIR",
            "    Return the client ID we are redirecting to when tracking is enabled.",
            "GETNAME",
            "    Return the name of the current connection.",
            "ID",
            "    Return the ID of the current connection.",
            "INFO",
            "    Return information about the current client connection.",
            "KILL <ip:port>",
            "    Kill connection made from <ip:port>.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Kill connections. Options are:",
            "    * ADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made from the specified address",
            "    * LADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made to specified local address",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Kill connections by type.",
            "    * USER <username>",
            "      Kill connections authenticated by <username>.",
            "    * SKIPME (YES|NO)",
            "      Skip killing current connection (default: yes).",
            "LIST [options ...]",
            "    Return information about client connections. Options:",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Return clients of specified type.",
            "UNPAUSE",
            "    Stop the current client pause, resuming traffic.",
            "PAUSE <timeout> [WRITE|ALL]",
            "    Suspend all, or just write, clients for <timeout> milliseconds.",
            "REPLY (ON|OFF|SKIP)",
            "    Control the replies sent to the current connection.",
            "SETNAME <name>",
            "    Assign the name <name> to the current connection.",
            "UNBLOCK <clientid> [TIMEOUT|ERROR]",
            "    Unblock the specified blocked client.",
            "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
            "         [OPTIN] [OPTOUT] [NOLOOP]",
            "    Control server assisted client side caching.",
            "TRACKINGINFO",
            "    Report tracking status for the current connection.",
            "NO-EVICT (ON|OFF)",
            "    Protect current client connection from eviction.",
        ],
    );
    Ok(())
}
