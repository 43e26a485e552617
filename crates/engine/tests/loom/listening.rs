//! A stream waits for the next batch (CS1 in `changes`): the flag under the commit lock, the bell behind it.

use super::{check_with_mutants, lock};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// An order that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// The count of rings is taken after the flag was raised.
    CountLate,
    /// The flag is raised without another look.
    NoLook,
    /// The writer rings without having found the flag under the lock of its publication.
    FlagReadEarly,
    /// Closing does not ring.
    SilentClose,
}

#[derive(Default)]
struct Commit {
    visible: u64,
    has_listeners: bool,
    closed: bool,
}

#[derive(Default)]
struct Model {
    commit: Mutex<Commit>,
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Model {
    fn ring(&self) {
        *lock(&self.rings) += 1;
        self.rung.notify_all();
    }

    /// `Store::commit_if`, from the order on.
    fn publish(&self, mutant: Option<Mutant>) {
        let early = lock(&self.commit).has_listeners;
        let mut commit = lock(&self.commit);
        commit.visible += 1;
        let found = match mutant {
            Some(Mutant::FlagReadEarly) => early,
            _ => commit.has_listeners,
        };
        commit.has_listeners = false;
        drop(commit);
        if found {
            self.ring();
        }
    }

    fn close(&self, mutant: Option<Mutant>) {
        lock(&self.commit).closed = true;
        if mutant != Some(Mutant::SilentClose) {
            self.ring();
        }
    }

    /// `Changes::next_timeout` that has lingered: the batch after `seqno`, or `None` once closed.
    fn next(&self, seqno: u64, mutant: Option<Mutant>) -> Option<u64> {
        loop {
            let mut rings = *lock(&self.rings);
            {
                let commit = lock(&self.commit);
                if commit.visible > seqno {
                    return Some(seqno + 1);
                }
                if commit.closed {
                    return None;
                }
            }
            {
                let mut commit = lock(&self.commit);
                let is_up_to_date = commit.visible == seqno && !commit.closed;
                if !is_up_to_date && mutant != Some(Mutant::NoLook) {
                    continue;
                }
                commit.has_listeners = true;
            }
            if mutant == Some(Mutant::CountLate) {
                rings = *lock(&self.rings);
            }
            let mut now = lock(&self.rings);
            while *now == rings {
                now = self.rung.wait(now).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    }
}

/// A lost ring is a deadlock, which the checker reports.
#[test]
fn no_batch_is_missed_and_closing_wakes() {
    let model = |mutant: Option<Mutant>| {
        let model = Arc::new(Model::default());
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                model.publish(mutant);
                model.publish(mutant);
                model.close(mutant);
            })
        };
        let mut seqno = 0;
        while let Some(next) = model.next(seqno, mutant) {
            seqno = next;
        }
        assert_eq!(seqno, 2);
        assert!(writer.join().is_ok());
    };
    let mutants = [Mutant::CountLate, Mutant::NoLook, Mutant::FlagReadEarly, Mutant::SilentClose];
    check_with_mutants(model, &mutants);
}
