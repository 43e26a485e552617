//! Reads and writes the file of users: lines `user NAME RULE ...`, loaded all or not at all.

use super::rule::RuleError;
use super::user::User;
use super::users::{Users, join_selectors};
use crate::text::{before_nul, is_one_word};

/// What ends the list of what is wrong in a file.
const UNCHANGED: &[u8] =
    b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed";

impl Users {
    /// All users as lines of a file.
    #[doc(alias = "ACL SAVE")]
    pub fn save(&self) -> Vec<u8> {
        self.lines().flat_map(|line| [line, b"\n".to_vec()].concat()).collect()
    }

    /// Each user as a line, in the order of names.
    pub fn lines(&self) -> impl Iterator<Item = Vec<u8>> {
        self.iter().map(|(name, user)| [b"user ", name, b" ", &user.rules()[..]].concat())
    }

    /// Replaces all users by those of a file, whose name appears in errors. If any line is wrong, nothing
    /// changes, and the error lists what is wrong in which line, without its code. Empty lines are skipped;
    /// comments are not allowed, because saving would lose them.
    ///
    /// Without a default user there is one that may do everything, as at the start.
    ///
    /// ```
    /// use esker_redis_commands::acl::Users;
    /// let mut users = Users::new(false);
    /// users.load(b"user ann on nopass ~* +@read\n\nuser bob off\n", b"users.acl").unwrap();
    /// assert_eq!(users.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&b"ann"[..], b"bob", b"default"]);
    /// let error = users.load(b"user eve +@frob", b"users.acl").unwrap_err();
    /// assert!(error.starts_with(b"users.acl:1: Error in applying operation '+@frob'"));
    /// ```
    #[doc(alias = "ACL LOAD")]
    pub fn load(&mut self, text: &[u8], file: &[u8]) -> Result<(), Vec<u8>> {
        let mut loaded = Self::empty(self.all_channels, self.next_identity());
        let mut errors = Vec::new();
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1_u64..) {
            let line = trim(line, b" \t\r\n");
            if !line.is_empty() {
                loaded.load_line(line, &Place { file, number }, &mut errors);
            }
        }
        if !errors.is_empty() {
            errors.extend_from_slice(UNCHANGED);
            return Err(errors);
        }
        *self = loaded.with_default();
        Ok(())
    }

    /// The users of `user NAME RULE ...` lines of a configuration file, whose words come without the first.
    /// A wrong line is returned by its number, counted from 0, with the text of the error.
    ///
    /// A configuration may declare the default user, too, which else may do everything. No user may be
    /// declared twice.
    ///
    /// ```
    /// use esker_redis_commands::acl::Users;
    /// let users = Users::declared(&[vec!["ann", "on", "(+get", "~a)"]], false).unwrap();
    /// assert_eq!(users.iter().count(), 2);
    /// let error = Users::declared(&[vec!["ann"], vec!["ann"]], false).unwrap_err();
    /// assert_eq!(error.0, 1);
    /// ```
    pub fn declared<W: AsRef<[u8]>>(lines: &[Vec<W>], all_channels: bool) -> Result<Self, (usize, Vec<u8>)> {
        let mut users = Self::empty(all_channels, Self::new(all_channels).next_identity());
        for (at, line) in lines.iter().enumerate() {
            users.declare(line).map_err(|error| (at, error))?;
        }
        Ok(users.with_default())
    }

    fn declare<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<(), Vec<u8>> {
        let wrong = |word: &[u8], reason: &str| {
            [b"Error in user declaration '", before_nul(word), b"': ", reason.as_bytes()].concat()
        };
        let [name, rules @ ..] = words else {
            return Err(wrong(b"user", "a name is missing"));
        };
        let name = name.as_ref();
        if !is_one_word(name) {
            return Err(b"Spaces not allowed in ACL usernames".to_vec());
        }
        if self.user(name).is_some() {
            let reason = "Duplicate user found. A user can only be defined once in config files";
            return Err(wrong(name, reason));
        }
        let joined = join_selectors(rules);
        let joined =
            joined.map_err(|at| wrong(rules[at].as_ref(), "Unmatched parenthesis in acl selector"))?;
        let mut user = User::new(self.all_channels);
        for rule in joined {
            user.apply(&rule).map_err(|error| wrong(&rule, &error.to_string()))?;
        }
        self.insert(name, user);
        Ok(())
    }

    /// Adds the user of one line; what is wrong is appended to `errors`.
    fn load_line(&mut self, line: &[u8], place: &Place<'_>, errors: &mut Vec<u8>) {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            place.report(errors, &[b" should start with user keyword followed by the username. "]);
            return;
        };
        if !is_one_word(name) {
            errors.push(b'\'');
            let name = before_nul(name);
            place.report(errors, &[b": username '", name, b"' contains invalid characters. "]);
            return;
        }
        if self.user(name).is_some() {
            let end = format!("' found on line {}. ", place.number);
            errors.extend([b"WARNING: Duplicate user '", *name, end.as_bytes()].concat());
            return;
        }
        let mut user = User::new(self.all_channels);
        match join_selectors(rules) {
            Ok(rules) => place.apply(&mut user, &rules, errors),
            Err(_) => place.report(errors, &[b": Unmatched parenthesis in selector definition."]),
        }
        self.insert(name, user);
    }
}

/// A line of a file.
struct Place<'a> {
    file: &'a [u8],
    number: u64,
}

impl Place<'_> {
    /// Appends the place and a text.
    fn report(&self, errors: &mut Vec<u8>, text: &[&[u8]]) {
        errors.extend_from_slice(self.file);
        errors.extend_from_slice(format!(":{}", self.number).as_bytes());
        errors.extend(text.concat());
    }

    /// Applies all rules, even after a wrong one. Unknown commands are all reported, of the rest the first:
    /// a later one may only follow from it, and may contain a password.
    fn apply(&self, user: &mut User, rules: &[Vec<u8>], errors: &mut Vec<u8>) {
        let mut reported = false;
        for rule in rules {
            let rule = trim(rule, b"\t\r\n");
            let Err(error) = user.apply(rule) else { continue };
            let reason = error.to_string();
            if error == RuleError::Unknown {
                let rule = before_nul(rule);
                let text = [b": Error in applying operation '", rule, b"': ", reason.as_bytes(), b". "];
                self.report(errors, &text);
            } else if !std::mem::replace(&mut reported, true) {
                self.report(errors, &[b": ", reason.as_bytes(), b". "]);
            }
        }
    }
}

fn trim<'a>(text: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let is_kept = |byte: &u8| !blanks.contains(byte);
    let start = text.iter().position(is_kept).unwrap_or(text.len());
    let end = text.iter().rposition(is_kept).map_or(start, |last| last + 1);
    &text[start..end]
}
