//! The environment ([`Env`]): file system, clock, randomness and threads in one value.

use crate::fork::InUse;
use crate::{
    Clock, FileSystem, ManualClock, ManualPressure, MemoryLedger, PressureSource, Random, SeededRandom,
    StdFileSystem, SystemClock, SystemPressure, SystemRandom,
};
use esker_base::{Error, Result};
use std::sync::Arc;
use std::thread::JoinHandle;

/// How background work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// On its own threads.
    Threads,
    /// Inside the calls of the single thread, at moments chosen by a seed: for deterministic tests.
    Stepped {
        /// Chooses which background step runs when.
        seed: u64,
    },
}

/// All access of the engine to the operating system.
#[derive(Clone, Debug)]
pub struct Env {
    /// The file system.
    pub fs: Arc<dyn FileSystem>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub random: Arc<dyn Random>,
    /// The pressure on the machine.
    pub pressure: Arc<dyn PressureSource>,
    /// How background work runs.
    pub background: Background,
    /// Accounts of memory. An open database has its own.
    pub memory: Arc<MemoryLedger>,
}

/// Initial reading of a simulated wall clock: neither zero nor the present.
const SIMULATED_START_MS: u64 = 1_600_000_000_000;

impl Env {
    /// The machine's own file system, clocks, randomness and threads.
    pub fn real() -> Env {
        Env {
            fs: Arc::new(StdFileSystem),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            pressure: Arc::new(SystemPressure),
            background: Background::Threads,
            memory: MemoryLedger::unlimited(),
        }
    }

    /// An environment that depends only on `fs` and `seed`: a [`ManualClock`], [`SeededRandom`], no pressure
    /// and [`Background::Stepped`]. A test that moves time puts its own clock into [`Env::clock`] and keeps a
    /// handle to it.
    pub fn simulated(fs: Arc<dyn FileSystem>, seed: u64) -> Env {
        Env {
            fs,
            clock: Arc::new(ManualClock::new(SIMULATED_START_MS)),
            random: Arc::new(SeededRandom::new(seed)),
            pressure: Arc::new(ManualPressure::default()),
            background: Background::Stepped { seed },
            memory: MemoryLedger::unlimited(),
        }
    }

    /// Starts a thread; with [`Env::fork_join`] the only place in Esker that does. The operating system shows
    /// the first 15 bytes of `name`. The caller joins the thread; [`Error::Io`] if the system refuses.
    pub fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        if name.contains('\0') {
            return Err(Error::invalid(format!("a thread name with a zero byte: {name:?}")));
        }
        let builder = std::thread::Builder::new().name(name.to_owned());
        let in_use = InUse::count();
        let counted = move || {
            let _in_use = in_use;
            work();
        };
        builder.spawn(counted).map_err(|source| Error::io("start the thread", name, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::StrictFs;

    #[test]
    fn a_spawned_thread_has_its_name_and_does_its_work() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let handle = Env::real()
            .spawn("esker-test", move || {
                let name = std::thread::current().name().map(str::to_owned);
                sender.send(name).unwrap();
            })
            .unwrap();
        handle.join().unwrap();
        assert_eq!(receiver.recv().unwrap().as_deref(), Some("esker-test"));
        assert!(Env::real().spawn("a\0b", || ()).is_err());
    }

    #[test]
    fn two_simulated_environments_of_one_seed_are_alike() {
        let world = |seed| Env::simulated(Arc::new(StrictFs::new()), seed);
        let (first, second) = (world(9), world(9));
        assert_eq!(first.random.next_u64(), second.random.next_u64());
        assert_eq!(first.clock.wall_ms(), second.clock.wall_ms());
        assert_eq!(first.background, Background::Stepped { seed: 9 });
        assert_ne!(first.random.next_u64(), world(10).random.next_u64());
    }
}
