//! Cost of appends: `cargo run --release -p esker-wal --example append_bench -- DIRECTORY`.
//!
//! Prints nanoseconds per record for payloads of several sizes, each over several rounds of a recycled log,
//! with and without the checksum of the payload and the encoding of the batch, through maps and through
//! writes.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use esker_base::checksum::crc32c;
use esker_base::{KeyspaceId, Result, SeqNo};
use esker_env::Env;
use esker_wal::{BatchEncoder, KeptHistory, Log, LogOptions, LogStart, LogWriter, Rotation};
use std::path::PathBuf;

const KEY_LEN: usize = 16;
/// Bytes appended in each measured round.
const ROUND_BYTES: usize = 256 << 20;

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("append_bench.tmp"), PathBuf::from);
    let env = Env::real();
    for mapped in [true, false] {
        println!("{}:", if mapped { "mapped" } else { "written" });
        for value_len in [16, 100, 1000, 10_000] {
            let (append, checked, encoded) = measure(&env, &dir, mapped, value_len)?;
            println!(
                "  value of {value_len:>5} bytes: append {append:>6.1} ns, with checksum {checked:>6.1}, \
                 with checksum and encoding {encoded:>6.1}"
            );
        }
    }
    env.fs.remove_dir_all(&dir)
}

/// Nanoseconds per record: append alone, with the payload's checksum, with its encoding too.
fn measure(env: &Env, dir: &std::path::Path, mapped: bool, value_len: usize) -> Result<(f64, f64, f64)> {
    let start = LogStart {
        db_uuid: [1; 16],
        log_id: esker_base::LogId(1),
        last_seqno: SeqNo::ZERO,
        manifest_edit: 0,
        wall_ms: 0,
        history: KeptHistory::default(),
    };
    let wal = dir.join(format!("{mapped}-{value_len}"));
    let options = LogOptions { mapped, ..LogOptions::default() };
    let (log, mut writer) = Log::create(env, &wal, &start, options)?;
    let (key, value) = ([7u8; KEY_LEN], vec![9u8; value_len]);
    let mut batch = BatchEncoder::new();
    batch.put(KeyspaceId(0), &key, &value)?;
    let fixed = batch.payload().to_vec();
    let fixed_crc = crc32c(&fixed);
    let records = (if mapped { ROUND_BYTES } else { ROUND_BYTES / 8 }) / (fixed.len() + 32);
    let mut round = |mode: u8| -> Result<f64> {
        let began = env.clock.monotonic_ns();
        for _ in 0..records {
            if !writer.has_room(fixed.len()) {
                rotate(&log, &mut writer)?;
            }
            let first = writer.last_seqno().plus(1);
            match mode {
                0 => writer.append(first, 1, &fixed, fixed_crc)?,
                1 => writer.append(first, 1, &fixed, crc32c(&fixed))?,
                _ => {
                    batch.clear();
                    batch.put(KeyspaceId(0), &key, &value)?;
                    writer.append(first, 1, batch.payload(), crc32c(batch.payload()))?
                }
            };
        }
        Ok((env.clock.monotonic_ns() - began) as f64 / records as f64)
    };
    round(0)?;
    let best = |mode, round: &mut dyn FnMut(u8) -> Result<f64>| -> Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..3 {
            best = best.min(round(mode)?);
        }
        Ok(best)
    };
    Ok((best(0, &mut round)?, best(1, &mut round)?, best(2, &mut round)?))
}

/// Like an engine that flushes at once: everything before the active segment is released.
fn rotate(log: &Log, writer: &mut LogWriter) -> Result<()> {
    if writer.rotate(0)? == Rotation::NoneReady {
        log.prepare_next()?;
        writer.rotate(0)?;
    }
    log.release_below(writer.position().log_id)?;
    Ok(())
}
