//! Callbacks that panic: the panic reaches the caller, nothing has changed, and the database goes on.

use super::{Mark, Runner};
use crate::oracle::Written;
use crate::script::Call;
use crate::{Failure, Outcome, ensure};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What a callback panics with.
const MESSAGE: &str = "a callback of the script";

/// The key that a destructor deletes.
const NEVER_THERE: &[u8] = b"never there";

/// Panics without the message that a hook would print.
fn panic() -> ! {
    resume_unwind(Box::new(MESSAGE))
}

impl Runner {
    pub(super) fn panic_in(&mut self, call: Call, space: usize, key: &[u8]) -> Outcome {
        let Some(keyspace) = self.spaces[space].clone() else { return Ok(()) };
        let keyspace = &keyspace;
        if call == Call::Destructor {
            self.mark(Mark::Begun, self.oracle.now() + 1);
        }
        let db = self.db()?;
        let outcome = catch_unwind(AssertUnwindSafe(|| -> esker::Result<()> {
            match call {
                Call::Update => keyspace.fetch_update(key, |_| panic()).map(drop),
                Call::Read => keyspace.get_with(key, |_| panic()),
                Call::Options => keyspace.update_options(|_| panic()).map(|_| ()),
                Call::Transaction => db.transact(|transaction| {
                    transaction.put(keyspace, key, b"of a transaction that panics")?;
                    panic()
                }),
                Call::BulkLoad => {
                    let mut loader = keyspace.bulk_load()?;
                    loader.add(key, b"of a load that panics")?;
                    panic()
                }
                Call::Export => {
                    db.export(std::slice::from_ref(keyspace), &mut Vec::new(), |_| panic()).map(drop)
                }
                Call::Checkpoint => db.checkpoint_with(self.beside("panicked"), |_| panic()).map(drop),
                Call::Destructor => {
                    let _puts = PutsOnDrop(keyspace);
                    panic()
                }
            }
        }));
        match outcome {
            // A copy of nothing tells no progress.
            Ok(Ok(())) if call == Call::Checkpoint => self.env.fs.remove_dir_all(&self.beside("panicked"))?,
            Ok(returned) => {
                return Err(Failure::new(format!("{call:?} returned {returned:?} instead of panicking")));
            }
            Err(payload) => {
                ensure!(payload.downcast_ref::<&str>() == Some(&MESSAGE), "{call:?} panicked by itself");
            }
        }
        ensure!(db.metrics().read_only_cause.is_none(), "a panic in {call:?} poisoned the database");
        if call == Call::Destructor {
            // It changes no content, and transactions that depend on the key meet it.
            let commit = self.oracle.commit(&[(space, NEVER_THERE.to_vec(), Written::Delete)]);
            self.mark(Mark::Acknowledged, commit);
        }
        Ok(())
    }
}

/// Writes while a panic unwinds: a key that was never there is deleted, so the content stays.
struct PutsOnDrop<'a>(&'a esker::Keyspace);

impl Drop for PutsOnDrop<'_> {
    fn drop(&mut self) {
        let written = self.0.delete(NEVER_THERE);
        assert!(written.is_ok(), "a write in a destructor during a panic: {written:?}");
    }
}
