//! Changes of users: which clients they end, and the file and the entry that keep users.
//!
//! As in Redis, clients of a user that is deleted are ended, those of all users but the default one when a
//! file is loaded, and subscribers whose user may not use their channels any more.

use crate::clients::Client;
use crate::pubsub::Subject;
use crate::server::Server;
use crate::session::Session;
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use esker_redis_commands::acl::Users;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

impl Server {
    /// Sets rules of a user and ends subscribers that lose their channels by it.
    ///
    /// # Errors
    /// The text of the error, without its code; nothing is changed.
    pub(crate) fn set_user(
        &self,
        session: &mut Session,
        name: &[u8],
        rules: &[&[u8]],
    ) -> Result<(), Vec<u8>> {
        let (before, after) = self.access.change(|users| {
            let before = users.shared(name);
            users.set_user(name, rules).map(|()| (before, users.shared(name)))
        })?;
        let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
        if after.keeps_channels_of(&before) {
            return Ok(());
        }
        let losers = self
            .pubsub
            .subscribers_of(|subject, channel| !after.allows_channel(channel, subject == Subject::Pattern));
        self.end_clients(session, |client| {
            client.user_identity.load(Ordering::Acquire) == after.identity() && losers.contains(&client.id)
        });
        Ok(())
    }

    /// Deletes users and ends their clients. How many there were.
    ///
    /// # Errors
    /// The text of the error, without its code; nothing is changed.
    pub(crate) fn delete_users(&self, session: &mut Session, names: &[&[u8]]) -> Result<usize, &'static str> {
        let deleted = self.access.change(|users| {
            let identity = |name: &&[u8]| users.user(name).map(|user| user.identity());
            let identities: Vec<u64> = names.iter().filter_map(identity).collect();
            users.delete_users(names).map(|names| (names.len(), identities))
        });
        let (count, identities) = deleted?;
        self.end_clients(session, |client| {
            identities.contains(&client.user_identity.load(Ordering::Acquire))
        });
        Ok(count)
    }

    /// Ends clients. The caller's own connection ends behind its reply.
    fn end_clients(&self, session: &mut Session, is_meant: impl Fn(&Client) -> bool) {
        for client in self.clients.all().into_iter().filter(|client| is_meant(client)) {
            if client.id == session.id {
                session.closes_after_reply = true;
            } else {
                self.end_client(&client);
            }
        }
    }
}

/// Bytes of a file of users: ten thousand users of a hundred rules.
const FILE_BYTES_MAX: u64 = 64 << 20;

impl Server {
    /// The file of `aclfile`; `None` without that directive.
    pub(crate) fn user_file(&self) -> Option<PathBuf> {
        let path = |name| String::from_utf8_lossy(&self.config.get(name)).into_owned();
        let file = path("aclfile");
        (!file.is_empty()).then(|| PathBuf::from(path("dir")).join(file))
    }

    /// Replaces all users by those of the file of `aclfile`, if that is set: when the server starts.
    ///
    /// # Errors
    /// What is wrong with the file; no user is changed.
    pub fn load_user_file(&self) -> Result<(), String> {
        let Some(path) = self.user_file() else { return Ok(()) };
        self.load_users(&path).map_err(|text| String::from_utf8_lossy(&text).into_owned())
    }

    /// The same while the server runs: clients of all users but the default one are ended.
    ///
    /// # Errors
    /// The text of the error, without its code.
    pub(crate) fn reload_user_file(&self, session: &mut Session, path: &Path) -> Result<(), Vec<u8>> {
        self.load_users(path)?;
        let default = self.access.read(|users| users.user(b"default").map(|user| user.identity()));
        self.end_clients(session, |client| {
            let identity = client.user_identity.load(Ordering::Acquire);
            identity != 0 && Some(identity) != default
        });
        Ok(())
    }

    fn load_users(&self, path: &Path) -> Result<(), Vec<u8>> {
        let text = read_users(path)?;
        self.access.change(|users| users.load(&text, path.as_os_str().as_encoded_bytes()))
    }

    /// Writes all users into the file of `aclfile`: beside it first, so that a crash leaves either whole.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn save_users(&self, path: &Path) -> esker::Result<()> {
        let text = self.access.read(Users::save);
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".tmp-{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let files = StdFileSystem;
        let written = files.open(&beside, OpenMode::CreateOrTruncate).and_then(|file| {
            file.write_at(&text, 0)?;
            file.sync_all()
        });
        let renamed = written.and_then(|()| files.rename(&beside, path));
        if renamed.is_err() {
            // What is left is of no use; the error that led here is the one to tell.
            let _left = files.remove_file(&beside);
        }
        renamed?;
        files.sync_dir(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(".".as_ref()))
    }

    /// Sets the users of `user` lines of a configuration, each as its words behind `user`: before the server
    /// starts. Users that were kept with the data are replaced.
    ///
    /// # Errors
    /// The number of the wrong line, counted from 0, and what is wrong with it.
    pub fn declare_users<W: AsRef<[u8]>>(&self, lines: &[Vec<W>]) -> Result<(), (usize, String)> {
        let all_channels = self.config.get("acl-pubsub-default") == b"allchannels";
        let declared = Users::declared(lines, all_channels)
            .map_err(|(line, text)| (line, String::from_utf8_lossy(&text).into_owned()))?;
        let is_default = |words: &Vec<W>| words.first().is_some_and(|name| name.as_ref() == b"default");
        let password = self.config.get("requirepass");
        self.access.change(|users| {
            *users = declared;
            if !password.is_empty() && !lines.iter().any(is_default) {
                users.set_default_password(Some(&password));
            }
        });
        Ok(())
    }
}

/// The text of a file of users; the error is the text of a reply.
pub(crate) fn read_users(path: &Path) -> Result<Vec<u8>, Vec<u8>> {
    read(path).map_err(|error| {
        format!("Error loading ACLs, opening file '{}': {error}", path.display()).into_bytes()
    })
}

fn read(path: &Path) -> esker::Result<Vec<u8>> {
    let file = StdFileSystem.open(path, OpenMode::Read)?;
    let length = file.len()?;
    if length > FILE_BYTES_MAX {
        let text = format!("the file has {length} bytes, and at most {FILE_BYTES_MAX} are read");
        return Err(esker::Error::InvalidArgument(text.into()));
    }
    let mut text = vec![0; length as usize];
    file.read_exact_at(&mut text, 0)?;
    Ok(text)
}
