//! Where the server listens, and which requests it answers.

use parking_lot::RwLock;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The port, if none is chosen.
pub const DEFAULT_PORT: u16 = 8081;

/// Bytes of a token. Sixteen random letters cannot be found by trying; more than a kibibyte is a wrong file.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=1024;

/// What a server needs to know before it listens.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address.
    pub address: SocketAddr,
    /// What requests must know, health excepted.
    pub token: Option<Token>,
    /// Names by which the server is called, beside `localhost` and addresses.
    pub host_names: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { address: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(), token: None, host_names: Vec::new() }
    }
}

impl Config {
    /// Whether requests could come from other machines, and would need nothing (HA1).
    pub fn is_unprotected(&self) -> bool {
        self.token.is_none() && !self.address.ip().is_loopback()
    }
}

/// A secret that requests carry. It is not printed. All copies are one, so that it can be replaced while the
/// server runs.
#[derive(Clone)]
pub struct Token(Arc<RwLock<Vec<u8>>>);

impl Token {
    /// The token of a file: its text without the ends of lines behind it.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it, without the token.
    pub fn new(content: &[u8]) -> Result<Token, String> {
        let text = content.trim_ascii_end();
        if !TOKEN_BYTES.contains(&text.len()) {
            let (least, most) = (TOKEN_BYTES.start(), TOKEN_BYTES.end());
            return Err(format!("a token has {least} to {most} bytes, this one has {}", text.len()));
        }
        match text.iter().position(|byte| !byte.is_ascii_graphic()) {
            Some(at) => Err(format!("byte {at} of the token is no visible ASCII character")),
            None => Ok(Token(Arc::new(RwLock::new(text.to_vec())))),
        }
    }

    /// Whether these bytes are the token, compared in a time that does not tell where they differ.
    pub fn is(&self, given: &[u8]) -> bool {
        given.ct_eq(&self.0.read()).into()
    }

    /// Takes the secret of another token, from the next request on. Whether it differs.
    pub fn replace(&self, other: &Token) -> bool {
        let secret = other.0.read().clone();
        let differs = !self.is(&secret);
        *self.0.write() = secret;
        differs
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_long_word_and_is_not_shown() {
        let token = Token::new(b"0123456789abcdef\r\n").unwrap();
        assert!(token.is(b"0123456789abcdef") && !token.is(b"0123456789abcdeX") && !token.is(b""));
        assert!(!format!("{token:?}").contains("0123"));
        assert!(Token::new(b"short\n").unwrap_err().contains("has 5"));
        assert!(Token::new(&[b'x'; 1025]).is_err());
        assert!(Token::new(b"0123456789 abcdef").unwrap_err().contains("byte 10"));
    }

    #[test]
    fn a_token_is_replaced_in_all_copies() {
        let token = Token::new(b"0123456789abcdef").unwrap();
        let (copy, other) = (token.clone(), Token::new(b"fedcba9876543210").unwrap());
        assert!(token.replace(&other) && !token.replace(&other));
        assert!(copy.is(b"fedcba9876543210") && !copy.is(b"0123456789abcdef"));
    }

    #[test]
    fn only_loopback_needs_no_token() {
        let at = |address: &str| Config { address: address.parse().unwrap(), ..Config::default() };
        assert!(!at("127.0.0.1:1").is_unprotected() && !at("[::1]:1").is_unprotected());
        assert!(at("0.0.0.0:1").is_unprotected() && at("[::]:1").is_unprotected());
        let token = Token::new(b"0123456789abcdef").ok();
        assert!(!Config { token, ..at("0.0.0.0:1") }.is_unprotected());
    }
}
