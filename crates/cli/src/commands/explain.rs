//! `explain`: prints explanations as a tree, in lines of eighty columns, or as JSON.

use super::Context;
use crate::args::{ExplainArgs, ExplainCommand, ExplainScanArgs};
use crate::failure::{Exit, Failure};
use esker::explain::{Explanation, ScanOptions};
use std::ops::Bound;

pub(super) fn run(context: &mut Context<'_>, args: &ExplainArgs) -> Result<Exit, Failure> {
    let explanation = match &args.what {
        ExplainCommand::Get { wanted } => {
            let key = context.parse_key(wanted)?;
            context.existing_keyspace()?.explain_get(&key)?.1
        }
        ExplainCommand::Scan(scan) => explain_scan(context, scan)?,
        ExplainCommand::Put => context.existing_keyspace()?.explain_put()?,
        ExplainCommand::Space => context.database.explain_space()?,
        ExplainCommand::Memory => context.database.explain_memory(),
        ExplainCommand::Stall => context.database.explain_stall(),
    };
    if context.shape.json {
        writeln!(context.out, "{}", explanation.to_json())?;
    } else {
        for line in explanation.to_string().lines() {
            context.out.write_all(wrapped(line).as_bytes())?;
        }
    }
    Ok(Exit::Done)
}

/// Widest line: that of a terminal.
const COLUMNS: usize = 80;

/// The cells before a step of the tree, and what stands below them where its line goes on.
const CELLS: [(&str, &str); 4] = [("|- ", "|  "), ("`- ", "   "), ("|  ", "|  "), ("   ", "   ")];

/// A line of the tree with its end, in lines of [`COLUMNS`] where it is longer.
fn wrapped(line: &str) -> String {
    let (mut rest, mut below) = (line, String::new());
    while let Some((cell, next)) = CELLS.iter().find(|(cell, _)| rest.starts_with(cell)) {
        rest = rest.get(cell.len()..).unwrap_or_default();
        below.push_str(next);
    }
    below.push_str("  ");
    let mut out = line.get(..line.len() - rest.len()).unwrap_or_default().to_owned();
    let mut columns = out.chars().count();
    for (at, word) in rest.split(' ').enumerate() {
        let len = word.chars().count();
        if at > 0 && columns + 1 + len > COLUMNS {
            out.push('\n');
            out.push_str(&below);
            columns = below.chars().count();
        } else if at > 0 {
            out.push(' ');
            columns += 1;
        }
        out.push_str(word);
        columns += len;
    }
    out.push('\n');
    out
}

fn explain_scan(context: &Context<'_>, args: &ExplainScanArgs) -> Result<Explanation, Failure> {
    let range = context.parse_range(&args.range)?;
    let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let options = ScanOptions::default().limit(args.limit.unwrap_or(u64::MAX)).reverse(args.reverse);
    let bounds = (Bound::Included(range.start.as_slice()), end);
    Ok(context.existing_keyspace()?.explain_scan(bounds, options, |_, _| ())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below_their_step() {
        let words = vec!["word"; 30].join(" ");
        for (cells, below) in [("", "  "), ("|- ", "|    "), ("|  `- ", "|       "), ("   |- ", "   |    ")] {
            let text = wrapped(&format!("{cells}{words}"));
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= COLUMNS), "{text}");
            assert!(lines[0].starts_with(cells), "{text}");
            let rest: Vec<&str> = lines[1..].iter().filter_map(|line| line.strip_prefix(below)).collect();
            let joined = format!("{} {}", &lines[0][cells.len()..], rest.join(" "));
            assert_eq!(joined, words);
        }
        assert_eq!(wrapped("|- short"), "|- short\n");
        let long = "x".repeat(200);
        assert_eq!(wrapped(&format!("|- {long}")), format!("|- {long}\n"));
    }
}
