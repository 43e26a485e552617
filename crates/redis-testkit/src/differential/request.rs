//! A request: its arguments, the command it calls, and how it is written for people.

use esker_resp::quoting::{quote, split};

/// The arguments of a request, its name first.
pub type Request = Vec<Vec<u8>>;

/// The name of the command that a request calls, with its subcommand's.
pub(super) fn full_name(request: &[Vec<u8>]) -> String {
    let name = esker_redis_commands::resolve(request).map(|command| command.name().to_owned());
    name.unwrap_or_else(|| request.first().map_or_else(String::new, |name| name.escape_ascii().to_string()))
}

/// A request as redis-cli reads it, at most some hundred bytes.
pub(super) fn line(request: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for argument in request {
        if text.len() > 400 {
            return format!("{text} ... ({} arguments)", request.len());
        }
        let plain = !argument.is_empty()
            && argument.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte));
        let mut quoted = Vec::new();
        if plain {
            quoted.extend_from_slice(argument);
        } else {
            quote(argument, &mut quoted);
        }
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(&String::from_utf8_lossy(&quoted));
    }
    text
}

/// A request of words, and more arguments behind them.
pub(super) fn arguments(words: &[&str], more: &[Vec<u8>]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).chain(more.iter().cloned()).collect()
}

/// A request as one types it.
pub(super) fn words(text: &str) -> Request {
    split(text.as_bytes()).expect("a line that is quoted well")
}
