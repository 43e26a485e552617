//! A stream waits for the next batch (CS1 in `changes`): the flag under the commit lock, and the
//! notification.

use super::{check_with_mutants, lock};
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

/// A broken order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// The count of notifications is read after the flag was set.
    CountLate,
    /// The flag is set without another check.
    NoLook,
    /// The writer notifies without having found the flag under the lock of its publication.
    FlagReadEarly,
    /// Closing does not notify.
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
    notifications: Mutex<u64>,
}

impl Model {
    fn notify(&self) {
        *lock(&self.notifications) += 1;
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
            self.notify();
        }
    }

    fn close(&self, mutant: Option<Mutant>) {
        lock(&self.commit).closed = true;
        if mutant != Some(Mutant::SilentClose) {
            self.notify();
        }
    }

    /// `Changes::next_timeout` after lingering: the batch after `seqno`, or `None` once closed.
    fn next(&self, seqno: u64, writer: &mut Option<JoinHandle<()>>, mutant: Option<Mutant>) -> Option<u64> {
        loop {
            let mut notifications = *lock(&self.notifications);
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
                notifications = *lock(&self.notifications);
            }
            // Asleep until a notification: at the latest when the writer has done everything.
            if *lock(&self.notifications) == notifications {
                if let Some(writer) = writer.take() {
                    assert!(writer.join().is_ok());
                }
                assert_ne!(*lock(&self.notifications), notifications, "asleep for ever");
            }
        }
    }
}

/// A writer that publishes this many batches, and closes the database or not, concurrent with a stream that
/// waits for all of it.
fn follow(batches: u64, closes: bool, mutant: Option<Mutant>) {
    let model = Arc::new(Model::default());
    let mut writer = Some({
        let model = Arc::clone(&model);
        thread::spawn(move || {
            (0..batches).for_each(|_| model.publish(mutant));
            if closes {
                model.close(mutant);
            }
        })
    });
    let mut seqno = 0;
    while closes || seqno < batches {
        match model.next(seqno, &mut writer, mutant) {
            Some(next) => seqno = next,
            None => break,
        }
    }
    assert_eq!(seqno, batches);
    if let Some(writer) = writer {
        assert!(writer.join().is_ok());
    }
}

#[test]
fn no_batch_is_missed() {
    let mutants = [Mutant::CountLate, Mutant::NoLook, Mutant::FlagReadEarly];
    check_with_mutants(|mutant| follow(2, false, mutant), &mutants);
}

#[test]
fn closing_wakes() {
    check_with_mutants(|mutant| follow(1, true, mutant), &[Mutant::SilentClose]);
}
