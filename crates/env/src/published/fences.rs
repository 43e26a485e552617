//! Asymmetric fences: a light fence for readers and a heavy one that runs the other half on every processor
//! with a thread of this process.
//!
//! Where `membarrier(2)` is available (Linux 4.14, and not forbidden by a sandbox) the light fence only keeps
//! the compiler from moving accesses over it. Elsewhere, and under Miri, both are full fences.

#[cfg(not(loom))]
pub(super) use self::machine::{choose, heavy, light};

#[cfg(loom)]
pub(super) fn choose() {}

#[cfg(loom)]
pub(super) fn light() {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

#[cfg(loom)]
pub(super) fn heavy() -> bool {
    light();
    true
}

#[cfg(not(loom))]
mod machine {
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    /// Whether readers execute full fences. Changed once, before the first read; a reader that has not seen
    /// the change yet fences unnecessarily.
    static READERS_FENCE: AtomicBool = AtomicBool::new(true);

    /// Chooses once for the process. Call it before the first light fence.
    pub(in super::super) fn choose() {
        static CHOSEN: Once = Once::new();
        CHOSEN.call_once(|| READERS_FENCE.store(!kernel::register(), Ordering::Relaxed));
    }

    /// A full fence against a [`heavy`] one.
    #[inline(always)]
    pub(in super::super) fn light() {
        if READERS_FENCE.load(Ordering::Relaxed) {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// A full fence against light ones of all threads; `false` if it failed.
    pub(in super::super) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        READERS_FENCE.load(Ordering::Relaxed) || kernel::interrupt_all()
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    mod kernel {
        use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

        /// Registers for expedited barriers; `false` if they are not available.
        pub(super) fn register() -> bool {
            let offered = membarrier_query();
            [MembarrierCommand::RegisterPrivateExpedited, MembarrierCommand::PrivateExpedited]
                .into_iter()
                .all(|command| offered.contains_command(command) && membarrier(command).is_ok())
        }

        /// Makes every running thread of the process execute a full fence. The expedited command may lack
        /// memory for a mask of processors; the slow one waits until every processor has passed through the
        /// scheduler.
        pub(super) fn interrupt_all() -> bool {
            membarrier(MembarrierCommand::PrivateExpedited).is_ok()
                || membarrier(MembarrierCommand::Global).is_ok()
        }
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    mod kernel {
        pub(super) fn register() -> bool {
            false
        }

        pub(super) fn interrupt_all() -> bool {
            false
        }
    }
}
