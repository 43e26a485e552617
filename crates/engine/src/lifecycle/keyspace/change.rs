//! Keyspace changes: creation, renaming, options, dropping.
//!
//! Each change is one edit of the manifest, made under its lock: durable first, then visible (IN2). No flush
//! or compaction installs meanwhile, because installing takes the same lock.
//!
//! # Dropping (WL5)
//! 1. Under the commit lock the keyspace's writable side is removed: a batch that names it is refused as a
//!    whole, before it has consumed anything, and no new memtable of it is sealed. If a later step fails it
//!    is restored.
//! 2. The log is made durable up to that point. Otherwise a user that copies a keyspace into another and
//!    drops the first could lose both to a power cut: the drop would be durable, the copy not.
//! 3. The edit is made durable. It no longer counts the keyspace's memtables among what needs old segments of
//!    the log; replay skips their records, because the id was dropped.
//! 4. The keyspace is marked as dropped, then its view becomes an empty one. A call that finds the empty view
//!    finds the mark too, and returns `NotFound`; so do later calls, also those at an older snapshot. A
//!    reader with the old view (an open cursor or range) continues, and memtables and tables stay until the
//!    last of those is dropped (IN3).
//! 5. A running flush or compaction finds the mark while it writes, or finds under the manifest's lock that
//!    the keyspace is gone; it deletes its output and reports nothing.

