//! Admission rate: how many bytes a second writers may write, as a pure function of pressure and capacity.
//!
//! # The function
//! With pressure `p` between the soft limit (0) and the hard one (1) and a capacity of `c` bytes a second,
//! writers are admitted at `2c(1 - p)`: twice the sustained rate where the pressure begins, exactly the
//! sustained rate half-way, and at least a sixteenth of it. Without pressure there is no limit.
//!
//! A queue between the limits, `W` bytes wide, follows `Q' = r - c = c(1 - 2Q/W)`: one pole at `-2c/W`, so it
//! settles at the half-way point without oscillation. With a delay `t` between the queue and its measurement
//! there is no overshoot as long as `W >= 2e * c * t`, about `5.4 * c * t`. Twelve runs of 16 MiB at 100 MB/s
//! allow 370 ms, one and a half memtables at 200 MB/s 25 ms; the store adapts the pace every 10 ms and at
//! each install.
//!
//! # A flush that hangs
//! `c` is what flushes did lately. When the device stops for a second, as one may that discards freed blocks,
//! writers at that rate fill the queue within a tenth of it and stop. So before the flush the rate is also at
//! most the room that is left over the time since a flush ended last: the room lasts as long again as the
//! flush has hung already. It falls with `1/t`, so each write waits a little longer than the one before,
//! until the least rate (`HANGING_FLOOR_DIVISOR`) fills what is left. Flushes that are as fast as `c` do not
//! notice: at the half-way point, with a queue of two and a half memtables, that bound is a quarter above `c`
//! when a flush ends, and more before.
//!
//! Rejected: as capacity what the present flush can reach at best, all waiting bytes over that time. The
//! queue grows meanwhile, so this falls too late, and writers stopped after 0.3 seconds.
//!
//! Rejected: steps (RocksDB's former delays by factors of 0.8 and 1.25), which oscillate around the right
//! rate; a target that is computed from what a finished job left, which jumps by the size of the job and
//! turns a slow-down into a stop.

use super::pressure::Pressure;
use std::time::Duration;

/// Pressure at the hard limit.
pub const FULL_PERMILLE: u32 = 1000;

/// The least share of the capacity that writers get: one in so many bytes.
const FLOOR_DIVISOR: u64 = 16;

/// The same before a flush that hangs: at 300 MB/s a small write waits two milliseconds at most, and the
/// queue lasts for seven seconds.
const HANGING_FLOOR_DIVISOR: u64 = 4096;

/// Position of `amount` between the limits, in 1/1000: 0 up to `soft`, 1000 and more from `hard` on.
pub fn pressure_permille(amount: u64, soft: u64, hard: u64) -> u32 {
    let over = u128::from(amount.saturating_sub(soft));
    let width = u128::from(hard.saturating_sub(soft).max(1));
    u32::try_from(over * u128::from(FULL_PERMILLE) / width).unwrap_or(u32::MAX)
}

/// How full a queue with the capacity `hard` is, in 1/1000.
pub fn fullness_permille(amount: u64, hard: u64) -> u32 {
    pressure_permille(amount, 0, hard)
}

/// Bytes a second that writers are admitted with; `None` for no limit.
pub fn admitted_bytes_per_second(pressure_permille: u32, capacity_bytes: u64) -> Option<u64> {
    if pressure_permille == 0 {
        return None;
    }
    let left = u128::from(FULL_PERMILLE.saturating_sub(pressure_permille));
    let rate = 2 * u128::from(capacity_bytes) * left / u128::from(FULL_PERMILLE);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    Some(rate.max(capacity_bytes / FLOOR_DIVISOR).max(1))
}

/// The same before flushes, of which none has ended for `unfinished_for`.
pub fn admitted_before_flushes(
    pressure: &Pressure,
    capacity_bytes: u64,
    unfinished_for: Duration,
) -> Option<u64> {
    let usual = admitted_bytes_per_second(pressure.permille, capacity_bytes)?;
    let room = u128::from(pressure.hard.saturating_sub(pressure.amount));
    let lasting = room * 1_000_000_000 / unfinished_for.as_nanos().max(1);
    let lasting = u64::try_from(lasting).unwrap_or(u64::MAX);
    Some(usual.min(lasting.max(capacity_bytes / HANGING_FLOOR_DIVISOR).max(1)))
}

#[cfg(test)]
mod tests {
    use super::super::PressureCause;
    use super::*;

    #[test]
    fn pressure_is_linear_between_the_limits() {
        let at = |amount| pressure_permille(amount, 100, 200);
        assert_eq!([at(0), at(100), at(150), at(200), at(300)], [0, 0, 500, 1000, 2000]);
        assert_eq!(pressure_permille(5, 7, 7), 0);
        assert_eq!(pressure_permille(u64::MAX, 0, 1), u32::MAX, "limits without a distance");
    }

