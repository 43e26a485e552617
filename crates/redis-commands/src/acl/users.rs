//! The set of users, and the changes to it, each of which happens wholly or not at all.

use super::user::User;
use crate::text::{before_nul, is_one_word};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The user of connections that have not authenticated.
pub(super) const DEFAULT: &[u8] = b"default";

/// The identity of the default user, which cannot be deleted.
const DEFAULT_IDENTITY: u64 = 1;

/// All users by name. There is always one called `default`.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: BTreeMap<Vec<u8>, Arc<User>>,
    pub(super) all_channels: bool,
    /// The identity of the next user.
    next_identity: u64,
}

impl Users {
    /// Only the default user, which may do everything and needs no password. `all_channels` is what the
    /// option `acl-pubsub-default` says: whether new users and selectors begin with all channels allowed.
    pub fn new(all_channels: bool) -> Self {
        Self::empty(all_channels, DEFAULT_IDENTITY + 1).with_default()
    }

    /// No users yet; those that are added get identities from this one on.
    pub(super) fn empty(all_channels: bool, next_identity: u64) -> Self {
        Self { by_name: BTreeMap::new(), all_channels, next_identity }
    }

    /// The same, with a default user that may do everything, unless there is one already.
    pub(super) fn with_default(mut self) -> Self {
        if self.user(DEFAULT).is_none() {
            self.insert(DEFAULT, User::unrestricted(self.all_channels));
        }
        self
    }

    /// The first identity that no user has had.
    pub(super) fn next_identity(&self) -> u64 {
        self.next_identity
    }

    /// Whether new users, and those that are reset, begin with all channels allowed: the option
    /// `acl-pubsub-default`. Users that exist stay as they are.
    #[doc(alias = "acl-pubsub-default")]
    pub fn set_all_channels(&mut self, all_channels: bool) {
        self.all_channels = all_channels;
    }

    /// A user.
    pub fn user(&self, name: &[u8]) -> Option<&User> {
        self.by_name.get(name).map(|user| &**user)
    }

    /// A user as it is now, for a connection to keep.
    pub fn shared(&self, name: &[u8]) -> Option<Arc<User>> {
        self.by_name.get(name).cloned()
    }

    /// Adds or replaces a user. A new one gets an identity that no user before it had.
    pub(super) fn insert(&mut self, name: &[u8], mut user: User) {
        if user.identity == 0 {
            user.identity = self.next_identity;
            self.next_identity += 1;
            if name == DEFAULT {
                user.identity = DEFAULT_IDENTITY;
            }
        }
        self.by_name.insert(name.to_vec(), Arc::new(user));
    }