use crate::background::install;
use crate::background::install::FlushedMemtables;
use crate::background::install_options;
use crate::background::kept_tables::KeptTables;
use crate::background::migration;
use crate::background::targets;
use crate::lifecycle::new_keyspace::NewKeyspace;
use crate::state::commit_state::ActiveKeyspace;
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::store::{Store, Writing};
use crate::write::commit;
use crate::write::memory_arbiter;
use crate::write::switch_memtable::stub_memtable;
use esker_base::limits::MAX_KEYSPACE_NAME_LEN;
use esker_base::{Error, KeyspaceId, Result};
use esker_options::DEFAULT_KEYSPACE;
use esker_options::{Event, FileReason, KeyspaceOptions};
use esker_version::{EditOp, VersionEdit};
use esker_view::SuperVersion;
use esker_view::semantics::Semantics;
use esker_view::tree::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Creates a keyspace; see [`create_keyspaces`].
pub fn create_keyspace(store: &Store, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceState>> {
    let created = create_keyspaces(store, vec![(name.into(), options)])?;
    created.into_iter().next().ok_or_else(|| Error::internal("a keyspace was created and is not there"))
}

/// Creates keyspaces by one edit, and returns them with those of the names that existed. They are durable
/// before their first use (WL5): a record that names one can always be replayed.
pub fn create_keyspaces(
    store: &Store,
    wanted: Vec<(Arc<str>, KeyspaceOptions)>,
) -> Result<Vec<Arc<KeyspaceState>>> {
    for (name, options) in &wanted {
        options.validate()?;
        options.check_supplied(name)?;
        check_name(name)?;
    }
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    let mut installed = writing.manifest.lock();
    let mut all = Vec::with_capacity(wanted.len());
    let mut new = NewKeyspaces { id: installed.state.next_keyspace, ..NewKeyspaces::default() };
    for (name, options) in wanted {
        let existing = store.find_keyspace(&name).or_else(|| new.by_name.get(&name).cloned());
        all.push(match existing {
            Some(existing) => existing,
            None => new.make(store, name, options)?,
        });
    }
    if new.active.is_empty() {
        return Ok(all);
    }
    install::make_durable(store, writing, &mut installed, &new.edit)?;
    let created: Vec<_> = new.active.iter().map(|active| Arc::clone(&active.keyspace)).collect();
    {
        let mut state = writing.commit.lock();
        new.active.into_iter().for_each(|active| state.add_keyspace(active));
    }
    for keyspace in &created {
        store.keyspaces.write().add(keyspace);
        store.events.emit(|| Event::KeyspaceCreated(keyspace.event_ref()));
    }
    // Without a target of their own they change nothing about the reuse of segments.
    if created.iter().any(|keyspace| keyspace.options().delete_within.is_some()) {
        targets::settle_log_reuse(store);
    }
    Ok(all)
}

/// Keyspaces that one edit creates.
#[derive(Default)]
struct NewKeyspaces {
    /// The id of the next one.
    id: KeyspaceId,
    edit: VersionEdit,
    by_name: BTreeMap<Arc<str>, Arc<KeyspaceState>>,
    active: Vec<ActiveKeyspace>,
}

impl NewKeyspaces {
    fn make(
        &mut self,
        store: &Store,
        name: Arc<str>,
        options: KeyspaceOptions,
    ) -> Result<Arc<KeyspaceState>> {
        // A migration mark names files of another keyspace.
        let options = KeyspaceOptions { switch: None, ..options };
        let id = self.id;
        self.id = id.next();
        self.edit.push(EditOp::CreateKeyspace {
            id,
            name: Arc::clone(&name),
            options: options.encode().into(),
        });
        store.files.set_reading(id, options.table_reading());
        let semantics = Semantics::new(&store.time, store.memory.budget_bytes, options.operand_merger(&name));
        let tree = Arc::new(Tree::new(id, Arc::default(), &store.files));
        let new = NewKeyspace { id, name: Arc::clone(&name), options, tree, sealed: Vec::new(), semantics };
        let (keyspace, active) = new.activate(&store.memory, &store.arenas, &store.scheduler)?;
        self.by_name.insert(name, Arc::clone(&keyspace));
        self.active.push(active);
        Ok(keyspace)
    }
}

/// Renames a keyspace.
pub fn rename_keyspace(store: &Store, from: &str, to: &str) -> Result<()> {
    check_name(to)?;
    if from == DEFAULT_KEYSPACE {
        return Err(Error::invalid(format!("keyspace {DEFAULT_KEYSPACE:?} keeps its name")));
    }
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    let mut installed = writing.manifest.lock();
    let keyspace = keyspace_named(store, from)?;
    if from == to {
        return Ok(());
    }
    if store.find_keyspace(to).is_some() {
        return Err(Error::invalid(format!("there is a keyspace {to:?} already")));
    }
    // As for a drop: a user that fills a keyspace and renames it into place must not find the name without
    // the data.
    commit::sync(store)?;
    let to: Arc<str> = to.into();
    let mut edit = VersionEdit::new();
    edit.push(EditOp::RenameKeyspace { id: keyspace.id, name: Arc::clone(&to) });
    install::make_durable(store, writing, &mut installed, &edit)?;
    let before = keyspace.name();
    store.keyspaces.write().rename(&keyspace, &to);
    store.events.emit(|| Event::KeyspaceRenamed { keyspace: keyspace.event_ref(), from: before });
    Ok(())
}

/// Changes the options of a keyspace from `before` to `after`, and returns the tables that keep what was
/// changed; `None` if the options are not `before` any more.
pub fn replace_options(
    store: &Store,
    keyspace: &KeyspaceState,
    before: &Arc<KeyspaceOptions>,
    after: KeyspaceOptions,
) -> Result<Option<KeptTables>> {
    after.validate()?;
    after.check_supplied(&keyspace.name())?;
    before.check_operator_becomes(&after, &keyspace.name())?;
    install_options::change_options(store, keyspace, before, |writing| {
        migration::with_switch(store, writing, keyspace, before, after)
    })
}

/// Drops a keyspace; see the head of this file.
pub fn drop_keyspace(store: &Store, name: &str) -> Result<()> {
    if name == DEFAULT_KEYSPACE {
        return Err(Error::invalid(format!("keyspace {DEFAULT_KEYSPACE:?} cannot be dropped")));
    }
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    let mut installed = writing.manifest.lock();
    let keyspace = keyspace_named(store, name)?;
    // Everything that can fail comes before the edit.
    let empty = empty_view(store, &keyspace)?;
    let withdrawn = WithdrawnKeyspace::new(writing, &keyspace)?;
    commit::sync(store)?;
    let mut edit = VersionEdit::new();
    edit.push(EditOp::DropKeyspace { id: keyspace.id });
    let min_log_id = install::min_log_id(store, writing, &FlushedMemtables::default());
    install::add_counters(store, writing, &mut edit, min_log_id);
    let applied = install::make_durable(store, writing, &mut installed, &edit)?;
    keyspace.definition.note_drop();
    store.files.set_reading(keyspace.id, esker_sst::TableReading::default());
    store.keyspaces.write().remove(&keyspace);
    withdrawn.forget();
    // No seal adds to these any more, and a running flush installs nothing, hence subtracts nothing.
    let sealed: u64 = keyspace.view.load().sealed.iter().map(|memtable| memtable.bytes()).sum();
    store.sealed_memory.note_release(sealed, store.monotonic_ns());
    // Nothing else refers to ingested tables that are not in the manifest yet.
    let sealed = keyspace.view.load();
    let ingested = sealed.sealed.iter().filter_map(|memtable| memtable.ingested.as_ref());
    let waiting: Vec<_> = ingested.flat_map(|run| run.parts.iter()).map(|part| part.file.number()).collect();
    drop(sealed);
    let publishing = keyspace.publication.lock();
    let before = Arc::clone(&keyspace.view.load().tree.version);
    keyspace.view.update(|_| empty);
    drop(publishing);
    install::emit_changes(store, &keyspace, FileReason::KeyspaceDropped, &before, &edit, &applied);
    drop(before);
    store.events.emit(|| Event::KeyspaceDropped(keyspace.event_ref()));
    drop(installed);
    tracing::info!(
        keyspace = name,
        tables = applied.obsolete_files.len() + waiting.len(),
        "keyspace dropped"
    );
    install::retire_files(store, &applied);
    waiting.into_iter().for_each(|file| store.files.retire(file));
    store.files.forget_watch(keyspace.id);
    if let Err(error) = writing.log.release_below(min_log_id) {
        // The keyspace is dropped all the same; the next install tries again, and reports it.
        tracing::warn!(%error, "log segments that the dropped keyspace needed could not be released");
    }
    memory_arbiter::rebalance_memory(store);
    store.scheduler.request(WorkerPool::Log);
    store.scheduler.announce_progress();
    Ok(())
}

fn keyspace_named(store: &Store, name: &str) -> Result<Arc<KeyspaceState>> {
    let found = store.find_keyspace(name);
    found.ok_or_else(|| Error::NotFound(format!("there is no keyspace {name:?}").into()))
}

fn empty_view(store: &Store, keyspace: &KeyspaceState) -> Result<SuperVersion> {
    let (active, _) = stub_memtable(keyspace.options().memtable, &store.arenas)?;
    Ok(SuperVersion {
        active,
        sealed: Vec::new(),
        tree: Arc::new(Tree::new(keyspace.id, Arc::default(), &store.files)),
        semantics: Arc::clone(&keyspace.view.load().semantics),
    })
}

/// The writable side of a keyspace that is being dropped; restored unless the drop succeeds.
struct WithdrawnKeyspace<'a> {
    writing: &'a Writing,
    active: Option<Box<ActiveKeyspace>>,
}

impl<'a> WithdrawnKeyspace<'a> {
    fn new(writing: &'a Writing, keyspace: &KeyspaceState) -> Result<WithdrawnKeyspace<'a>> {
        let active = writing.commit.lock().withdraw(keyspace)?;
        Ok(WithdrawnKeyspace { writing, active: Some(active) })
    }

    /// The drop is durable.
    fn forget(mut self) {
        self.active = None;
    }
}

impl Drop for WithdrawnKeyspace<'_> {
    fn drop(&mut self) {
        if let Some(active) = self.active.take() {
            self.writing.commit.lock().put_back(active);
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_KEYSPACE_NAME_LEN {
        let len = name.len();
        return Err(Error::invalid(format!(
            "a keyspace name has 1 to {MAX_KEYSPACE_NAME_LEN} bytes, not {len}"
        )));
    }
    Ok(())
}
