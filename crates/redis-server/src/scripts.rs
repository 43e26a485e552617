//! Scripts and functions of all threads: what EVALSHA and FCALL find, what runs now, and how it is stopped.
//!
//! Each thread has an engine of its own, so that scripts of different keys run side by side. It compiles a
//! script or loads a library when it meets it first.
//!
//! A script that runs for long disturbs only what needs its keys: those commands are answered `-BUSY` after
//! `busy-reply-threshold`, and all others go on. Redis, which has one thread, answers all others so. SCRIPT
//! KILL and FUNCTION KILL end every script, within EXEC and after it has written as well, because what it
//! changed is one batch that is not written yet; a transaction around it is undone as a whole. A server that
//! stops ends all.

use esker_lua::{Engine, Libraries, Limits, Script};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of the scripts that EVALSHA finds; those used longest ago are forgotten. Redis keeps all.
const SCRIPT_BYTES: usize = 64 << 20;

/// How often the engines of this process were told to forget what they have compiled.
static FLUSHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static ENGINE: RefCell<(Engine, u64)> = RefCell::new((Engine::new(Limits::default()), 0));
}

/// Calls `work` with the engine of this thread; `None` if a script of it is running.
pub(crate) fn with_engine<R>(work: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    ENGINE.with(|place| {
        let mut borrowed = place.try_borrow_mut().ok()?;
        let (engine, seen) = &mut *borrowed;
        let flushes = FLUSHES.load(Ordering::Acquire);
        if *seen != flushes {
            engine.flush_scripts();
            engine.flush_functions();
            *seen = flushes;
        }
        Some(work(engine))
    })
}

/// Lets all engines of the process forget what they have compiled.
pub(crate) fn flush_engines() {
    FLUSHES.fetch_add(1, Ordering::AcqRel);
}

/// What is answered while a function runs, and while a script runs.
pub(crate) const FUNCTION_IS_BUSY: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
pub(crate) const SCRIPT_IS_BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// A script or function that has run for a while.
#[derive(Debug)]
pub(crate) struct Run {
    /// The SHA-1 of the script, or the name of the function.
    pub(crate) name: Vec<u8>,
    /// The command that runs it.
    pub(crate) command: Vec<Vec<u8>>,
    /// Whether it is a script and no function.
    pub(crate) is_script: bool,
    /// When it began, by the machine's clock.
    pub(crate) started_ns: u64,
    is_killed: AtomicBool,
}

impl Run {
    /// A run that has not been stopped.
    pub(crate) fn new(name: Vec<u8>, command: &[&[u8]], is_script: bool, started_ns: u64) -> Self {
        let command = command.iter().map(|argument| argument.to_vec()).collect();
        Self { name, command, is_script, started_ns, is_killed: AtomicBool::new(false) }
    }

    /// Whether it was killed.
    fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }
}

/// What SCRIPT KILL and FUNCTION KILL find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    /// What ran ends.
    Some,
    /// Nothing runs.
    None,
    /// Only runs of the other kind.
    OtherKind,
}

/// What the threads of a server share of scripts and functions.
pub(crate) struct Scripting {
    scripts: Mutex<esker_lua::Scripts>,
    /// The libraries; `None` until they are read from the store.
    libraries: RwLock<Option<Arc<Libraries>>>,
    /// Held while libraries are read or changed.
    changing: Mutex<()>,
    running: Mutex<Vec<Arc<Run>>>,
    /// Whether the server stops, so that nothing runs on.
    is_closing: AtomicBool,
}

impl Default for Scripting {
    fn default() -> Self {
        Self {
            scripts: Mutex::new(esker_lua::Scripts::new(SCRIPT_BYTES)),
            libraries: RwLock::new(None),
            changing: Mutex::new(()),
            running: Mutex::new(Vec::new()),
            is_closing: AtomicBool::new(false),
        }
    }
}

impl fmt::Debug for Scripting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scripting").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Scripting {
    /// The script of a SHA-1.
    pub(crate) fn script(&self, sha: &[u8]) -> Option<Script> {
        self.scripts.lock().get(sha)
    }

    /// Whether there is a script of this SHA-1.
    pub(crate) fn contains(&self, sha: &[u8]) -> bool {
        self.scripts.lock().contains(sha)
    }

    /// How many scripts are kept, and the bytes of their text.
    pub(crate) fn kept(&self) -> (usize, usize) {
        let scripts = self.scripts.lock();
        (scripts.len(), scripts.bytes())
    }

    /// Adds a script that compiles.
    pub(crate) fn insert(&self, script: Script) {
        self.scripts.lock().insert(script);
    }

    /// Forgets all scripts, in all threads.
    pub(crate) fn flush(&self) {
        self.scripts.lock().clear();
        flush_engines();
    }

    /// The libraries, if they have been read.
    pub(crate) fn libraries(&self) -> Option<Arc<Libraries>> {
        self.libraries.read().clone()
    }

    /// Keeps other threads from changing the libraries.
    pub(crate) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Sets the libraries.
    pub(crate) fn set_libraries(&self, libraries: Libraries) -> Arc<Libraries> {
        let libraries = Arc::new(libraries);
        *self.libraries.write() = Some(Arc::clone(&libraries));
        libraries
    }

    /// Lists a run among those that can be stopped.
    pub(crate) fn begin(&self, run: Arc<Run>) {
        self.running.lock().push(run);
    }

    /// Takes a run off the list.
    pub(crate) fn end(&self, run: &Arc<Run>) {
        self.running.lock().retain(|other| !Arc::ptr_eq(other, run));
    }

    /// The run that began first.
    pub(crate) fn running(&self) -> Option<Arc<Run>> {
        self.running.lock().first().cloned()
    }

    /// The reply to commands that would wait behind a run that began before `before_ns` of the machine's
    /// clock.
    pub(crate) fn busy_reply(&self, before_ns: u64) -> Option<&'static str> {
        let running = self.running.lock();
        let busy = running.iter().find(|run| run.started_ns < before_ns)?;
        Some(if busy.is_script { SCRIPT_IS_BUSY } else { FUNCTION_IS_BUSY })
    }

    /// Lets scripts run, or ends all that run and those that begin.
    pub(crate) fn set_closing(&self, is_closing: bool) {
        self.is_closing.store(is_closing, Ordering::Release);
    }

    /// Whether a run is to end.
    pub(crate) fn must_end(&self, run: &Run) -> bool {
        run.is_killed() || self.is_closing.load(Ordering::Acquire)
    }

    /// Stops all scripts, or all functions.
    pub(crate) fn kill(&self, scripts: bool) -> Killed {
        let running = self.running.lock();
        if running.is_empty() {
            return Killed::None;
        }
        let mut of_this_kind = running.iter().filter(|run| run.is_script == scripts).peekable();
        if of_this_kind.peek().is_none() {
            return Killed::OtherKind;
        }
        of_this_kind.for_each(|run| run.is_killed.store(true, Ordering::Release));
        Killed::Some
    }
}
