//! How events are delivered: to listeners that are slow, panic, call the database, or close it (EV1 to EV4).

use super::common::{key, value};
use super::{PATIENCE, fill, forwarding, open_stepped, open_threaded, wait_for, watched};
use esker::events::Event;
use esker::{Database, Error, Options};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

fn is_flush_end(event: &Event) -> bool {
    matches!(event, Event::FlushEnded { .. })
}

#[test]
fn a_listener_that_panics_is_counted_and_called_again() {
    let (calls, called) = channel();
    let panicking = move |event: &Event| {
        calls.send(()).unwrap();
        assert!(!is_flush_end(event), "a defect of the listener");
    };
    let (options, events) = watched();
    let (db, _) = open_stepped(options.listener(Arc::new(panicking)));
    for round in 0..3 {
        fill(&db, 10, round);
        db.flush().unwrap();
    }
    db.close().unwrap();
    let seen: Vec<Event> = events.try_iter().collect();
    assert_eq!(seen.iter().filter(|event| is_flush_end(event)).count(), 3, "the other listener has all");
    assert_eq!(called.try_iter().count(), seen.len());
    let metrics = db.metrics().listeners;
    assert_eq!((metrics.panics, metrics.delivered, metrics.lost), (3, seen.len() as u64, 0));
}

/// EV3: the first event blocks the listener until the end, and everything else goes on.
#[test]
fn a_slow_listener_delays_no_work() {
    let (gate, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let (entered, entries) = channel();
    let slow = move |_: &Event| {
        let _ = entered.send(());
        let _ = opened.lock().unwrap().recv();
    };
    let (db, _) = open_threaded(Options::default().listener(Arc::new(slow)));
    // Dropped before the database, whose close waits for the listener, also if the test fails.
    let gate = gate;
    db.keyspace("first event").unwrap();
    entries.recv_timeout(PATIENCE).unwrap();
    for round in 0..5 {
        fill(&db, 200, round);
        db.flush().unwrap();
        db.compact_all().unwrap();
        assert_eq!(db.default_keyspace().get(key(7)).unwrap().unwrap(), &*value(7, round));
    }
    let metrics = db.metrics().listeners;
    assert_eq!(metrics.delivered, 1);
    assert!(metrics.queued >= 10, "{metrics:?}");
    drop(gate);
    db.close().unwrap();
    assert_eq!(db.metrics().listeners.queued, 0);
}

/// EV1: with locks held, or on a thread of background work, this listener would wait for itself.
#[test]
fn a_listener_reads_writes_and_waits_for_background_work() {
    let handle = Arc::new(OnceLock::<Database>::new());
    let (done, results) = channel();
    let listener = {
        let handle = Arc::clone(&handle);
        move |event: &Event| {
            if let Event::KeyspaceCreated(created) = event {
                done.send(use_database(handle.wait(), &created.name)).unwrap();
            }
        }
    };
    let (db, _) = open_threaded(Options::default().listener(Arc::new(listener)));
    handle.set(db.clone()).unwrap();
    db.keyspace("first").unwrap();
    let found = results.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(found, Some(b"by the listener".to_vec()));
    assert_eq!(db.keyspaces(), ["default", "first", "log of first, renamed"]);
    let options = db.open_keyspace("log of first, renamed").unwrap().options();
    assert_ne!(options.named_values(), db.default_keyspace().options().named_values());
    db.close().unwrap();
}

fn use_database(db: &Database, created: &str) -> esker::Result<Option<Vec<u8>>> {
    if created.starts_with("log") {
        return Ok(None);
    }
    let own = db.keyspace(&format!("log of {created}"))?;
    own.put(b"what", b"by the listener")?;
    own.flush()?;
    own.compact(..)?;
    db.drain()?;
    db.drop_keyspace(&db.keyspace("log for a moment")?.name())?;
    own.update_options(|options| options.block_size(1024))?;
    db.rename_keyspace(&own.name(), &format!("log of {created}, renamed"))?;
    Ok(own.get(b"what")?.map(|found| found.to_vec()))
}

/// EV4: the flush of the close is told before it returns, and nothing after.
#[test]
fn a_close_waits_for_the_last_event_and_none_follows() {
    let (options, events) = watched();
    let (db, _) = open_threaded(options);
    fill(&db, 10, 0);
    db.close().unwrap();
    assert!(events.try_iter().any(|event| is_flush_end(&event)), "the flush of the close");
    assert!(db.default_keyspace().put(key(1), value(1, 1)).is_err() && db.flush().is_err());
    db.close().unwrap();
    drop(db);
    assert!(events.recv().is_err(), "the listener is gone, and has sent nothing more");
}

/// EV4: a close by a listener neither waits for itself nor for another close, which waits for it.
#[test]
fn a_listener_may_close_the_database() {
    for with_other in [false, true] {
        let handle = Arc::new(OnceLock::<Database>::new());
        let (sender, events) = channel();
        let (closing, closed): (Sender<esker::Result<()>>, _) = channel();
        let (entered, entries) = channel();
        let listener = {
            let handle = Arc::clone(&handle);
            move |event: &Event| {
                if is_flush_end(event) {
                    let _ = entered.send(());
                    let _ = closing.send(handle.wait().close());
                }
            }
        };
        let options = Options::default().listener(Arc::new(listener)).listener(forwarding(sender));
        let (db, _) = open_threaded(options);
        handle.set(db.clone()).unwrap();
        fill(&db, 10, 0);
        db.flush().unwrap();
        entries.recv_timeout(PATIENCE).unwrap();
        if with_other {
            db.close().unwrap();
        }
        closed.recv_timeout(PATIENCE).unwrap().unwrap();
        assert!(matches!(db.default_keyspace().get(key(1)), Err(Error::Closed)));
        db.close().unwrap();
        assert!(events.try_iter().any(|event| is_flush_end(&event)), "the event itself is delivered to all");
    }
}

/// The last handle may be dropped by a listener: the database closes then.
#[test]
fn the_last_handle_may_be_dropped_by_a_listener() {
    let handle = Arc::new(Mutex::new(None::<Database>));
    let (options, events) = watched();
    let (gate, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let listener = {
        let handle = Arc::clone(&handle);
        move |event: &Event| {
            if is_flush_end(event) {
                let _ = opened.lock().unwrap().recv();
                drop(handle.lock().unwrap().take());
            }
        }
    };
    let (db, faults) = open_threaded(options.listener(Arc::new(listener)));
    let gate = gate;
    fill(&db, 10, 0);
    *handle.lock().unwrap() = Some(db.clone());
    db.flush().unwrap();
    drop(db);
    drop(gate);
    wait_for(&events, is_flush_end);
    // The listeners are dropped when the thread ends.
    while events.recv_timeout(PATIENCE).is_ok() {}
    let env = esker::parts::env::Env::simulated(Arc::new(faults), 2);
    let again = Database::open_with("/db", Options::default().env(env)).unwrap();
    assert_eq!(again.default_keyspace().iter().count(), 10);
    again.close().unwrap();
}
