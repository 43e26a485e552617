//! Quarantine while the database is open: damage that a compaction meets, and files that are replaced.

use crate::file_transfer::{Progress, Transfer};
use crate::state::keyspace::KeyspaceState;
use crate::state::quarantine::QuarantinedFile;
use crate::state::scheduler::WorkerPool;
use crate::state::store::{Store, Writing};
use esker_base::{Error, FileNumber, Result};
use esker_options::Event;
use esker_version::{FileKind, LiveFile};
use esker_view::paths;
use esker_view::{SuperVersion, tree::Tree};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends the name of a file that is about to replace a quarantined one. The next open deletes a leftover.
pub const REPLACEMENT_SUFFIX: &str = ".replacement";

/// Sets the file aside in which a compaction has met damage; `false` if the error is another one, the file is
/// set aside already, or the database is not opened for it. From then on plans without it are made.
pub(crate) fn set_aside_damage(store: &Store, keyspace: &KeyspaceState, error: &Error) -> bool {
    let Some((kind, number)) = damaged_file(error).filter(|_| store.quarantine.is_on()) else { return false };
    let view = keyspace.view.load();
    let is_in_tree = match kind {
        FileKind::Table => view.tree.parts().any(|part| part.file.number() == number),
        FileKind::Blob => view.tree.large.iter().any(|file| file.meta().number == number),
    };
    let file = QuarantinedFile {
        number,
        kind,
        keyspace: keyspace.id,
        path: paths::data(&store.dir, kind, number),
        cause: error.clone(),
        is_refused: false,
    };
    is_in_tree && store.quarantine.add(file.clone()) && {
        announce(store, keyspace, &file);
        true
    }
}

/// Tells listeners and the log, and keeps the file out of merges.
pub fn announce(store: &Store, keyspace: &KeyspaceState, file: &QuarantinedFile) {
    tracing::error!(path = %file.path.display(), cause = %file.cause, "a damaged file is quarantined");
    keyspace.jobs.change_set_aside(store.quarantine.set_aside(keyspace.id));
    store.events.emit(|| Event::FileQuarantined {
        keyspace: keyspace.event_ref(),
        file: file.number,
        kind: file.kind,
        cause: file.cause.clone(),
    });
}

/// The table or blob file that an error is about.
fn damaged_file(error: &Error) -> Option<(FileKind, FileNumber)> {
    let path: &PathBuf = match error {
        Error::Corruption(corruption) => &corruption.file,
        Error::Quarantined(range) => &range.file,
        Error::Io(failure) if error.is_not_found() => &failure.path,
        _ => return None,
    };
    paths::parse_data(path.file_name()?.to_str()?)
}

/// The error of the first quarantined file of a keyspace, for what cannot be done without it.
pub fn error_of(store: &Store, keyspace: &KeyspaceState) -> Option<Error> {
    let files = store.quarantine.files();
    let file = files.into_iter().find(|file| file.keyspace == keyspace.id)?;
    Some(file.cause.in_keyspace(&keyspace.name()))
}

/// Puts a copy of `source` in the place of a quarantined file, after `check` has read all of the copy: its
/// identity, its length, every checksum and the order of its entries. Its keys can be read when this returns.
///
/// # Errors
/// Damage of the source, or that it is another file; then nothing has changed. `NotFound` if the file is not
/// quarantined.
pub fn replace(
    store: &Store,
    number: FileNumber,
    source: &Path,
    check: impl FnOnce(&Path, &LiveFile) -> Result<()>,
) -> Result<()> {
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    let _one_at_a_time = store.quarantine.replacing.lock();
    let not_quarantined = || Error::NotFound(format!("file {number} is not quarantined").into());
    let file = store.quarantine.file(number).ok_or_else(not_quarantined)?;
    let live = writing.manifest.lock().state.live_files().remove(&number);
    let live = live.filter(|live| live.kind == file.kind).ok_or_else(not_quarantined)?;
    let mut name = file.path.clone().into_os_string();
    name.push(REPLACEMENT_SUFFIX);
    let copied = PathBuf::from(name);
    let fs = &*store.env.fs;
    if fs.file_len(&copied)?.is_some() {
        fs.remove_file(&copied)?;
    }
    let transfer = Transfer { from: fs, to: fs };
    transfer.copy(source, &copied, live.bytes, &mut Progress::new(live.bytes, &mut |_| {}))?;
    let replaced = check(&copied, &live)
        .map_err(|error| about_source(error, source))
        .and_then(|()| put_in_place(store, writing, &file, &copied));
    if replaced.is_err() {
        let _ = fs.remove_file(&copied);
    }
    replaced
}

/// What is wrong with a copy is wrong with what it was copied from.
fn about_source(error: Error, source: &Path) -> Error {
    match error {
        Error::Corruption(mut corruption) => {
            corruption.file = source.to_path_buf();
            Error::Corruption(corruption)
        }
        other => other,
    }
}

/// Gives the checked copy its name and lifts the quarantine. Under the lock of the manifest, so that the file
/// cannot leave the tree meanwhile.
fn put_in_place(store: &Store, writing: &Writing, file: &QuarantinedFile, copied: &Path) -> Result<()> {
    let fs = &*store.env.fs;
    let installed = writing.manifest.lock();
    let keyspaces = store.all_keyspaces();
    let keyspace = keyspaces.iter().find(|keyspace| keyspace.id == file.keyspace);
    let is_live = installed.state.live_files().contains_key(&file.number);
    let Some(keyspace) = keyspace.filter(|_| is_live) else {
        store.quarantine.remove(file.number);
        return Err(Error::NotFound(
            format!("file {} is no part of a keyspace any more", file.number).into(),
        ));
    };
    fs.rename(copied, &file.path)?;
    fs.sync_dir(&paths::tables(&store.dir))?;
    lift(keyspace, file);
    store.quarantine.remove(file.number);
    keyspace.jobs.change_set_aside(store.quarantine.set_aside(keyspace.id));
    drop(installed);
    tracing::info!(path = %file.path.display(), "a quarantined file was replaced");
    store.events.emit(|| Event::FileReplaced {
        keyspace: keyspace.event_ref(),
        file: file.number,
        kind: file.kind,
    });
    store.scheduler.request(WorkerPool::Compaction);
    Ok(())
}

/// Publishes a tree with the file anew (QU2).
fn lift(keyspace: &KeyspaceState, file: &QuarantinedFile) {
    let publishing = keyspace.publication.lock();
    let tree = Arc::clone(&keyspace.view.load().tree);
    let closed: Vec<_> = match file.kind {
        FileKind::Table => {
            let mut parts = tree.parts().filter(|part| part.file.number() == file.number);
            parts.next().map(|part| part.file.identity().begin_anew()).into_iter().collect()
        }
        FileKind::Blob => {
            let blobs = tree.large.iter().filter(|blob| blob.meta().number == file.number);
            for blob in blobs {
                blob.begin_anew();
            }
            Vec::new()
        }
    };
    let tree: Arc<Tree> = Arc::new(tree.renewed());
    keyspace.view.update(|view| SuperVersion { tree, ..view.clone() });
    drop(publishing);
    drop(closed);
}
