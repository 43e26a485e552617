//! Operations of the workload, each with what its success, or its failure, guarantees.

use super::guaranteed::GuaranteedState;
use crate::follower::CONSUMER;
use crate::ingest::{LoadMethod, table_edits, without_merge, write_tables};
use crate::options::KEYSPACE;
use crate::runner::{DIR, PlainChange, key_bounds, put_into};
use crate::script::{Action, Edit, Op, WriteMethod};
use crate::{Key, SPACES};
use esker::ingest::IngestOptions;
use esker::parts::StepBackground;
use esker::parts::env::Env;
use esker::{Database, Durability, Error, Keyspace, KeyspaceOptions, TransactionOptions};
use std::collections::BTreeSet;
use std::path::Path;

/// Carries out an operation, and notes what it guarantees.
pub(super) fn step(db: &Database, env: &Env, op: &Op, guaranteed: &mut GuaranteedState) -> esker::Result<()> {
    match op {
        Op::Write { edits, how, durability } => write_edits(db, edits, *how, *durability, guaranteed),
        Op::Join { space, edits, load_method } => {
            let edits: Vec<_> = edits.iter().map(|(key, action)| (*key, without_expiry(*action))).collect();
            let changes = loaded_changes(*space, &edits, *load_method);
            let joined = join(db, env, *space, &edits, *load_method);
            guaranteed.note(&changes, joined.is_ok());
            joined.map(|()| guaranteed.settle())
        }
        Op::Flush => db.flush().map(|()| guaranteed.settle_all()),
        Op::Sync => db.sync().map(|()| guaranteed.settle_all()),
        Op::Compact { space, lower, upper } => match db.open_keyspace(SPACES[usize::from(*space)]) {
            Ok(keyspace) => keyspace.compact(key_bounds(lower, upper)),
            Err(_) => Ok(()),
        },
        Op::DropKeyspace(space) => match db.drop_keyspace(SPACES[usize::from(*space)]) {
            // The default keyspace cannot be dropped.
            Err(Error::NotFound(_) | Error::InvalidArgument(_)) => Ok(()),
            dropped => {
                guaranteed.note_drop(usize::from(*space), dropped.is_ok());
                dropped.map(|()| guaranteed.settle())
            }
        },
        // A rename to the same name changes nothing.
        Op::RenameKeyspace { from, to } if from == to => Ok(()),
        Op::RenameKeyspace { from, to } => {
            let (from, to) = (usize::from(*from), usize::from(*to));
            match db.rename_keyspace(SPACES[from], SPACES[to]) {
                // After a drop that failed the name may be taken.
                Err(Error::NotFound(_) | Error::InvalidArgument(_)) => Ok(()),
                renamed => {
                    guaranteed.note_rename(from, to, renamed.is_ok());
                    renamed.map(|()| guaranteed.settle())
                }
            }
        }
        Op::SetOptions { space, options } => match db.open_keyspace(SPACES[usize::from(*space)]) {
            Ok(keyspace) => {
                match keyspace.update_options(|_| options.apply(KEYSPACE, KeyspaceOptions::default())) {
                    // The merge operator stays what it is.
                    Err(Error::InvalidArgument(_)) => Ok(()),
                    set => set.map(|_| ()),
                }
            }
            Err(_) => Ok(()),
        },
        Op::Follow { acknowledge, .. } => follow(db, *acknowledge),
        Op::Drain => db.drain(),
        Op::Step(count) => {
            (0..*count).for_each(|_| {
                db.step_background();
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Writes edits, and notes what that guarantees.
fn write_edits(
    db: &Database,
    edits: &[Edit],
    how: WriteMethod,
    durability: Durability,
    guaranteed: &mut GuaranteedState,
) -> esker::Result<()> {
    let changes = guaranteed.changes(edits);
    let written = match how {
        WriteMethod::Transaction => transact(db, &changes, durability),
        _ => write(db, edits, durability),
    };
    let spaces: BTreeSet<usize> = changes.iter().map(|(space, ..)| *space).collect();
    // Batches over keyspaces are logged, and all while there are consumers.
    let is_logged = durability != Durability::None || spaces.len() > 1 || !db.consumers().is_empty();
    guaranteed.note_written(&changes, written.is_ok(), is_logged);
    if written.is_ok() && durability == Durability::Power && how != WriteMethod::Try {
        guaranteed.settle();
    }
    written
}

/// Reads the change stream to its end and acknowledges it if told so.
fn follow(db: &Database, acknowledge: bool) -> esker::Result<()> {
    let consumer = match db.consumer(CONSUMER) {
        Err(Error::NotFound(_)) => db.create_consumer(CONSUMER)?,
        found => found?,
    };
    let mut changes = match consumer.changes() {
        Err(Error::HistoryGone(_)) => return db.drop_consumer(CONSUMER),
        changes => changes?,
    };
    while let Some(batch) = changes.try_next()? {
        if acknowledge {
            consumer.acknowledge(batch.last_seqno())?;
        }
    }
    Ok(())
}

/// The same edit without an expiry.
fn without_expiry(action: Action) -> Action {
    match without_merge(action) {
        Action::PutFor(value, _) => Action::Put(value),
        other => other,
    }
}

/// The changes of an ingest or a bulk load; of a key that comes twice the last edit counts, in both.
fn loaded_changes(space: u8, edits: &[(Key, Action)], load_method: LoadMethod) -> Vec<PlainChange> {
    let is_load = matches!(load_method, LoadMethod::BulkLoad { .. });
    let kept = edits.iter().filter(|(_, action)| !is_load || matches!(action, Action::Put(_))).copied();
    let last = table_edits(&kept.collect::<Vec<_>>());
    let value = |action| if let Action::Put(value) = action { Some(value.bytes()) } else { None };
    last.into_iter().map(|(key, action)| (usize::from(space), key, value(action))).collect()
}

/// The keyspace of a number, with memtables so small that a few writes fill them.
fn open_or_create(db: &Database, space: usize) -> esker::Result<Keyspace> {
    db.keyspace_with(SPACES[space], KeyspaceOptions::default().write_buffer_size(4 << 10))
}

fn join(
    db: &Database,
    env: &Env,
    space: u8,
    edits: &[(Key, Action)],
    load_method: LoadMethod,
) -> esker::Result<()> {
    let keyspace = open_or_create(db, space.into())?;
    match load_method {
        LoadMethod::Tables { tables, mode } => {
            let edits = table_edits(edits);
            let paths = write_tables(env, Path::new(DIR), &keyspace.options(), &edits, tables, |_| 0)?;
            keyspace.ingest(paths, IngestOptions::new().mode(mode))?;
        }
        LoadMethod::BulkLoad { sort_memory } => {
            let mut loader = keyspace.bulk_load()?.sort_memory(sort_memory.into());
            for (key, action) in edits {
                if let Action::Put(value) = action {
                    loader.add(key.bytes(), value.bytes())?;
                }
            }
            loader.finish()?;
        }
    }
    Ok(())
}

fn write(db: &Database, edits: &[Edit], durability: Durability) -> esker::Result<()> {
    let mut batch = db.batch();
    for edit in edits {
        let keyspace = open_or_create(db, edit.space.into())?;
        put_into(&mut batch, &keyspace, edit);
    }
    db.write_with(&batch, durability).map(drop)
}

fn transact(db: &Database, changes: &[PlainChange], durability: Durability) -> esker::Result<()> {
    db.transact_with(TransactionOptions::default().durability(durability), |tx| {
        for (space, key, value) in changes {
            let keyspace = open_or_create(db, *space)?;
            tx.get(&keyspace, key)?;
            match value {
                Some(value) => tx.put(&keyspace, key, value)?,
                None => tx.delete(&keyspace, key)?,
            }
        }
        Ok(())
    })
}
