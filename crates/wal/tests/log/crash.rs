//! Crash sweep: the log is cut after each recorded event, crashed in each way, recovered and verified.

use crate::harness::{Guaranteed, LogHarness, Manifest, mix, verify};
use esker_env::fault::{Crash, Event, StrictFs};

/// Crashes at one cut; the random ones differ from cut to cut.
fn crashes(cut: u64, last: Option<&Event>) -> Vec<Crash> {
    let mut crashes = vec![Crash::Process, Crash::PowerAllLost, Crash::PowerNoneLost];
    crashes.extend((0..2).map(|round| Crash::PowerRandom { seed: mix(cut * 2 + round) }));
    if let Some(written) = last.and_then(Event::written_bytes) {
        crashes.push(Crash::ProcessTorn { keep_bytes: (mix(cut) % (written as u64 + 1)) as usize });
        crashes.push(Crash::ProcessTorn { keep_bytes: written / 2 });
    }
    crashes
}

/// Crashes the life of `harness` after each event of its trace.
fn sweep(harness: &LogHarness, before: Guaranteed, what: &str, stride: usize) -> u64 {
    let mut replayer = harness.fs.replayer();
    let mut known = before;
    let mut passed = 0;
    let mut images = 0;
    loop {
        for &mark in &replayer.marks()[passed..] {
            known.add(harness.guarantees[mark as usize]);
        }
        passed = replayer.marks().len();
        if replayer.position().is_multiple_of(stride) {
            for crash in crashes(replayer.position() as u64, replayer.last_event()) {
                let image = replayer.image(crash);
                let what = format!("{what}, event {} {crash:?}", replayer.position());
                verify(&image, &known, crash.is_power_loss(), &what);
                images += 1;
            }
        }
        if replayer.step().is_none() {
            return images;
        }
    }
}

fn life(seed: u64, mapped: bool, steps: usize) -> LogHarness {
    let mut harness = LogHarness::new(&StrictFs::new(), seed, mapped);
    for _ in 0..steps {
        harness.step();
    }
    harness
}

#[test]
fn a_mapped_log_survives_every_cut() {
    for seed in 1..=4 {
        let harness = life(seed, true, 220);
        assert!(harness.writer.is_mapped());
        let images = sweep(&harness, Guaranteed::new(Manifest::NEW), &format!("seed {seed}"), 1);
        assert!(images > 1000, "{images}");
        assert!(harness.log.counters().recycled > 0, "seed {seed} recycles nothing");
    }
}

#[test]
fn a_written_log_survives_every_cut() {
    for seed in 11..=13 {
        let harness = life(seed, false, 220);
        assert!(!harness.writer.is_mapped());
        let images = sweep(&harness, Guaranteed::new(Manifest::NEW), &format!("seed {seed}"), 1);
        assert!(images > 1000, "{images}");
    }
}

/// Crashes in the first life, then in the second one that begins on its remains: before its commit, while it
/// deletes old files, and during writes. Everything that either life guaranteed must be there.
#[test]
fn crashes_in_the_life_after_a_crash() {
    for seed in 21..=24 {
        let harness = life(seed, true, 150);
        let end = harness.fs.trace_len();
        for round in 0..6 {
            let cut = mix(seed * 100 + round) as usize % end;
            let crash = match round % 3 {
                0 => Crash::Process,
                1 => Crash::PowerRandom { seed: seed * 100 + round },
                _ => Crash::PowerNoneLost,
            };
            let mut replayer = harness.fs.replayer();
            replayer.advance_to(cut);
            let mut known = Guaranteed::new(Manifest::NEW);
            for &mark in replayer.marks() {
                known.add(harness.guarantees[mark as usize]);
            }
            let image = replayer.image(crash);
            let what = format!("seed {seed}, round {round}, first life cut at {cut} by {crash:?}");
            let old = verify(&image, &known, crash.is_power_loss(), &what);
            // Records that came back once come back again (RC2); after a power cut all are on the disk.
            known.written = old.last(&known.manifest);
            if crash.is_power_loss() {
                known.durable = known.written;
                known.torn = true;
            }
            let mut second = LogHarness::after(&image, seed + round, round % 2 == 0, &known, &old);
            for _ in 0..25 {
                second.step();
            }
            sweep(&second, known, &what, 3);
        }
    }
}
