//! Events: what listeners are told, in which order, and what a listener may do.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

#[path = "../common/mod.rs"]
mod common;
mod delivery;
mod figures;

use common::{key, tiny, value};
use esker::events::Event;
use esker::parts::env::fault::{FaultFs, StrictFs};
use esker::parts::env::{Background, Env};
use esker::{Database, Options};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The longest wait for an event that must come; longer than any run takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options whose events go to a channel.
fn watched() -> (Options, Receiver<Event>) {
    let (sender, events) = channel();
    (Options::default().keyspace_options(tiny()).listener(forwarding(sender)), events)
}

/// A listener that forwards events, also when the receiver is gone.
fn forwarding(sender: Sender<Event>) -> Arc<dyn esker::events::EventListener> {
    Arc::new(move |event: &Event| {
        let _ = sender.send(event.clone());
    })
}

/// Opens a database in memory whose background work is stepped.
fn open_stepped(options: Options) -> (Database, FaultFs) {
    let faults = FaultFs::over_strict(StrictFs::new());
    let env = Env::simulated(Arc::new(faults.clone()), 1);
    (Database::open_with("/db", options.env(env)).unwrap(), faults)
}

/// Opens a database in memory whose background work has threads, with a clock that stands still.
fn open_threaded(options: Options) -> (Database, FaultFs) {
    let faults = FaultFs::over_strict(StrictFs::new());
    let env = Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) };
    (Database::open_with("/db", options.env(env)).unwrap(), faults)
}

fn fill(db: &Database, entries: u64, round: u64) {
    for number in 0..entries {
        db.default_keyspace().put(key(number), value(number, round)).unwrap();
    }
}

/// The next event that is so.
fn wait_for(events: &Receiver<Event>, is_it: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = events.recv_timeout(PATIENCE).expect("the event comes");
        if is_it(&event) {
            return event;
        }
    }
}
