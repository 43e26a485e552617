//! Users for other protocols: what a user of the Redis server may do with the whole database.
//!
//! Key patterns name keys of Redis, which other keyspaces do not have. So a user has a right here only if it
//! may run the commands that stand for it with every key.

use crate::server::Server;
use esker_redis_commands::acl::User;
use esker_redis_commands::{KeyFlags, resolve};

/// What a user may do with all keyspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRights {
    /// Read: it may GET every key.
    pub read: bool,
    /// Write: it may SET and DEL every key.
    pub write: bool,
    /// Administrate: it may CONFIG SET, and change every key.
    pub admin: bool,
}

/// Commands that a user who may write must be allowed to run.
const WRITES: [&[&str]; 2] = [&["set", "key", "value"], &["del", "key"]];

impl Server {
    /// The rights of the user of this name and password; of the user `default` if none are given and it needs
    /// no password. `None` if they are wrong.
    pub fn rights_of(&self, login: Option<(&[u8], &[u8])>) -> Option<UserRights> {
        let mut account = None;
        match login {
            None => account = self.access.of_new_client(),
            Some((name, password)) => {
                self.access.authenticate(name, password, |found| account = Some(found));
            }
        }
        account.map(|account| rights(account.user()))
    }
}

fn rights(user: &User) -> UserRights {
    let may = |arguments: &[&str], access| {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        resolve(&arguments)
            .is_some_and(|command| user.check_with_all_keys(command, &arguments, &mut Vec::new(), access))
    };
    UserRights {
        read: may(&["get", "key"], KeyFlags::ACCESS),
        write: WRITES.iter().all(|write| may(write, KeyFlags::UPDATE)),
        admin: may(&["config", "set", "name", "value"], KeyFlags::UPDATE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_redis_commands::acl::Users;

    fn of(rules: &[&str]) -> UserRights {
        let mut users = Users::new(false);
        users.set_user(b"ann", rules).expect("right rules");
        rights(users.user(b"ann").expect("it was made"))
    }

    #[test]
    fn a_right_is_that_of_the_commands_with_every_key() {
        let none = UserRights { read: false, write: false, admin: false };
        assert_eq!(of(&[]), none);
        assert_eq!(of(&["allkeys", "allcommands"]), UserRights { read: true, write: true, admin: true });
        assert_eq!(of(&["allkeys", "+@read"]), UserRights { read: true, ..none });
        assert_eq!(of(&["allkeys", "+@write"]), UserRights { write: true, ..none });
        assert_eq!(of(&["allkeys", "+set"]), none, "it could not remove what it sets");
        assert_eq!(of(&["%R~*", "+@all", "-@admin"]), UserRights { read: true, ..none });
        assert_eq!(of(&["~user:*", "+@all"]), none, "other keyspaces have no such keys");
        assert_eq!(
            of(&["-@all", "(allkeys +get)", "(allkeys +set +del)"]),
            UserRights { read: true, write: true, ..none }
        );
    }
}
