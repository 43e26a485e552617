//! Pressure stall information: how short the machine is of processors, of its devices and of memory.
//!
//! Linux measures the share of the last ten seconds in which some task waited for each of them (PSI). A load
//! average counts tasks that run as well as tasks that wait, and the use of a device says nothing of a queue
//! before it; waiting is what there is too little of something.

#![allow(clippy::disallowed_methods, reason = "this crate is the door that the bans lead to")]

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// The shares of time in which some task waited, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostPressure {
    /// For a processor.
    pub cpu_permille: u32,
    /// For a device.
    pub io_permille: u32,
    /// For memory.
    pub memory_permille: u32,
}

/// Where the pressure on the machine is read.
pub trait PressureSource: Send + Sync + Debug {
    /// The present pressure; zeros where it is not known.
    fn read(&self) -> HostPressure;
}

/// What the system reports for this process's control group, else for the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemPressure;

impl PressureSource for SystemPressure {
    fn read(&self) -> HostPressure {
        let permille = |resource: &str| {
            let group = std::fs::read_to_string(format!("/sys/fs/cgroup/{resource}.pressure"));
            let text = group.or_else(|_| std::fs::read_to_string(format!("/proc/pressure/{resource}")));
            text.ok().and_then(|text| some_permille(&text)).unwrap_or(0)
        };
        HostPressure {
            cpu_permille: permille("cpu"),
            io_permille: permille("io"),
            memory_permille: permille("memory"),
        }
    }
}

/// The line `some avg10=12.34 ...`, whose number is per cent.
fn some_permille(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = line.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()?;
    Some((percent.clamp(0.0, 100.0) * 10.0) as u32)
}

/// Pressure that a test sets; zero at first.
#[derive(Debug, Default)]
pub struct ManualPressure {
    /// Ten bits for each share.
    shares: AtomicU64,
}

impl ManualPressure {
    /// Sets what is read from now on; shares are at most 1,000.
    pub fn set(&self, pressure: HostPressure) {
        let shares = [pressure.cpu_permille, pressure.io_permille, pressure.memory_permille];
        let packed = shares.iter().fold(0, |packed, share| packed << 10 | u64::from(*share.min(&1_000)));
        self.shares.store(packed, Ordering::Relaxed);
    }
}

impl PressureSource for ManualPressure {
    fn read(&self) -> HostPressure {
        let packed = self.shares.load(Ordering::Relaxed);
        let share = |at: u32| (packed >> (10 * at) & 0x3ff) as u32;
        HostPressure { cpu_permille: share(2), io_permille: share(1), memory_permille: share(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_last_ten_seconds_is_read() {
        let text = "some avg10=81.57 avg60=3.00 avg300=0.10 total=1\nfull avg10=2.00 avg60=0.00 total=0\n";
        assert_eq!(some_permille(text), Some(815));
        assert_eq!(some_permille("some avg10=1000 total=0"), Some(1_000));
        for damaged in ["", "full avg10=1.0", "some", "some avg10=", "some avg10=NaN%"] {
            assert_eq!(some_permille(damaged), None, "{damaged:?}");
        }
        assert!(SystemPressure.read().cpu_permille <= 1_000);
    }

    #[test]
    fn what_is_set_is_read() {
        let manual = ManualPressure::default();
        assert_eq!(manual.read(), HostPressure::default());
        let set = HostPressure { cpu_permille: 1_000, io_permille: 7, memory_permille: 512 };
        manual.set(set);
        assert_eq!(manual.read(), set);
    }
}
