//! Tokens: callers that show a secret of a file may do everything.

use crate::access::{Access, Credentials, Rights};
use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;

/// The least length of a token: 16 bytes of randomness in hexadecimal digits.
const TOKEN_BYTES_MIN: usize = 32;

/// The tokens of a file, one a line; empty lines and lines that begin with `#` do not count. All copies are
/// one, so that they can be replaced while the server runs.
#[derive(Clone)]
pub struct Tokens(Arc<RwLock<Vec<Vec<u8>>>>);

/// Secrets do not get into logs.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.0.read().len())
    }
}

impl Tokens {
    /// The tokens of a file's text.
    ///
    /// # Errors
    /// A sentence that names the line, without its secret.
    pub fn parse(text: &str) -> Result<Tokens, String> {
        let mut tokens = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.len() < TOKEN_BYTES_MIN || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "line {number}: a token has at least {TOKEN_BYTES_MIN} printable characters and no blanks, this one has {}",
                    line.chars().count()
                ));
            }
            tokens.push(line.as_bytes().to_vec());
        }
        if tokens.is_empty() {
            return Err("there is no token in it".to_owned());
        }
        Ok(Tokens(Arc::new(RwLock::new(tokens))))
    }

    /// Takes the tokens of another file, from the next call and the next piece of a stream on. Whether they
    /// differ.
    pub fn replace(&self, other: &Tokens) -> bool {
        let tokens = other.0.read().clone();
        let differs = *self.0.read() != tokens;
        *self.0.write() = tokens;
        differs
    }

    /// Whether this is one of them. All are compared, each in a time that does not tell where it differs.
    fn contains(&self, shown: &[u8]) -> bool {
        self.0.read().iter().fold(false, |found, token| found | is_equal(token, shown))
    }
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |seen, (one, other)| seen | (one ^ other));
    std::hint::black_box(differences) == 0 && one.len() == other.len()
}

impl Access for Tokens {
    fn rights(&self, credentials: &Credentials) -> Option<Rights> {
        match credentials {
            Credentials::Token(token) if self.contains(token) => Some(Rights::ALL),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_lines_that_are_long_enough() {
        let (one, other) = ("a".repeat(32), "b".repeat(40));
        let tokens = Tokens::parse(&format!("# operators\n{one}\n\n  {other}  \n")).expect("right");
        let may = |token: &str| tokens.rights(&Credentials::Token(token.into())).is_some();
        assert!(may(&one) && may(&other));
        assert!(!may(&other[..39]) && !may("") && !may(&format!("{one}a")));
        assert!(tokens.rights(&Credentials::None).is_none() && !tokens.is_open());
        let (copy, third) = (tokens.clone(), "c".repeat(32));
        let replacement = Tokens::parse(&third).expect("right");
        assert!(copy.replace(&replacement) && !copy.replace(&replacement));
        assert!(may(&third) && !may(&one));
        for (text, told) in
            [("", "no token"), ("# x\n", "no token"), ("secret\n", "line 1"), ("#\na b c\n", "line 2")]
        {
            let error = Tokens::parse(text).expect_err(text);
            assert!(error.contains(told) && !error.contains("secret"), "{error}");
        }
    }
}
