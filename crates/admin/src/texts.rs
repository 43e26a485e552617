//! Texts of reports: what a program that prints reports answers to the words of a path and the options of its
//! query. The program makes them; this crate carries them.

use esker::Database;
use std::fmt;

/// Makes the texts under `/api/v1/text/`.
///
/// A maker changes nothing (HA3) and ends soon, because few reports are made at a time (HA4).
pub trait Texts: fmt::Debug + Send + Sync {
    /// The text for the words of a path, such as `levels`, and the options, such as `keyspace` with its name.
    /// An option without a value is set.
    ///
    /// # Errors
    /// There is no such text, or it cannot be made.
    fn text(
        &self,
        database: &Database,
        words: &[&str],
        options: &[(String, Option<String>)],
    ) -> Result<String, Refusal>;
}

/// Why a text is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The sentence, and advice in lines behind it.
    pub sentence: String,
    /// The exit code of the command that would have printed the text; `None` if there is no such text.
    pub exit_code: Option<u8>,
}

/// The options of a query, in their order. `None` if a percent sign begins no byte, or the bytes are no
/// UTF-8.
pub(crate) fn options(query: &str) -> Option<Vec<(String, Option<String>)>> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let option = |part: &str| match part.split_once('=') {
        Some((name, value)) => Some((decoded(name)?, Some(decoded(value)?))),
        None => Some((decoded(part)?, None)),
    };
    parts.map(option).collect()
}

/// Text without its percent-encoding; a plus sign is a blank, as in forms.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
                rest = after;
            }
            b'+' => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_decoded_in_their_order() {
        let told = options("keyspace=a%20b%26&tables&&key=&x=%c3%BC+y").unwrap();
        let text = |text: &str| Some(text.to_owned());
        let expected = [("keyspace", text("a b&")), ("tables", None), ("key", text("")), ("x", text("ü y"))];
        assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(options(""), Some(Vec::new()));
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff", "%c3=1"] {
            assert_eq!(options(wrong), None, "{wrong}");
        }
    }
}
