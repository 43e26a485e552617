//! Prints options as columns that fit the terminal.

use super::{write_json_option, write_json_preset};
use crate::failure::Failure;
use crate::format::human_bytes;
use esker::options::{KeptTables, OptionInfo, OptionScope, OptionValue, Preset};
use std::io::Write;

/// Spaces between two columns.
const GAP: usize = 2;
/// Least width: below it the last column would be a word wide.
const MIN_WIDTH: usize = 60;
/// Greatest width: longer lines are hard to read.
const MAX_WIDTH: usize = 140;

/// The page's width and style.
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) json: bool,
}

impl Layout {
    pub(super) fn list(&self, out: &mut dyn Write, infos: &[OptionInfo]) -> Result<(), Failure> {
        if self.json {
            return infos.iter().try_for_each(|info| write_json_option(out, info, None));
        }
        for (scope, title) in [
            (OptionScope::Database, "Options of a database, given when it is opened"),
            (OptionScope::Keyspace, "Options of a keyspace, stored with it"),
        ] {
            let infos: Vec<&OptionInfo> = infos.iter().filter(|info| info.scope == scope).collect();
            if infos.is_empty() {
                continue;
            }
            writeln!(out, "{title}\n")?;
            let rows: Vec<[String; 4]> = infos
                .iter()
                .map(|info| {
                    [info.name.into(), info.default.clone(), info.change.to_string(), info.allowed.clone()]
                })
                .collect();
            let widths = widths(&["OPTION", "DEFAULT", "CHANGES HOLD", "MAY BE"], &rows);
            self.row(out, &widths, &["OPTION", "DEFAULT", "CHANGES HOLD", "MAY BE"].map(str::to_owned))?;
            for (info, row) in infos.iter().zip(&rows) {
                self.row(out, &widths, row)?;
                self.help(out, info)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    pub(super) fn values(
        &self,
        out: &mut dyn Write,
        title: &str,
        infos: &[OptionInfo],
        values: &[OptionValue],
    ) -> Result<(), Failure> {
        let infos = infos.iter().filter_map(|info| {
            let value = values.iter().find(|value| value.name == info.name)?;
            Some((info, value))
        });
        if self.json {
            return infos.into_iter().try_for_each(|(info, value)| write_json_option(out, info, Some(value)));
        }
        let rows: Vec<[String; 4]> = infos
            .map(|(info, value)| {
                let mark = if value.is_default { "  " } else { "* " };
                let changes = info.change.to_string();
                [format!("{mark}{}", info.name), value.text.clone(), changes, info.default.clone()]
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "{title}\n")?;
        let titles = ["  OPTION", "VALUE", "CHANGES HOLD", "DEFAULT"];
        let widths = widths(&titles, &rows);
        self.row(out, &widths, &titles.map(str::to_owned))?;
        rows.iter().try_for_each(|row| self.row(out, &widths, row))?;
        if rows.iter().any(|row| row[0].starts_with('*')) {
            writeln!(out, "\n* differs from the default")?;
        }
        writeln!(out)?;
        Ok(())
    }

    pub(super) fn changed(
        &self,
        out: &mut dyn Write,
        info: &OptionInfo,
        before: &str,
        after: &str,
        kept: &KeptTables,
    ) -> Result<(), Failure> {
        let (tables, bytes) =
            if kept.options.contains(&info.name) { (kept.tables, kept.bytes) } else { (0, 0) };
        if self.json {
            let members: [(_, serde_json::Value); 5] = [
                ("option", info.name.into()),
                ("before", before.into()),
                ("after", after.into()),
                ("kept_tables", tables.into()),
                ("kept_bytes", bytes.into()),
            ];
            return super::write_json(out, members.map(|(name, value)| (name.to_owned(), value)));
        }
        if before == after {
            writeln!(out, "{} was {after} already", info.name)?;
        } else {
            writeln!(out, "{}: {before} -> {after} (holds: {})", info.name, info.change)?;
            if tables > 0 {
                let noun = if tables == 1 { "table" } else { "tables" };
                let size = human_bytes(bytes);
                writeln!(out, "  {tables} {noun} of {size} from before the change, until merged")?;
            }
        }
        Ok(())
    }

    pub(super) fn presets(&self, out: &mut dyn Write) -> Result<(), Failure> {
        for preset in Preset::ALL {
            if self.json {
                write_json_preset(out, preset)?;
            } else {
                writeln!(out, "{}", preset.name)?;
                self.indented(out, preset.help)?;
            }
        }
        Ok(())
    }

    /// Prints the description of an option, with its default and its aliases.
    fn help(&self, out: &mut dyn Write, info: &OptionInfo) -> Result<(), Failure> {
        let mut help = info.help.to_owned();
        if let Some(means) = info.default_means {
            help.push_str(&format!(" {}: {means}.", info.default));
        }
        if !info.aliases.is_empty() {
            help.push_str(&format!(" Also {}.", info.aliases.join(", ")));
        }
        self.indented(out, &help)
    }

    fn indented(&self, out: &mut dyn Write, text: &str) -> Result<(), Failure> {
        for line in wrapped(text, self.width().saturating_sub(4)) {
            writeln!(out, "    {line}")?;
        }
        Ok(())
    }

    /// A row, whose last column is wrapped.
    fn row(&self, out: &mut dyn Write, widths: &[usize; 3], row: &[String; 4]) -> Result<(), Failure> {
        let before: usize = widths.iter().map(|width| width + GAP).sum();
        let lines = wrapped(&row[3], self.width().saturating_sub(before).max(MIN_WIDTH / 4));
        for (at, line) in lines.iter().enumerate() {
            for (cell, width) in row.iter().zip(widths) {
                let cell = if at == 0 { cell.as_str() } else { "" };
                write!(out, "{cell:width$}  ")?;
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn width(&self) -> usize {
        self.width.clamp(MIN_WIDTH, MAX_WIDTH)
    }
}

fn widths(titles: &[&str; 4], rows: &[[String; 4]]) -> [usize; 3] {
    [0, 1, 2].map(|at| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([titles[at].len()]).max().unwrap_or(0)
    })
}

/// Text in lines of at most `width` characters, where its words allow that; one line at least. Words that are
/// too long are broken behind commas and colons.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let is_long = word.chars().count() > width;
        let pieces = word.split_inclusive(|letter| is_long && matches!(letter, ',' | ':'));
        for (at, piece) in pieces.enumerate() {
            let line = lines.last_mut().expect("there is always one");
            let gap = if at == 0 && !line.is_empty() { " " } else { "" };
            if line.is_empty() || line.chars().count() + gap.len() + piece.chars().count() <= width {
                line.push_str(gap);
                line.push_str(piece);
            } else {
                lines.push(piece.to_owned());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_words() {
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("such as a=1,b=2,c=3", 9), ["such as", "a=1,b=2,", "c=3"]);
        assert_eq!(wrapped("unbreakable as it is", 4), ["unbreakable", "as", "it", "is"]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [80, 120] {
            let (mut out, layout) = (Vec::new(), Layout { width, json: false });
            layout.list(&mut out, &OptionInfo::all()).unwrap();
            layout.presets(&mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(text.contains("write_buffer_size") && text.contains("memory_budget"));
        }
    }
}
