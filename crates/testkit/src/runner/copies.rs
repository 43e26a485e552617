//! Copies are made while the database is open; each is opened and compared with the oracle.

use super::{Mark, Runner, content::read_all};
use crate::oracle::difference;
use crate::script::CopyMethod;
use crate::{Moment, Outcome, SPACES, ensure};
use esker::backup::{BackupId, Backups, Retention};
use esker::{Database, Durability, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};

/// Most backups that are kept.
const KEPT_BACKUPS: usize = 3;

impl Runner {
    pub(super) fn copy(&mut self, method: CopyMethod) -> Outcome {
        // An open stream with something to read: what a copy flushes and releases, it must not lose.
        let db = self.db()?.clone();
        let is_followed = match &mut self.follower {
            Some(follower) => follower.hold_stream(&db)?,
            None => false,
        };
        match method {
            CopyMethod::Checkpoint => self.checkpoint(),
            CopyMethod::Backup => self.backup(),
            CopyMethod::Restore(which) => self.restore(usize::from(which)),
            CopyMethod::Export => self.export(),
        }?;
        if is_followed { self.follow(false, Durability::Process, false) } else { Ok(()) }
    }

    fn checkpoint(&self) -> Outcome {
        let target = self.beside("checkpoint");
        let now = self.now()?;
        self.db()?.checkpoint(&target)?;
        self.check_copy(&target, now.commit)
    }

    fn backup(&mut self) -> Outcome {
        let (commit, backups) = (self.oracle.now(), self.backups_in());
        // Before the copy, what is in memory is flushed.
        let report = self.db()?.backup(&backups)?;
        self.mark(Mark::Powered, commit);
        self.backups.push((report.id, commit));
        let verified = backups.verify(report.id)?;
        ensure!(verified.is_clean(), "a fresh backup is damaged: {verified:?}");
        if self.backups.len() > KEPT_BACKUPS {
            let removed = backups.retain(Retention::keep_last(KEPT_BACKUPS))?;
            let removed: Vec<BackupId> = removed.iter().map(|backup| backup.id).collect();
            self.backups.retain(|(id, _)| !removed.contains(id));
        }
        let listed: Vec<BackupId> = backups.list()?.iter().map(|backup| backup.id).collect();
        let expected: Vec<BackupId> = self.backups.iter().map(|(id, _)| *id).collect();
        ensure!(listed == expected, "backups {listed:?}, made and kept were {expected:?}");
        Ok(())
    }

    fn restore(&self, which: usize) -> Outcome {
        let Some((id, commit)) = self.backups.get(which % self.backups.len().max(1)) else { return Ok(()) };
        let target = self.beside("restored");
        self.backups_in().restore(*id, &target)?;
        self.check_copy(&target, *commit)
    }

    /// Exports every keyspace, and imports that into another database.
    fn export(&self) -> Outcome {
        let keyspaces: Vec<_> = self.spaces.iter().flatten().cloned().collect();
        let now = self.now()?;
        let mut bytes = Vec::new();
        let report = self.db()?.export(&keyspaces, &mut bytes, |_| {})?;
        let target = self.beside("imported");
        let plain = Options::default().env(self.env.clone()).keyspace_options(KeyspaceOptions::default());
        let db = Database::open_with(&target, plain.memory_budget(8 << 20))?;
        let imported = db.import(&mut bytes.as_slice(), |_| {})?;
        ensure!(imported.entries == report.entries, "{} of {} imported", imported.entries, report.entries);
        // The other database may be younger: what had expired for the export is not in it.
        self.check_open_copy(&db, now.commit, now.time_ms)?;
        db.close()?;
        drop(db);
        Ok(self.env.fs.remove_dir_all(&target)?)
    }

    /// Opens a copy with the plan's options, compares it with the state after a commit, and removes it.
    fn check_copy(&self, target: &Path, commit: usize) -> Outcome {
        let db = Database::open_with(target, Runner::options(&self.plan, self.env.clone()))?;
        self.check_open_copy(&db, commit, 0)?;
        let report = db.verify()?;
        ensure!(report.is_clean(), "verify found damage in {}: {:?}", target.display(), report.damage);
        db.default_keyspace().put(b"k", b"in the copy alone")?;
        db.close()?;
        drop(db);
        Ok(self.env.fs.remove_dir_all(target)?)
    }

    fn check_open_copy(&self, db: &Database, commit: usize, since_ms: u64) -> Outcome {
        let found = read_all(db, None)?;
        let time_ms = crate::unix_ms(db.now()).max(since_ms);
        let expected = self.oracle.content(Moment { commit, time_ms });
        ensure!(found == expected, "a copy after commit {commit}: {}", difference(&found, &expected));
        let id = |name: &str| SPACES.iter().position(|known| *known == name);
        ensure!(db.keyspaces().iter().all(|name| id(name).is_some()), "keyspaces {:?}", db.keyspaces());
        Ok(())
    }

    fn backups_in(&self) -> Backups {
        Backups::with_env(self.beside("backups"), self.env.clone())
    }

    /// A path next to the first directory of the database.
    pub(super) fn beside(&self, what: &str) -> PathBuf {
        self.home.with_extension(what)
    }
}
