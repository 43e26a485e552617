//! The catalogue as a page of the documentation.

use super::{ALL, MAX_KEYSPACES};
use std::fmt::Write;

/// The text of docs/metrics.md.
pub fn document() -> String {
    let mut text = format!(
        "# Metrics\n\n\
         Made from [`catalog.rs`](../crates/admin/src/metrics/catalog.rs): `ESKER_WRITE=1 cargo test -p \
         esker-admin --test metrics`.\n\
         `esker serve` answers them at `/metrics` of its admin address ([admin.md](admin.md)), in the text format \
         of Prometheus.\n\n\
         Units are seconds and bytes; totals end in `_total`. What is counted *over the database's life* outlasts \
         restarts; other totals begin with\nthe process, and those of commands anew with CONFIG RESETSTAT. Of \
         {MAX_KEYSPACES} keyspaces at most each has series of its own.\n\n\
         | metric | kind | labels | meaning |\n|---|---|---|---|\n"
    );
    for metric in ALL {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        // A String takes everything.
        let _written = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.word(),
            labels.join(", "),
            metric.help
        );
    }
    text
}
