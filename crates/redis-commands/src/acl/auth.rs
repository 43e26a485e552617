//! The command `AUTH`: which user a connection becomes.

use super::users::{DEFAULT, Users};
use crate::reply::Reply;

/// The error after a wrong password, with its code. It does not tell whether the user exists.
pub const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

impl Users {
    /// The name of the user that `AUTH [name] password` makes of a connection, or the error to answer. The
    /// arguments are those after `AUTH`; with one it is the password of the default user.
    ///
    /// After [`WRONG_PASSWORD`] the caller adds an event to the [`Log`](super::Log).
    ///
    /// ```
    /// use esker_redis_commands::acl::Users;
    /// let mut users = Users::new(false);
    /// users.set_default_password(Some(b"secret"));
    /// assert_eq!(users.auth(&["secret"]), Ok(&b"default"[..]));
    /// assert!(users.auth(&["default", "wrong"]).is_err());
    /// ```
    #[doc(alias = "AUTH")]
    pub fn auth<'a, A: AsRef<[u8]>>(&self, arguments: &'a [A]) -> Result<&'a [u8], Reply> {
        let (name, password) = match arguments {
            [_] if self.user(DEFAULT).is_some_and(|user| user.needs_no_password()) => {
                return Err(Reply::error(
                    "AUTH <password> called without any password configured for the default user. Are you sure \
                     your configuration is correct?",
                ));
            }
            [password] => (DEFAULT, password),
            [name, password] => (name.as_ref(), password),
            _ => return Err(Reply::error("syntax error")),
        };
        if self.authenticate(name, password.as_ref()) {
            return Ok(name);
        }
        Err(Reply::Error(WRONG_PASSWORD.as_bytes().to_vec()))
    }
}
