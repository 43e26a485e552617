//! What a server would refuse as it starts, found without one: rules of users, and a user `default` without a
//! password where other machines connect.

use crate::access_changes::read_users;
use crate::start::StartConfig;
use esker::Database;
use esker_redis_commands::acl::Users;
use esker_redis_store::layout::{Space, system};
use std::path::Path;

/// The name of the user that clients are without AUTH.
const DEFAULT: &[u8] = b"default";

impl StartConfig {
    /// Whether clients need no password, by the users that a server begins with: those that `kept` has from
    /// CONFIG REWRITE, if it is given, those of lines `user`, and those of the file of `aclfile`.
    ///
    /// # Errors
    /// A sentence with the user whose rules make no sense, or with the file.
    pub fn default_is_open(&self, kept: Option<&Database>) -> Result<bool, String> {
        let text = |reply: Vec<u8>| String::from_utf8_lossy(&reply).into_owned();
        let all_channels = self.value("acl-pubsub-default") == Some(b"allchannels");
        let mut users = Users::new(all_channels);
        if let Some(stored) = kept.map(stored_users).transpose().map_err(|error| error.to_string())?.flatten()
        {
            users.load(&stored, b"stored users").map_err(text)?;
        }
        let password = self.value("requirepass").filter(|password| !password.is_empty());
        if !self.users().is_empty() {
            users = Users::declared(self.users(), all_channels)
                .map_err(|(line, reason)| self.wrong_user(line, &text(reason)))?;
        }
        let declares_default =
            self.users().iter().any(|words| words.first().is_some_and(|name| name == DEFAULT));
        if password.is_some() && !declares_default {
            users.set_default_password(password);
        }
        if let Some(file) = self.text("aclfile") {
            let path = Path::new(&self.text("dir").unwrap_or_default()).join(file);
            let lines = read_users(&path).map_err(text)?;
            users.load(&lines, path.as_os_str().as_encoded_bytes()).map_err(text)?;
        }
        Ok(users.user(DEFAULT).is_some_and(|user| user.is_enabled() && user.needs_no_password()))
    }

    /// Whether a server refuses to listen beyond this machine while clients need no password.
    pub fn is_protected(&self) -> bool {
        self.value("protected-mode") != Some(b"no")
    }
}

/// The users that CONFIG REWRITE keeps in a database, as lines of a file.
fn stored_users(database: &Database) -> esker::Result<Option<Vec<u8>>> {
    let name = Space::System.name();
    if !database.keyspaces().iter().any(|known| known == name) {
        return Ok(None);
    }
    Ok(database.open_keyspace(name)?.get(system::USERS)?.map(|text| text.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(words: &str) -> StartConfig {
        let mut config = StartConfig::default();
        for directive in
            words.split(" --").map(|words| words.trim_start_matches("--")).filter(|words| !words.is_empty())
        {
            let words: Vec<Vec<u8>> =
                format!("--{directive}").split(' ').map(|word| word.as_bytes().to_vec()).collect();
            config.add_words(&words).expect(directive);
        }
        config
    }

    #[test]
    fn the_default_user_is_open_unless_a_password_or_a_rule_closes_it() {
        for (words, is_open) in [
            ("", true),
            ("--requirepass x", false),
            ("--user app on nopass", true),
            ("--user app on nopass --requirepass x", false),
            ("--user default on >x ~* +@all", false),
            ("--user default on nopass ~* +@all --requirepass x", true),
            ("--user default off", false),
        ] {
            assert_eq!(config(words).default_is_open(None), Ok(is_open), "{words}");
        }
    }

    #[test]
    fn rules_and_files_that_are_wrong_are_named() {
        let wrong = config("--user app on --user other +@nosuch").default_is_open(None).expect_err("a rule");
        assert!(wrong.starts_with("user other: "), "{wrong}");
        let missing = config("--aclfile /nonexistent/users.acl").default_is_open(None).expect_err("no file");
        assert!(missing.contains("/nonexistent/users.acl"), "{missing}");
    }
}
