//! A pair of fences of which one costs nothing: the kernel runs the other's half on every processor that has
//! a thread of this process.
//!
//! Where `membarrier(2)` is to be had (Linux 4.14, and not forbidden by a sandbox) the light fence only keeps
//! the compiler from moving accesses over it. Elsewhere both are real ones.

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

    /// Whether readers fence for themselves. Changed once, before the first of them; who has not seen that
    /// yet fences in vain.
    static READERS_FENCE: AtomicBool = AtomicBool::new(true);

    /// Chooses once for the process. To be called before the first light fence.
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

    /// A full fence against light ones of all threads; `false` if it could not be had.
    pub(in super::super) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        READERS_FENCE.load(Ordering::Relaxed) || kernel::interrupt_all()
    }

    #[cfg(target_os = "linux")]
    mod kernel {
        use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

        /// Asks for the right to interrupt; `false` if there is none.
        pub(super) fn register() -> bool {
            let offered = membarrier_query();
            [MembarrierCommand::RegisterPrivateExpedited, MembarrierCommand::PrivateExpedited]
                .into_iter()
                .all(|command| offered.contains_command(command) && membarrier(command).is_ok())
        }

        /// Makes every running thread of the process pass a full fence. The quick way may lack memory for a
        /// mask of processors; the slow one waits until every processor has passed through the scheduler.
        pub(super) fn interrupt_all() -> bool {
            membarrier(MembarrierCommand::PrivateExpedited).is_ok()
                || membarrier(MembarrierCommand::Global).is_ok()
        }
    }

    #[cfg(not(target_os = "linux"))]
    mod kernel {
        pub(super) fn register() -> bool {
            false
        }

        pub(super) fn interrupt_all() -> bool {
            false
        }
    }
}
