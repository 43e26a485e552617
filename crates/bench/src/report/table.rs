//! Results as a table, for people.

use super::Report;
use super::rows::{AmplificationRow, MemoryBoundRow, MemoryRow, MergeRow, OverwriteRow, Row};
use std::io::{self, Write};

/// Prints a table.
#[derive(Debug)]
pub struct Table<W, N> {
    out: W,
    notes: N,
    has_head: bool,
}

impl<W: Write, N: Write> Table<W, N> {
    /// Results go to `out`, notes to `notes`.
    pub fn new(out: W, notes: N) -> Table<W, N> {
        Table { out, notes, has_head: false }
    }
}

impl<W: Write, N: Write> Report for Table<W, N> {
    fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{text}")
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_head, true) {
            let names = ("workload", "ops", "seconds", "ops/s", "p50 us", "p99 us", "p99.9", "MB/s");
            let (workload, ops, seconds, rate, p50, p99, p999, megabytes) = names;
            writeln!(
                self.out,
                "{workload:<16} {ops:>10} {seconds:>8} {rate:>9} {p50:>8} {p99:>8} {p999:>8} {megabytes:>6}"
            )?;
        }
        let Row { workload, ops, seconds, ops_per_second: rate, p50_us, p99_us, p999_us, .. } = row;
        let megabytes = row.megabytes_per_second;
        writeln!(
            self.out,
            "{workload:<16} {ops:>10} {seconds:>8.3} {rate:>9.0} {p50_us:>8.2} {p99_us:>8.2} \
             {p999_us:>8.2} {megabytes:>6.1}"
        )?;
        if let (Some(seconds), Some(rate)) = (row.drained_seconds, row.drained_ops_per_second) {
            writeln!(self.out, "{:<16} {ops:>10} {seconds:>8.3} {rate:>9.0}", "  until drained")?;
        }
        for (quantile, latency_us) in row.histogram.iter().flatten() {
            writeln!(self.out, "  {:>9.4} % {latency_us:>10.2} us", quantile * 100.0)?;
        }
        self.out.flush()
    }

    fn amplification(&mut self, row: &AmplificationRow) -> io::Result<()> {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let AmplificationRow { workload, seconds, ops_per_second, .. } = row;
        writeln!(
            self.out,
            "{workload}: {:.0} MB alive, {:.0} MB overwritten in {seconds:.1} s ({ops_per_second:.0} puts/s until drained)",
            megabytes(row.live_bytes),
            megabytes(row.user_bytes),
        )?;
        writeln!(
            self.out,
            "  write amplification {:.2} without the log, space amplification {:.2} (most {:.2}), in the directory {:.2} (most {:.2})",
            row.write_amplification,
            row.space_amplification_mean,
            row.space_amplification_max,
            row.directory_amplification_mean,
            row.directory_amplification_max,
        )?;
        self.out.flush()
    }

    fn merge(&mut self, row: &MergeRow) -> io::Result<()> {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let MergeRow { workload, passes, entries, input_runs, seconds, user_seconds, system_seconds, .. } =
            row;
        writeln!(
            self.out,
            "{workload}: {entries} entries of {input_runs} runs, {:.0} MB into {:.0} MB, in {seconds:.3} s, the mean of {passes} passes",
            megabytes(row.input_bytes),
            megabytes(row.output_bytes),
        )?;
        writeln!(
            self.out,
            "  processor time {user_seconds:.3} s in the program, {system_seconds:.3} s in the system: \
             {:.1} M entries/s of program time, {:.1} M entries/s of both",
            row.entries_per_user_second / 1e6,
            *entries as f64 / (user_seconds + system_seconds).max(1e-9) / 1e6,
        )?;
        self.out.flush()
    }

    fn overwrite(&mut self, row: &OverwriteRow) -> io::Result<()> {
        let OverwriteRow { workload, puts, seconds, puts_per_second: rate, .. } = row;
        writeln!(
            self.out,
            "{workload}: {puts} puts in {seconds:.1} s, {rate:.0} a second; drained after {:.1} s",
            row.drained_seconds
        )?;
        writeln!(
            self.out,
            "  worst second {} puts, {:.2} of the mean; waited {} times, {} ms in all",
            row.worst_second_puts, row.worst_second_share, row.stalls, row.stall_ms
        )?;
        if !row.held_back_ms.is_empty() {
            let causes: Vec<_> =
                row.held_back_ms.iter().map(|(cause, ms)| format!("{cause} {ms} ms")).collect();
            writeln!(self.out, "  held back: {}", causes.join(", "))?;
        }
        writeln!(
            self.out,
            "  a put, us: p50 {:.2}, p99 {:.2}, p99.9 {:.1}, p99.99 {:.1}, longest {:.0}",
            row.p50_us, row.p99_us, row.p999_us, row.p9999_us, row.longest_us
        )?;
        writeln!(
            self.out,
            "  longer than 10 ms: {} puts, {} of them for want of a processor, {} unexplained",
            row.slow_puts, row.off_processor_puts, row.unexplained_puts
        )?;
        writeln!(
            self.out,
            "  write amplification {:.2} without the log, until drained",
            row.write_amplification
        )?;
        self.out.flush()
    }

    fn memory_bound(&mut self, row: &MemoryBoundRow) -> io::Result<()> {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        if !std::mem::replace(&mut self.has_head, true) {
            writeln!(self.out, "phase, MiB    seconds    peak   bound    told  off by  parts")?;
        }
        let parts: Vec<String> =
            row.parts.iter().map(|(name, bytes)| format!("{name} {:.1}", mebibytes(*bytes))).collect();
        writeln!(
            self.out,
            "{:<12} {:>8.1} {:>7.1} {:>7.1} {:>7.1} {:>5.1} %  {}",
            row.phase,
            row.seconds,
            mebibytes(row.peak_bytes),
            mebibytes(row.bound_bytes),
            mebibytes(row.told_bytes),
            row.worst_difference * 100.0,
            parts.join(", "),
        )?;
        self.out.flush()
    }

    fn memory(&mut self, row: &MemoryRow) -> io::Result<()> {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            self.out,
            "memory, MiB: {:.1} the database's (budget {:.1}), {:.1} the benchmark's",
            mebibytes(row.database_bytes),
            mebibytes(row.budget_bytes),
            mebibytes(row.harness_bytes),
        )
    }
}