    /// All users in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &User)> {
        self.by_name.iter().map(|(name, user)| (&name[..], &**user))
    }

    /// Whether the user exists, is on, and the password is one of its own or none is needed. An unknown user
    /// costs as much as a wrong password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> bool {
        match self.by_name.get(name) {
            Some(user) => user.accepts(password),
            None => {
                std::hint::black_box(super::sha256::digest(password));
                false
            }
        }
    }

    /// Applies rules to a user, which is made if it does not exist: all of them, or none and the text of the
    /// error without its code. Takes time O(rules * log(rules)).
    ///
    /// A selector may be divided among several rules, which are put together with spaces.
    ///
    /// ```
    /// use esker_redis_commands::acl::Users;
    /// let mut users = Users::new(false);
    /// let error = users.set_user(b"ann", &["on", "+frobnicate"]).unwrap_err();
    /// assert_eq!(
    ///     String::from_utf8(error).unwrap(),
    ///     "Error in ACL SETUSER modifier '+frobnicate': Unknown command or category name in ACL"
    /// );
    /// assert!(users.user(b"ann").is_none());
    /// ```
    #[doc(alias = "ACL SETUSER")]
    pub fn set_user<R: AsRef<[u8]>>(&mut self, name: &[u8], rules: &[R]) -> Result<(), Vec<u8>> {
        if !is_one_word(name) {
            return Err(b"Usernames can't contain spaces or null characters".to_vec());
        }
        let rules = join_selectors(rules).map_err(|at| {
            let opening = before_nul(rules[at].as_ref());
            [b"Unmatched parenthesis in acl selector starting at '", opening, b"'."].concat()
        })?;
        let user = self.user(name).cloned();
        let mut user = user.unwrap_or_else(|| User::new(self.all_channels));
        user.all_channels = self.all_channels;
        for rule in rules {
            user.apply(&rule).map_err(|error| {
                let reason = error.to_string();
                let rule = before_nul(&rule);
                [b"Error in ACL SETUSER modifier '", rule, b"': ", reason.as_bytes()].concat()
            })?;
        }
        self.insert(name, user);
        Ok(())
    }

    /// Deletes users and returns the names of those that existed, whose connections must be closed; none if
    /// the default user is among them, with the text of the error.
    #[doc(alias = "ACL DELUSER")]
    pub fn delete_users<N: AsRef<[u8]>>(&mut self, names: &[N]) -> Result<Vec<Vec<u8>>, &'static str> {
        if names.iter().any(|name| before_nul(name.as_ref()) == DEFAULT) {
            return Err("The 'default' user cannot be removed");
        }
        let deleted = names.iter().filter_map(|name| self.by_name.remove_entry(name.as_ref()));
        Ok(deleted.map(|(name, _)| name).collect())
    }

    /// Sets the password of the default user, or that it needs none: the option `requirepass`.
    #[doc(alias = "requirepass")]
    pub fn set_default_password(&mut self, password: Option<&[u8]>) {
        let rule = password.map_or_else(|| b"nopass".to_vec(), |password| [b">", password].concat());
        if let Some(user) = self.by_name.get_mut(DEFAULT) {
            let user = Arc::make_mut(user);
            // Rules about passwords of this form are never refused.
            user.apply(b"resetpass").unwrap_or_default();
            user.apply(&rule).unwrap_or_default();
        }
    }
}

/// Joins rules from one that begins with `(` to one that ends with `)`; otherwise the position of the `(`.
///
/// As in Redis, a second `(` before the end begins the selector anew.
pub(super) fn join_selectors<R: AsRef<[u8]>>(rules: &[R]) -> Result<Vec<Vec<u8>>, usize> {
    let mut joined = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, rule) in rules.iter().enumerate() {
        let rule = rule.as_ref();
        let closes = rule.ends_with(b")");
        if rule.starts_with(b"(") && !closes {
            open = Some((at, rule.to_vec()));
        } else if let Some((_, selector)) = &mut open {
            selector.push(b' ');
            selector.extend_from_slice(before_nul(rule));
            if closes && let Some((_, selector)) = open.take() {
                joined.push(selector);
            }
        } else {
            joined.push(rule.to_vec());
        }
    }
    match open {
        Some((at, _)) => Err(at),
        None => Ok(joined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_never_given_again() {
        let mut users = Users::new(false);
        let identity = |users: &Users, name: &[u8]| users.user(name).map(User::identity);
        users.set_user(b"ann", &["on"]).expect("right rules");
        let first = identity(&users, b"ann");
        users.set_user(b"ann", &["reset", "+get"]).expect("right rules");
        assert_eq!(identity(&users, b"ann"), first);
        users.delete_users(&["ann"]).expect("it is not the default user");
        users.set_user(b"ann", &["on"]).expect("right rules");
        let second = identity(&users, b"ann");
        users.load(b"user ann on\nuser bob on", b"file").expect("right lines");
        let (third, default) = (identity(&users, b"ann"), identity(&users, DEFAULT));
        assert!(first < second && second < third);
        assert_eq!(default, Some(DEFAULT_IDENTITY));
        users.load(b"user default on nopass +get", b"file").expect("right lines");
        assert_eq!(identity(&users, DEFAULT), default);
        users.set_default_password(Some(b"secret"));
        assert_eq!(identity(&users, DEFAULT), default);
    }

    #[test]
    fn only_a_selector_with_all_rights_may_do_everything() {
        let mut users = Users::new(false);
        for (rules, expected) in [
            (&["+@all", "~*"][..], false),
            (&["&*"], true),
            (&["-get"], false),
            (&["(+@all allkeys allchannels)"], true),
            (&["clearselectors", "+@all", "resetkeys", "%R~*"], false),
        ] {
            users.set_user(b"ann", rules).expect("right rules");
            assert_eq!(users.user(b"ann").map(User::may_do_everything), Some(expected), "{rules:?}");
        }
    }
}
