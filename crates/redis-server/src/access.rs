//! Access control: the users, which of them a client is, and the log of what was denied.
//!
//! What holds:
//! * AC1. A client looks its user up again before its next command once users have changed, by an identity
//!   that no other user gets: a user that was deleted and made anew gives its old clients no rights.
//! * AC2. A client becomes a user under the lock of users, and is registered as one there; so that a deletion
//!   finds every client of the user that it deletes.

use esker_redis_commands::acl::{Event, Log, User, Users};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the user that connections have which need no password.
const DEFAULT: &[u8] = b"default";

/// The users of a server.
#[derive(Debug)]
pub(crate) struct Access {
    users: RwLock<Users>,
    /// How often users were changed.
    generation: AtomicU64,
    log: Mutex<Log>,
}

/// The user that a client is, with its rights at one time.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    name: Arc<[u8]>,
    user: Arc<User>,
    /// When the rights were read.
    generation: u64,
    may_do_everything: bool,
}

impl Account {
    /// The user's name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The user's rights.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// Whether no command has to be checked.
    pub(crate) fn may_do_everything(&self) -> bool {
        self.may_do_everything
    }
}

impl Default for Access {
    fn default() -> Self {
        let users = RwLock::new(Users::new(false));
        Self { users, generation: AtomicU64::new(0), log: Mutex::default() }
    }
}

impl Access {
    /// Reads the users.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Users) -> R) -> R {
        read(&self.users.read())
    }

    /// Changes users; clients see it with their next command.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Users) -> R) -> R {
        let mut users = self.users.write();
        let result = change(&mut users);
        self.generation.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// The account of a new client; `None` if it must authenticate first.
    pub(crate) fn of_new_client(&self) -> Option<Account> {
        let users = self.users.read();
        self.account(&users, DEFAULT).filter(|account| is_open(&account.user))
    }

    /// Whether clients are `default` without AUTH.
    pub(crate) fn default_is_open(&self) -> bool {
        self.users.read().user(DEFAULT).is_some_and(is_open)
    }

    /// The account of a name and password, if they are right. It is handed over under the lock of users
    /// (AC2). Whether they were right.
    pub(crate) fn authenticate(&self, name: &[u8], password: &[u8], take: impl FnOnce(Account)) -> bool {
        let users = self.users.read();
        let account = users.authenticate(name, password).then(|| self.account(&users, name)).flatten();
        account.map(take).is_some()
    }

    /// The account with the rights that its user has now; `None` if the user is gone (AC1). While users do
    /// not change this costs one comparison.
    pub(crate) fn refresh<'a>(&self, account: &'a mut Account) -> Option<&'a Account> {
        if account.generation != self.generation.load(Ordering::Acquire) {
            let users = self.users.read();
            let now = self.account(&users, &account.name);
            *account = now.filter(|now| now.user.identity() == account.user.identity())?;
        }
        Some(account)
    }

    fn account(&self, users: &Users, name: &[u8]) -> Option<Account> {
        let user = users.shared(name)?;
        let may_do_everything = user.may_do_everything();
        let generation = self.generation.load(Ordering::Acquire);
        Some(Account { name: name.into(), user, generation, may_do_everything })
    }

    /// Adds to the log of what was denied, which keeps so many entries.
    pub(crate) fn log(&self, denied: impl Iterator<Item = Event>, now_ms: u64, entries_max: usize) {
        let mut log = self.log.lock();
        denied.for_each(|event| log.add(event, now_ms as i64, entries_max));
    }

    /// The log of what was denied.
    pub(crate) fn with_log<R>(&self, with: impl FnOnce(&mut Log) -> R) -> R {
        with(&mut self.log.lock())
    }
}

fn is_open(user: &User) -> bool {
    user.is_enabled() && user.needs_no_password()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(access: &Access, name: &str, rules: &[&str]) {
        access.change(|users| users.set_user(name.as_bytes(), rules)).expect("right rules");
    }

    fn log_in(access: &Access, name: &str) -> Account {
        let mut account = None;
        assert!(access.authenticate(name.as_bytes(), b"", |found| account = Some(found)));
        account.expect("it was handed over")
    }

    #[test]
    fn a_user_made_anew_gives_clients_of_the_old_one_no_rights() {
        let access = Access::default();
        set(&access, "ann", &["on", "nopass"]);
        let mut account = log_in(&access, "ann");
        set(&access, "ann", &["allkeys", "allcommands", "allchannels"]);
        assert!(access.refresh(&mut account).expect("it is there").may_do_everything());
        access.change(|users| users.delete_users(&["ann"])).expect("it is not the default user");
        set(&access, "ann", &["on", "nopass", "allkeys", "allcommands", "allchannels"]);
        assert!(access.refresh(&mut account).is_none());
        assert!(access.refresh(&mut log_in(&access, "ann")).is_some());
    }

    #[test]
    fn loaded_users_are_others_but_for_the_default_one() {
        let access = Access::default();
        set(&access, "ann", &["on", "nopass"]);
        let mut ann = log_in(&access, "ann");
        let mut default = access.of_new_client().expect("it needs no password");
        access.change(|users| users.load(b"user ann on nopass\nuser default on", b"file")).expect("right");
        assert!(access.refresh(&mut ann).is_none());
        assert!(!access.refresh(&mut default).expect("it stays").may_do_everything());
        assert!(access.of_new_client().is_none());
    }
}
