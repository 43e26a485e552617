//! Measures the memory that a codec takes while it compresses, in a process that does nothing else, because
//! allocators keep freed memory of one codec for the next.

use super::samples::DataSample;
use crate::context::Context;
use crate::error::Result;
use crate::machine::read;
use crate::table::{Column, Table};
use esker::options::Codec;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks as large as tables may have them: contexts grow with what they are given.
const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS: usize = 8;

pub(super) const SETUP: &str = "memory: the most that a process of its own held while it compressed blocks of 64 KiB and \
                                decompressed them, beyond what it held before; a thread's contexts are kept";

pub(super) fn measure(context: &mut Context<'_>, codecs: &[(&str, Codec)]) -> Result<Table> {
    let columns = [Column::key("codec"), Column::number("memory_kib", 0)];
    let mut table = Table::new("memory", "Memory while compressing blocks of 64 KiB", &columns);
    for (name, _) in codecs {
        context.step(&format!("memory of {name}"));
        let said = context.run_child_process(&["codecs", "--memory-of", name])?;
        let kib = said.and_then(|said| said.trim().parse::<f64>().ok());
        table.push(vec![(*name).into(), kib.into()]);
    }
    Ok(table)
}

/// The work of the other process: the memory in KiB that `codec` takes. `None` where the system does not
/// provide it.
pub fn compress_for_memory(codec: Codec) -> Option<u64> {
    let sample = DataSample::all(BLOCK_BYTES * BLOCKS).into_iter().next()?;
    // Touched, so that its pages are resident before.
    let mut scratch = vec![1; 4 * BLOCK_BYTES];
    let mut out = vec![1; BLOCK_BYTES];
    black_box((&mut scratch, &mut out));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let before = resident_kib()?;
        // Some codecs free everything at once, so a thread samples meanwhile.
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(resident_kib().unwrap_or(0));
            }
            most
        });
        for raw in sample.bytes.chunks(BLOCK_BYTES) {
            let stored = codec.compress(raw, &mut scratch);
            let _ = black_box(esker::parts::codec::decompress_into(stored.codec_id, stored.bytes, &mut out));
        }
        let after = resident_kib();
        done.store(true, Ordering::Relaxed);
        let most = watcher.join().ok()?.max(after?);
        Some(most.saturating_sub(before))
    })
}

/// Anonymous memory that the process has resident.
fn resident_kib() -> Option<u64> {
    let status = read("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
