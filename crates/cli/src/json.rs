//! Output of pairs as JSON, and the error for those that no format can show.

use crate::args::Shape;
use crate::failure::Failure;
use std::io::Write;

pub(crate) fn write_json(
    out: &mut dyn Write,
    members: impl IntoIterator<Item = (String, serde_json::Value)>,
) -> Result<(), Failure> {
    let object: serde_json::Map<String, serde_json::Value> = members.into_iter().collect();
    writeln!(out, "{}", serde_json::Value::Object(object))?;
    Ok(())
}

pub(crate) fn write_json_pair(
    out: &mut dyn Write,
    shape: &Shape,
    key: &[u8],
    value: &[u8],
) -> Result<(), Failure> {
    let key = shape.key.json_member("key", key).map_err(|reason| unprintable("key", &reason))?;
    let value = shape.value.json_member("value", value).map_err(|reason| unprintable("value", &reason))?;
    write_json(out, [key, value])
}

/// The error for a stored key or value that cannot be written in the chosen format.
pub(crate) fn unprintable(what: &str, reason: &str) -> Failure {
    Failure::usage(format!("{what} {reason}"))
}
