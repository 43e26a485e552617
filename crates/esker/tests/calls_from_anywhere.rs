//! Calls from unusual places: destructors of thread-locals, unwinding stacks, `atexit` handlers, callbacks.
//! None aborts the process, and none poisons the database.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::TestDir;
use esker::{Database, Expiry, Keyspace, KeyspaceOptions, MergeOperator, Options};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn open(dir: &TestDir) -> (Database, Keyspace) {
    let db = Database::open_with(dir.path(), Options::default()).unwrap();
    let counters = KeyspaceOptions::default().merge_operator(MergeOperator::counter_wrapping());
    let keyspace = db.keyspace_with("k", counters).unwrap();
    (db, keyspace)
}

/// Every way to change and read a key, a flush and a compaction, which encode and decode blocks, and every
/// change of keyspaces and options.
fn use_all(db: &Database, keyspace: &Keyspace, by: &str) {
    use_keyspaces(db, by);
    keyspace.put(format!("{by} put"), "1").unwrap();
    keyspace.put_with(format!("{by} ttl"), "2", Expiry::After(Duration::from_secs(3600))).unwrap();
    keyspace.put(format!("{by} gone"), "3").unwrap();
    keyspace.delete(format!("{by} gone")).unwrap();
    keyspace.merge(format!("{by} merge"), "4").unwrap();
    keyspace.flush().unwrap();
    keyspace.compact(..).unwrap();
    keyspace.delete_range(format!("{by} gone")..format!("{by} gonf")).unwrap();
    check_all(keyspace, by);
}

/// Keyspaces come, go, and get other names and options.
fn use_keyspaces(db: &Database, by: &str) {
    let (name, renamed) = (format!("{by} keyspace"), format!("{by} keyspace, renamed"));
    let keyspace = db.keyspace(&name).unwrap();
    keyspace.update_options(|options| options.block_size(1024)).unwrap();
    assert_eq!(keyspace.options().named_values(), db.open_keyspace(&name).unwrap().options().named_values());
    db.rename_keyspace(&name, &renamed).unwrap();
    assert!(db.keyspaces().contains(&renamed));
    db.drop_keyspace(&renamed).unwrap();
    assert!(!db.keyspaces().contains(&renamed));
}

fn check_all(keyspace: &Keyspace, by: &str) {
    assert_eq!(keyspace.get(format!("{by} put")).unwrap().unwrap(), "1");
    assert_eq!(keyspace.get(format!("{by} ttl")).unwrap().unwrap(), "2");
    assert_eq!(keyspace.get(format!("{by} gone")).unwrap(), None);
    assert_eq!(keyspace.get(format!("{by} merge")).unwrap().unwrap(), "4");
    assert_eq!(keyspace.prefix(by).count(), 3);
}

struct UsesInDrop(Database, Keyspace, &'static str);

impl Drop for UsesInDrop {
    fn drop(&mut self) {
        use_all(&self.0, &self.1, self.2);
    }
}

/// A thread-local that is set before the thread's first call is destroyed after the buffers of that call.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about the end of a plain thread")]
fn the_destructor_of_a_thread_local_may_call() {
    thread_local! {
        static BEFORE: RefCell<Option<UsesInDrop>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<UsesInDrop>> = const { RefCell::new(None) };
    }
    let dir = TestDir::new("thread-local");
    let (db, keyspace) = open(&dir);
    let (used_db, used) = (db.clone(), keyspace.clone());
    let thread = std::thread::spawn(move || {
        BEFORE.set(Some(UsesInDrop(used_db.clone(), used.clone(), "before")));
        use_all(&used_db, &used, "during");
        AFTER.set(Some(UsesInDrop(used_db, used, "after")));
    });
    thread.join().unwrap();
    for by in ["before", "during", "after"] {
        check_all(&keyspace, by);
    }
    db.close().unwrap();
}

#[test]
fn a_destructor_may_call_while_an_unrelated_panic_unwinds() {
    let dir = TestDir::new("unwinding");
    let (db, keyspace) = open(&dir);
    let outcome = catch_unwind(|| {
        let _uses = UsesInDrop(db.clone(), keyspace.clone(), "unwinding");
        panic!("it has nothing to do with the database");
    });
    assert!(outcome.is_err());
    check_all(&keyspace, "unwinding");
    use_all(&db, &keyspace, "later");
    let batch = |by: &str| {
        let mut batch = db.batch();
        batch.put(&keyspace, by, "1");
        batch
    };
    struct WritesInDrop<'a>(&'a Database, esker::WriteBatch);
    impl Drop for WritesInDrop<'_> {
        fn drop(&mut self) {
            self.0.write(&self.1).unwrap();
            self.0.transact(|tx| tx.put(self.0.default_keyspace(), "t", "1")).unwrap();
        }
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _writes = WritesInDrop(&db, batch("b"));
        panic!("it has nothing to do with the database");
    }));
    assert!(outcome.is_err());
    db.write(&batch("c")).unwrap();
    assert_eq!(db.metrics().read_only_cause, None);
    db.close().unwrap();
}

