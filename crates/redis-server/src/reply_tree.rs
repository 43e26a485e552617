//! Writes replies that are trees, as the command table makes them, in the client's protocol.

use crate::failure::Outcome;
use esker_redis_commands::Reply;
use esker_resp::writer::ReplyWriter;

/// Writes a reply; one that is an error is the command's failure, so that it is counted as one.
pub(crate) fn write_reply(writer: &mut ReplyWriter<'_>, reply: Reply) -> Outcome {
    if let Reply::Error(text) = reply {
        return Err(text.into());
    }
    write_tree(writer, &reply);
    Ok(())
}

/// The server makes these trees from its own tables, so their depth is the table's and not a client's.
fn write_tree(writer: &mut ReplyWriter<'_>, reply: &Reply) {
    match reply {
        Reply::Status(text) => writer.status(text.as_bytes()),
        Reply::Error(text) => writer.error(text),
        Reply::Bulk(bytes) => writer.bulk(bytes),
        Reply::Integer(number) => writer.integer(*number),
        Reply::Double(number) => writer.double(*number),
        Reply::Null => writer.null(),
        Reply::Array(items) => {
            writer.array(items.len());
            items.iter().for_each(|item| write_tree(writer, item));
        }
        Reply::Set(items) => {
            writer.set(items.len());
            items.iter().for_each(|item| write_tree(writer, item));
        }
        Reply::Map(pairs) => {
            writer.map(pairs.len());
            for (name, value) in pairs {
                write_tree(writer, name);
                write_tree(writer, value);
            }
        }
    }
}
