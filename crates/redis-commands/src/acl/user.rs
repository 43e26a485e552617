//! A user: whether it may authenticate, by which passwords, and its selectors.

use super::ordered::Ordered;
use super::rule::RuleError;
use super::selector::Selector;
use super::sha256::{self, Digest};
use crate::text::{before_nul, same_word};
use esker_resp::quoting;

/// A user without its name.
#[derive(Clone, Debug)]
pub struct User {
    pub(super) enabled: bool,
    /// Every password is right.
    pub(super) no_password: bool,
    /// Whether payloads of RESTORE are checked: not said, or said either way.
    pub(super) sanitize_payload: Option<bool>,
    pub(super) passwords: Ordered<Digest, ()>,
    /// The first, which always exists, has the rules outside of brackets.
    pub(super) selectors: Vec<Selector>,
    /// Whether selectors begin with all channels allowed.
    pub(super) all_channels: bool,
    /// Zero until the user belongs to a set of users.
    pub(super) identity: u64,
}

impl User {
    /// A user that is off and may do nothing; all channels if `all_channels` is set.
    pub(super) fn new(all_channels: bool) -> Self {
        Self {
            enabled: false,
            no_password: false,
            sanitize_payload: None,
            passwords: Ordered::default(),
            selectors: vec![Selector::new(all_channels)],
            all_channels,
            identity: 0,
        }
    }

    /// A user that is on, needs no password and may do everything.
    pub(super) fn unrestricted(all_channels: bool) -> Self {
        let mut user = Self::new(all_channels);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            user.apply(rule.as_bytes()).unwrap_or_default();
        }
        user
    }

    /// A number that no other user of the same set has or had: a user that is deleted and made anew has
    /// another one, and one whose rules change keeps it.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Whether every command with every key and channel is allowed, so that calls need not be checked.
    pub fn may_do_everything(&self) -> bool {
        let selectors = &self.selectors;
        selectors.iter().any(|rights| rights.all_commands && rights.all_keys && rights.all_channels)
    }

    /// Whether the user may authenticate. Connections that have are not ended by switching it off.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether any password is right.
    pub fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// Whether payloads of RESTORE need not be checked for this user.
    pub fn skips_sanitizing(&self) -> bool {
        self.sanitize_payload == Some(false)
    }

    /// Whether a password is right for a user that is on. Compares with all of them, in a time that does not
    /// tell which bytes differ.
    pub(super) fn accepts(&self, password: &[u8]) -> bool {
        if !self.enabled || self.no_password {
            return self.enabled;
        }
        let digest = sha256::digest(password);
        self.passwords.iter().fold(false, |found, (known, ())| found | sha256::same(known, &digest))
    }

    /// The names of what is set, in the order of `ACL LIST`.
    pub(super) fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let sanitize =
            self.sanitize_payload.map(|on| if on { "sanitize-payload" } else { "skip-sanitize-payload" });
        let no_password = self.no_password.then_some("nopass");
        [Some(if self.enabled { "on" } else { "off" }), no_password, sanitize].into_iter().flatten()
    }

    /// Applies one rule. A refused rule changes nothing.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| same_word(rule, word);
        match before_nul(rule) {
            _ if rule.is_empty() => {}
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            _ if is("skip-sanitize-payload") => self.sanitize_payload = Some(false),
            _ if is("sanitize-payload") => self.sanitize_payload = Some(true),
            _ if is("nopass") => self.reset_passwords(true),
            _ if is("resetpass") => self.reset_passwords(false),
            [b'>', ..] => self.add_password(sha256::digest(&rule[1..])),
            [b'#', ..] => self.add_password(sha256::from_hex(&rule[1..]).ok_or(RuleError::BadDigest)?),
            [b'<', ..] => self.remove_password(&sha256::digest(&rule[1..]))?,
            [b'!', ..] => self.remove_password(&sha256::from_hex(&rule[1..]).ok_or(RuleError::BadDigest)?)?,
            [b'(', ..] if rule.ends_with(b")") => self.add_selector(&rule[1..rule.len() - 1])?,
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => {
                let (identity, all_channels) = (self.identity, self.all_channels);
                *self = Self { sanitize_payload: Some(true), identity, ..Self::new(all_channels) };
            }
            _ => self.selectors[0].apply(rule)?,
        }
        Ok(())
    }

    fn reset_passwords(&mut self, none_needed: bool) {
        self.no_password = none_needed;
        self.passwords.clear();
    }

    fn add_password(&mut self, digest: Digest) {
        self.passwords.entry(digest, ());
        self.no_password = false;
    }

    fn remove_password(&mut self, digest: &Digest) -> Result<(), RuleError> {
        if self.passwords.remove(digest) { Ok(()) } else { Err(RuleError::NoSuchPassword) }
    }

    /// A selector of the rules between brackets. As in Redis, quotes that are not closed make it empty, so
    /// that it allows no command.
    fn add_selector(&mut self, rules: &[u8]) -> Result<(), RuleError> {
        let mut selector = Selector::new(self.all_channels);
        for rule in quoting::split(rules).unwrap_or_default() {
            // Redis accepts these in quotes, and reads what it wrote as other rules.
            if rule.ends_with(b")") || rule.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
                return Err(RuleError::Syntax);
            }
            selector.apply(&rule)?;
        }
        self.selectors.push(selector);
        Ok(())
    }
}