/// Set for the process that the test starts: where its database is.
const DIRECTORY: &str = "ESKER_TEST_ATEXIT_DIRECTORY";

static AT_EXIT: std::sync::Mutex<Option<(Database, Keyspace)>> = std::sync::Mutex::new(None);

extern "C" fn at_exit() {
    let (db, keyspace) = AT_EXIT.lock().unwrap().take().unwrap();
    use_all(&db, &keyspace, "atexit");
}

#[allow(unsafe_code, reason = "the C library's function has no safe wrapper in the standard library")]
unsafe extern "C" {
    safe fn atexit(handler: extern "C" fn()) -> std::ffi::c_int;
}

#[test]
fn an_atexit_handler_may_call() {
    let name = "an_atexit_handler_may_call";
    if let Some(path) = std::env::var_os(DIRECTORY) {
        let db = Database::open(PathBuf::from(path)).unwrap();
        let counters = KeyspaceOptions::default().merge_operator(MergeOperator::counter_wrapping());
        let keyspace = db.keyspace_with("k", counters).unwrap();
        *AT_EXIT.lock().unwrap() = Some((db, keyspace));
        assert_eq!(atexit(at_exit), 0);
        std::process::exit(0);
    }
    let dir = TestDir::new("atexit");
    let program = std::env::current_exe().unwrap();
    let child = std::process::Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(DIRECTORY, dir.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let (_db, keyspace) = open(&dir);
    check_all(&keyspace, "atexit");
}

static SIGNALLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn note_signal(_: std::ffi::c_int) {
    SIGNALLED.fetch_add(1, Ordering::Relaxed);
}

#[allow(unsafe_code, reason = "the C library's functions have no safe wrapper in the standard library")]
unsafe extern "C" {
    safe fn signal(number: std::ffi::c_int, handler: extern "C" fn(std::ffi::c_int)) -> usize;
    safe fn getpid() -> std::ffi::c_int;
    safe fn kill(process: std::ffi::c_int, number: std::ffi::c_int) -> std::ffi::c_int;
}

/// SIGWINCH, on every Unix: without a handler nothing happens.
#[cfg(unix)]
const SIGNAL: std::ffi::c_int = 28;

/// Ends the signals, also when the test fails.
#[cfg(unix)]
struct EndOnDrop<'a>(&'a AtomicBool);

#[cfg(unix)]
impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a handler may do is to set a flag. Calls that the signal interrupts go on.
#[cfg(unix)]
#[test]
fn calls_go_on_while_signals_interrupt_them_and_a_thread_that_sees_the_flag_may_call() {
    let dir = TestDir::new("signals");
    let (db, keyspace) = open(&dir);
    signal(SIGNAL, note_signal);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(kill(getpid(), SIGNAL), 0);
                // Some thousand a second: a call that begins anew after each needs time to end.
                std::thread::park_timeout(Duration::from_micros(200));
            }
        });
        let _end = EndOnDrop(&is_over);
        let mut seen = 0;
        for round in 0..5 {
            use_all(&db, &keyspace, &format!("interrupted {round}"));
            while SIGNALLED.load(Ordering::Relaxed) == seen {
                std::thread::yield_now();
            }
            seen = SIGNALLED.load(Ordering::Relaxed);
            db.sync().unwrap();
        }
    });
    check_all(&keyspace, "interrupted 4");
    db.close().unwrap();
}

/// Without the check the update would start over for ever: the inner one changes what the outer has read.
#[test]
fn options_are_not_changed_from_inside_of_their_own_closure() {
    let dir = TestDir::new("options-inside");
    let (db, keyspace) = open(&dir);
    let other = db.keyspace("other").unwrap();
    let (inner, through_other) = (RefCell::new(None), RefCell::new(None));
    let updated = keyspace.update_options(|options| {
        inner.replace(Some(keyspace.update_options(|options| options.block_size(1024))));
        let through = other.update_options(|options| {
            through_other.replace(Some(keyspace.update_options(|options| options.block_size(1024))));
            options.block_size(2048)
        });
        through.unwrap();
        options.block_size(4096)
    });
    updated.unwrap();
    for refused in [inner, through_other] {
        let refused = refused.into_inner().unwrap().unwrap_err();
        assert!(matches!(refused, esker::Error::InvalidArgument(_)), "{refused}");
        assert!(refused.to_string().contains("\"k\""), "{refused}");
    }
    keyspace.update_options(|options| options.block_size(8192)).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| keyspace.update_options(|_| panic!("in the closure"))));
    assert!(outcome.is_err());
    keyspace.update_options(|options| options.block_size(1024)).unwrap();
    db.close().unwrap();
}
