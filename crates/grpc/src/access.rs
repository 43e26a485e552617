//! Access control: what a call may do, by the credentials of its metadata.
//!
//! A call carries `authorization: Basic` with a user and a password, or `authorization: Bearer` with a token.
//! What they may do is asked anew for each call, and before each piece of a stream: a user that loses a right
//! loses it at once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::fmt;
use std::sync::Arc;
use tonic::Status;

/// What a caller shows to be known.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    None,
    /// The name and the password of a user.
    Password {
        /// The name.
        user: Vec<u8>,
        /// The password.
        password: Vec<u8>,
    },
    /// A token.
    Token(Vec<u8>),
}

/// Secrets do not get into logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::Password { .. } => "Password",
            Credentials::Token(_) => "Token",
        })
    }
}

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Read all keyspaces.
    pub read: bool,
    /// Write all keyspaces that clients may write.
    pub write: bool,
    /// Administrate.
    pub admin: bool,
}

impl Rights {
    /// Everything.
    pub const ALL: Rights = Rights { read: true, write: true, admin: true };
}

/// Knows callers by their credentials.
pub trait Access: fmt::Debug + Send + Sync {
    /// What the caller may do; `None` if the credentials are wrong.
    fn rights(&self, credentials: &Credentials) -> Option<Rights>;

    /// Whether callers without credentials may do something.
    fn is_open(&self) -> bool {
        self.rights(&Credentials::None).is_some()
    }
}

/// Every caller may do everything.
#[derive(Clone, Copy, Debug)]
pub struct Open;

impl Access for Open {
    fn rights(&self, _: &Credentials) -> Option<Rights> {
        Some(Rights::ALL)
    }
}

/// A right that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
    Admin,
    /// Any: the caller must only be known.
    Known,
    /// None at all.
    Nothing,
}

/// The caller of one call.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    access: Arc<dyn Access>,
    credentials: Credentials,
    right: Right,
}

impl Caller {
    /// The caller that sent these headers, for a call that needs this right.
    pub(crate) fn new(access: &Arc<dyn Access>, headers: &HeaderMap, right: Right) -> Result<Caller, Status> {
        let credentials = if right == Right::Nothing { Credentials::None } else { credentials_of(headers)? };
        Ok(Caller { access: Arc::clone(access), credentials, right })
    }

    /// Fails if the caller may not do the call, or may not any more.
    pub(crate) fn check(&self) -> Result<(), Status> {
        if self.right == Right::Nothing {
            return Ok(());
        }
        let Some(rights) = self.access.rights(&self.credentials) else {
            return Err(Status::unauthenticated(match self.credentials {
                Credentials::None => {
                    "the call has no credentials: send `authorization: Basic` or `authorization: Bearer`"
                }
                Credentials::Password { .. } => {
                    "the user or the password is wrong, or users are not known here"
                }
                Credentials::Token(_) => "the token is wrong, or tokens are not known here",
            }));
        };
        let (is_allowed, what) = match self.right {
            Right::Read => (rights.read, "read"),
            Right::Write => (rights.write, "write"),
            Right::Admin => (rights.admin, "administrate"),
            Right::Known | Right::Nothing => (true, ""),
        };
        if is_allowed {
            return Ok(());
        }
        let message = match &self.credentials {
            Credentials::Password { user, .. } => {
                format!("the user \"{}\" may not {what} the database", user.escape_ascii())
            }
            _ => format!("the caller may not {what} the database"),
        };
        Err(Status::permission_denied(message))
    }
}

fn credentials_of(headers: &HeaderMap) -> Result<Credentials, Status> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(Credentials::None) };
    let malformed = |what: &str| Status::unauthenticated(format!("the header `authorization` {what}"));
    let text = value.to_str().map_err(|_| malformed("is not ASCII"))?;
    let Some((scheme, rest)) = text.split_once(' ') else {
        return Err(malformed("must be `Basic` or `Bearer` and a value"));
    };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Credentials::Token(rest.as_bytes().to_vec()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(malformed("must be `Basic` or `Bearer` and a value"));
    }
    let pair = STANDARD.decode(rest).map_err(|_| malformed("has a value that is not base64"))?;
    let Some(colon) = pair.iter().position(|byte| *byte == b':') else {
        return Err(malformed("has no colon between user and password"));
    };
    Ok(Credentials::Password { user: pair[..colon].to_vec(), password: pair[colon + 1..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use tonic::Code;

    fn of(header: &str) -> Result<Credentials, Code> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(header).expect("a header"));
        credentials_of(&headers).map_err(|status| status.code())
    }

    #[test]
    fn credentials_are_read_or_refused() {
        assert_eq!(credentials_of(&HeaderMap::new()).expect("none"), Credentials::None);
        assert_eq!(of("Bearer secret"), Ok(Credentials::Token(b"secret".to_vec())));
        let ann = Credentials::Password { user: b"ann".to_vec(), password: b"a:b".to_vec() };
        assert_eq!(of("basic YW5uOmE6Yg=="), Ok(ann));
        for wrong in ["Basic", "Basic ???", "Basic YW5u", "Digest x", "secret"] {
            assert_eq!(of(wrong), Err(Code::Unauthenticated), "{wrong}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let ann = Credentials::Password { user: b"ann".to_vec(), password: b"secret".to_vec() };
        assert_eq!(format!("{ann:?} {:?}", Credentials::Token(b"secret".to_vec())), "Password Token");
    }
}
