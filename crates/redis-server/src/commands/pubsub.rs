//! Commands of channels.

use super::Family;
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::held_messages::MAX_HELD_BYTES;
use crate::pubsub::{Post, Subject};

pub(crate) const COMMANDS: Family = &[
    ("subscribe", |call| subscribe(call, Subject::Channel)),
    ("psubscribe", |call| subscribe(call, Subject::Pattern)),
    ("ssubscribe", |call| subscribe(call, Subject::Shard)),
    ("unsubscribe", |call| unsubscribe(call, Subject::Channel)),
    ("punsubscribe", |call| unsubscribe(call, Subject::Pattern)),
    ("sunsubscribe", |call| unsubscribe(call, Subject::Shard)),
    ("publish", publish),
    ("spublish", publish_shard),
    ("pubsub|channels", |call| names(call, Subject::Channel)),
    ("pubsub|shardchannels", |call| names(call, Subject::Shard)),
    ("pubsub|numsub", |call| subscribers(call, Subject::Channel)),
    ("pubsub|shardnumsub", |call| subscribers(call, Subject::Shard)),
    ("pubsub|numpat", patterns),
    ("pubsub|help", help),
];

/// Subscriptions of one client, each channel and pattern counted.
const MAX_SUBSCRIPTIONS: usize = 1 << 20;

/// Bytes of the names that one client subscribes to: 64 for each of so many.
const MAX_SUBSCRIBED_BYTES: usize = 64 << 20;

fn subscribe(call: &mut Call<'_, '_>, subject: Subject) -> Outcome {
    // Within a transaction Redis lets clients subscribe to the other two for the sake of older programs.
    if subject == Subject::Shard && call.denies_waiting {
        return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
    }
    // A client within the process has no connection that messages could go to.
    let Some(client) = call.server.clients.get(call.session.id) else {
        return Err("ERR this client cannot receive messages".into());
    };
    if call.session.subscriptions.len() + call.args.len() - 1 > MAX_SUBSCRIPTIONS {
        return Err(format!("ERR a client has at most {MAX_SUBSCRIPTIONS} subscriptions").into());
    }
    let bytes: usize = call.args[1..].iter().map(|name| name.len()).sum();
    if call.session.subscriptions.bytes() + bytes > MAX_SUBSCRIBED_BYTES {
        return Err(
            format!("ERR a client subscribes to at most {MAX_SUBSCRIBED_BYTES} bytes of names").into()
        );
    }
    for name in &call.args[1..] {
        if call.server.pubsub.subscribe(subject, name, &client) {
            call.session.subscriptions.insert(subject, name);
        }
        confirm(call, subject.words().0, Some(name), subject);
    }
    Ok(())
}

fn unsubscribe(call: &mut Call<'_, '_>, subject: Subject) -> Outcome {
    let named: Vec<Vec<u8>> = if call.args.len() > 1 {
        call.args[1..].iter().map(|name| name.to_vec()).collect()
    } else {
        call.session.subscriptions.names(subject)
    };
    if named.is_empty() {
        confirm(call, subject.words().1, None, subject);
    }
    for name in named {
        call.server.pubsub.unsubscribe(subject, &name, call.session.id);
        call.session.subscriptions.remove(subject, &name);
        confirm(call, subject.words().1, Some(&name), subject);
    }
    Ok(())
}

/// The reply for one name: how many subscriptions of its kind the client has now. Channels and patterns count
/// together. It is a message, and sent as such after CLIENT REPLY OFF.
fn confirm(call: &mut Call<'_, '_>, word: &[u8], name: Option<&[u8]>, subject: Subject) {
    call.session.always_replies = true;
    let [channels, patterns, shards] = call.session.subscriptions.counts();
    let count = if subject == Subject::Shard { shards } else { channels + patterns };
    call.reply.push(3);
    call.reply.bulk(word);
    match name {
        Some(name) => call.reply.bulk(name),
        None => call.reply.null(),
    }
    call.reply.integer(count as i64);
}

fn publish(call: &mut Call<'_, '_>) -> Outcome {
    let (pubsub, channel, message) = (&call.server.pubsub, call.args[1], call.args[2]);
    let count = match call.denies_waiting {
        true => hold(call, |post| pubsub.address(channel, message, post))?,
        false => pubsub.publish(channel, message),
    };
    call.reply.integer(count as i64);
    Ok(())
}

fn publish_shard(call: &mut Call<'_, '_>) -> Outcome {
    let (pubsub, channel, message) = (&call.server.pubsub, call.args[1], call.args[2]);
    let count = match call.denies_waiting {
        true => hold(call, |post| pubsub.address_shard(channel, message, post))?,
        false => pubsub.publish_shard(channel, message),
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// Holds the message of a script or transaction until its batch is written. Returns for how many subscribers.
fn hold(call: &mut Call<'_, '_>, address: impl FnOnce(Post<'_>) -> usize) -> Result<usize, Failure> {
    let messages = &mut call.session.messages;
    if messages.is_full() {
        let text =
            format!("ERR a script or transaction publishes at most {MAX_HELD_BYTES} bytes to subscribers");
        return Err(text.into());
    }
    let bytes = call.args[1].len() + call.args[2].len();
    Ok(messages.hold(bytes, address))
}

fn names(call: &mut Call<'_, '_>, subject: Subject) -> Outcome {
    if call.args.len() > 3 {
        return Err(super::subcommand_syntax(call));
    }
    let names = call.server.pubsub.names(subject, call.args.get(2).copied());
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}

fn subscribers(call: &mut Call<'_, '_>, subject: Subject) -> Outcome {
    let names = &call.args[2..];
    call.reply.array(2 * names.len());
    for name in names {
        call.reply.bulk(name);
        call.reply.integer(call.server.pubsub.subscribers(subject, name) as i64);
    }
    Ok(())
}

fn patterns(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.server.pubsub.names(Subject::Pattern, None).len();
    call.reply.integer(count as i64);
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    const LINES: &[&str] = &[
        "CHANNELS [<pattern>]",
        "    Return the currently active channels matching a <pattern> (default: '*').",
        "NUMPAT",
        "    Return number of subscriptions to patterns.",
        "NUMSUB [<channel> ...]",
        "    Return the number of subscribers for the specified channels, excluding",
        "    pattern subscriptions(default: no channels).",
        "SHARDCHANNELS [<pattern>]",
        "    Return the currently active shard level channels matching a <pattern> (default: '*').",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Return the number of subscribers for the specified shard level channel(s)",
    ];
    super::reply_help(call, LINES);
    Ok(())
}
