//! `inspect`: prints the content of one file of the database. It needs no open database, so it works on
//! damaged ones.

mod blob;
mod manifest;
mod table;
mod wal;

use crate::args::{FileKind, Global, InspectArgs, Shape};
use crate::failure::{Exit, Failure};
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// Prints findings, as lines of text or as JSON objects.
struct Printer<'a> {
    out: &'a mut dyn Write,
    shape: Shape,
    /// Entries, records or edits that may still be printed.
    left: u64,
}

pub(crate) fn run(global: &Global, args: &InspectArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let shape = global.shape.or(&Shape::default());
    let mut printer = Printer { out, shape, left: args.limit.unwrap_or(u64::MAX) };
    let path: &Path = &args.file;
    match args.kind {
        FileKind::Table => table::inspect(&mut printer, path, args.entries, args.index),
        FileKind::Blob => blob::inspect(&mut printer, path),
        FileKind::Wal => wal::inspect(&mut printer, path),
        FileKind::Manifest => manifest::inspect(&mut printer, path),
    }
}

impl Printer<'_> {
    /// Facts about the whole file, one a line.
    fn facts(&mut self, what: &str, facts: &[(&str, Value)]) -> Result<(), Failure> {
        if self.shape.json {
            return self.object(what, facts);
        }
        writeln!(self.out, "{what}")?;
        for (name, value) in facts {
            writeln!(self.out, "  {name:<22} {}", plain(value))?;
        }
        Ok(())
    }

    /// One of many items, in one line; `false` when the limit is reached.
    fn item(&mut self, what: &str, facts: &[(&str, Value)]) -> Result<bool, Failure> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.part(what, facts)?;
        Ok(true)
    }

    /// One of few items, in one line; not counted against the limit.
    fn part(&mut self, what: &str, facts: &[(&str, Value)]) -> Result<(), Failure> {
        if self.shape.json {
            return self.object(what.trim_start(), facts);
        }
        write!(self.out, "{what}")?;
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_null()) {
            write!(self.out, "  {name} {}", plain(value))?;
        }
        writeln!(self.out)?;
        Ok(())
    }

    /// A line that is printed in text output only.
    fn remark(&mut self, text: &str) -> Result<(), Failure> {
        if self.shape.json {
            return self.object("remark", &[("text", text.into())]);
        }
        writeln!(self.out, "{text}")?;
        Ok(())
    }

    fn object(&mut self, what: &str, facts: &[(&str, Value)]) -> Result<(), Failure> {
        let facts = facts.iter().map(|(name, value)| (name.replace(' ', "_"), value.clone()));
        super::write_json(self.out, std::iter::once(("item".to_owned(), what.into())).chain(facts))
    }

    /// A key in the chosen format, or escaped if it cannot be written in it.
    fn key(&self, bytes: &[u8]) -> Value {
        self.shape.key.in_line(bytes).unwrap_or_else(|_| crate::format::escape(bytes)).into()
    }

    /// The beginning of a value, in the chosen format.
    fn value(&self, bytes: &[u8]) -> Value {
        const LONGEST: usize = 60;
        let text = self.shape.value.in_line(bytes).unwrap_or_else(|_| crate::format::escape(bytes));
        if self.shape.json || text.chars().count() <= LONGEST {
            return text.into();
        }
        let start: String = text.chars().take(LONGEST - 1).collect();
        format!("{start}…").into()
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