    #[test]
    fn half_way_is_the_sustained_rate() {
        assert_eq!(admitted_bytes_per_second(0, 1000), None);
        assert_eq!(admitted_bytes_per_second(500, 1000), Some(1000));
        assert_eq!(admitted_bytes_per_second(1, 1_000_000), Some(1_998_000));
        assert_eq!(admitted_bytes_per_second(2000, 1600), Some(100), "the floor");
        assert_eq!(admitted_bytes_per_second(900, 0), Some(1));
    }

    /// The closed loop: writers that could go twice as fast, a constant consumer, delayed pressure.
    fn settle(width: f64, capacity: f64, delay_ms: usize) -> (f64, f64, f64) {
        let mut seen = vec![0.0; delay_ms];
        let (mut queue, mut most, mut least_after) = (0.0f64, 0.0f64, f64::MAX);
        for ms in 0..60_000 {
            let p = pressure_permille(seen[ms % delay_ms] as u64, 0, width as u64);
            seen[ms % delay_ms] = queue;
            let rate =
                admitted_bytes_per_second(p, capacity as u64).map_or(2.0 * capacity, |rate| rate as f64);
            queue = (queue + (rate - capacity) / 1000.0).max(0.0);
            most = most.max(queue);
            if ms > 50_000 {
                least_after = least_after.min(queue);
            }
        }
        (queue / width, most / width, least_after / width)
    }

    #[test]
    fn the_queue_settles_half_way_without_oscillation() {
        let (capacity, delay_ms) = (100e6, 100);
        // The bound of the essay, and three times as much.
        for width in [5.44 * capacity * 0.1, 16.0 * capacity * 0.1] {
            let (end, most, least) = settle(width, capacity, delay_ms);
            assert!((0.49..0.51).contains(&end), "ends at {end}");
            assert!((0.49..0.51).contains(&least), "still moves: {least}");
            assert!(most < 0.6, "overshoots to {most}");
        }
        // Far below the bound the loop oscillates.
        let (_, most, _) = settle(0.8 * capacity * 0.1, capacity, delay_ms);
        assert!(most > 0.9, "{most}");
    }

    fn memory(amount: f64, memtable: f64) -> Pressure {
        let (soft, hard) = super::super::memory_limits(memtable as u64, 4 * memtable as u64);
        Pressure::new(PressureCause::Memory, amount as u64, soft, hard)
    }

    #[test]
    fn the_room_lasts_as_long_again_as_a_flush_has_hung() {
        let rate = |ms| admitted_before_flushes(&memory(30e6, 8e6), 400_000_000, Duration::from_millis(ms));
        // 2 MB are left of 20 MB between the limits.
        assert_eq!([rate(0), rate(10)], [Some(80_000_000), Some(80_000_000)]);
        assert_eq!(
            [rate(100), rate(1000), rate(3_600_000)],
            [Some(20_000_000), Some(2_000_000), Some(97_656)]
        );
        assert_eq!(admitted_before_flushes(&memory(0.0, 8e6), 1, Duration::from_secs(9)), None);
    }

    /// Writers of 150 MB/s, memtables of 8 MB, flushes of 300 MB/s of which one hangs: the room that is left,
    /// and the longest time between two writes of 128 bytes.
    fn hanging_flush(hangs_for: Duration) -> (f64, Duration) {
        const STEP: Duration = Duration::from_micros(100);
        let (memtable, mut active, mut sealed) = (8e6, 0.0, 8e6);
        let (mut now, mut longest, mut room) = (Duration::ZERO, Duration::ZERO, f64::MAX);
        while now < hangs_for {
            now += STEP;
            let pressure = memory(sealed + active, memtable);
            let rate = admitted_before_flushes(&pressure, 300_000_000, now).unwrap_or(u64::MAX) as f64;
            active += rate.min(150e6) * STEP.as_secs_f64();
            longest = longest.max(Duration::from_secs_f64(128.0 / rate));
            if active >= memtable && sealed < 3.0 * memtable {
                (sealed, active) = (sealed + active, 0.0);
            }
            room = 4.0 * memtable - sealed - active;
        }
        (room, longest)
    }

    #[test]
    fn a_flush_that_hangs_slows_writers_and_stops_none() {
        for (ms, least_room, most_us) in [(300, 3e6, 20), (1000, 9e5, 200), (5000, 1e5, 2000)] {
            let (room, longest) = hanging_flush(Duration::from_millis(ms));
            assert!(room > least_room, "{room} bytes are left after {ms} ms");
            assert!(longest < Duration::from_micros(most_us), "a write waited {longest:?} within {ms} ms");
        }
    }
}
