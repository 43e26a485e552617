//! Configuration file: the options of the library, and the section `[serve]` with those of `esker serve`.
//!
//! The library does not know `[serve]`. Its lines are taken out of the text before the library reads it, and
//! stay empty, so that every error names the line of the file.

use crate::failure::Failure;
use crate::host;
use esker::Options;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The section of `esker serve`.
const SERVE: &str = "serve";

/// A configuration file whose syntax is TOML.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// The text without the section.
    options: String,
    /// What the section holds, in the order of the file.
    serve: Vec<Setting>,
}

/// An entry of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// As it is written.
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) value: SettingValue,
}

/// The value of an entry, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingValue {
    Is(bool),
    One(String),
    Several(Vec<String>),
    /// Names with one value or several.
    Named(Vec<(String, Vec<String>)>),
}

impl ConfigFile {
    pub(crate) fn read(path: &Path) -> Result<ConfigFile, Failure> {
        let text = String::from_utf8(host::content_of(path)?).map_err(|_| {
            Failure::usage(format!("configuration {}: the file is not UTF-8", path.display()))
        })?;
        ConfigFile::parse(path, text)
    }

    fn parse(path: &Path, mut text: String) -> Result<ConfigFile, Failure> {
        let source = text.clone();
        let wrong = |at: usize, what: &str| {
            Failure::usage(format!("{}, line {}: {what}", path.display(), line_of(&source, at)))
        };
        let parsed = DeTable::parse(&source)
            .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message().trim()))?;
        let mut serve = Vec::new();
        if let Some((key, value)) = parsed.get_ref().iter().find(|(key, _)| key.get_ref() == SERVE) {
            let DeValue::Table(table) = value.get_ref() else {
                return Err(wrong(key.span().start, "[serve] is a section, and has no value itself"));
            };
            for (name, value) in table {
                let at = name.span().start;
                serve.push(Setting {
                    name: name.get_ref().to_string(),
                    line: line_of(&source, at),
                    value: setting_value(value.get_ref()).ok_or_else(|| {
                        wrong(at, &format!("{} has a value of no known kind", name.get_ref()))
                    })?,
                });
            }
            serve.sort_by_key(|setting| setting.line);
            blank_entry(&mut text, &source, key, value);
        }
        Ok(ConfigFile { path: path.to_owned(), options: text, serve })
    }

    /// The options of the library.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        Options::from_toml(&self.options).map_err(|error| {
            let failure = Failure::from(error);
            let place = failure.message().strip_prefix("configuration, ").map(str::to_owned);
            match place {
                Some(rest) => Failure::usage(format!("{}, {rest}", self.path.display())),
                None => failure.about(self.path.display()),
            }
        })
    }

    /// The settings of `esker serve`.
    pub(crate) fn serve(&self) -> &[Setting] {
        &self.serve
    }

    /// An error about a line of the file.
    pub(crate) fn wrong(&self, line: usize, what: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("{}, line {line}: {what}", self.path.display()))
    }
}

fn setting_value(value: &DeValue<'_>) -> Option<SettingValue> {
    match value {
        DeValue::Boolean(is) => Some(SettingValue::Is(*is)),
        DeValue::Array(_) => several(value).map(SettingValue::Several),
        DeValue::Table(table) => {
            let mut named: Vec<(Range<usize>, String, Vec<String>)> = Vec::new();
            for (name, value) in table {
                named.push((name.span(), name.get_ref().to_string(), several(value.get_ref())?));
            }
            named.sort_by_key(|(span, _, _)| span.start);
            Some(SettingValue::Named(named.into_iter().map(|(_, name, values)| (name, values)).collect()))
        }
        value => one(value).map(SettingValue::One),
    }
}

/// A list, or one value as a list.
fn several(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::Array(values) => values.iter().map(|value| one(value.get_ref())).collect(),
        value => one(value).map(|value| vec![value]),
    }
}

fn one(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(is) => Some(if *is { "yes" } else { "no" }.to_owned()),
        _ => None,
    }
}

/// Blanks the lines of an entry, or of all entries of a section. TOML has at most one entry a line.
fn blank_entry(text: &mut String, source: &str, key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) {
    blank(text, key.span());
    match value.get_ref() {
        // The place of a section is its header, that of a table in one line is all of it.
        DeValue::Table(table) if source.as_bytes().get(value.span().start) != Some(&b'{') => {
            for (key, value) in table {
                blank_entry(text, source, key, value);
            }
        }
        _ => blank(text, value.span()),
    }
}

/// Replaces the lines that the range touches by spaces; lines stay where they are.
fn blank(text: &mut String, range: Range<usize>) {
    let start = text.get(..range.start).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let last = range.end.saturating_sub(1).max(range.start).min(text.len());
    let end = text.get(last..).and_then(|after| after.find('\n')).map_or(text.len(), |at| last + at);
    let Some(lines) = text.get(start..end) else { return };
    let blanked: String = lines.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(start..end, &blanked);
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, Failure> {
        ConfigFile::parse(Path::new("a.toml"), text.to_owned())
    }

    fn shown(text: &str) -> Vec<(String, usize, SettingValue)> {
        let file = parse(text).expect(text);
        drop(file.options().expect("the rest is for the library"));
        file.serve.into_iter().map(|setting| (setting.name, setting.line, setting.value)).collect()
    }

    #[test]
    fn the_section_is_read_and_the_rest_is_the_librarys() {
        let text = "\
memory_budget = \"64MiB\"

[serve]   # addresses
redis = \"127.0.0.1:6379\"
dsl = 'off'
max_clients = 7
check = true

[serve.redis_set]
requirepass = \"a \\\" [x]\"
user = [\"a on\", \"b on\"]

[keyspace.users]
block_size = \"16KiB\"
";
        let one = |text: &str| SettingValue::One(text.to_owned());
        let named = |name: &str, values: &[&str]| {
            (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            shown(text),
            [
                ("redis".to_owned(), 4, one("127.0.0.1:6379")),
                ("dsl".to_owned(), 5, one("off")),
                ("max_clients".to_owned(), 6, one("7")),
                ("check".to_owned(), 7, SettingValue::Is(true)),
                (
                    "redis_set".to_owned(),
                    9,
                    SettingValue::Named(vec![
                        named("requirepass", &["a \" [x]"]),
                        named("user", &["a on", "b on"])
                    ])
                ),
            ]
        );
    }

    #[test]
    fn every_form_of_a_table_is_taken_out() {
        for text in [
            "serve = { dsl = \"off\", redis_set = { a = 1 } }\nread_only = false\n",
            "serve.dsl = \"off\"\nserve.redis_set.a = 1\nread_only = false\n",
            "read_only = false\n[serve.redis_set]\na = 1\n[keyspace.a]\n[serve]\ndsl = \"off\"\n",
            "read_only = false\n[ serve ]\ndsl = \"\"\"\noff\n[serve]\n\"\"\"\n\"redis_set\".a = [\n1,\n2]\n",
            "[serve]\ndsl = \"off\" # ü\nredis_set.a = 1",
        ] {
            let names: Vec<String> = shown(text).into_iter().map(|(name, ..)| name).collect();
            assert!(names.contains(&"dsl".to_owned()) && names.contains(&"redis_set".to_owned()), "{text}");
            let rest = parse(text).expect(text).options;
            assert_eq!(rest.matches("read_only").count(), text.matches("read_only").count(), "{rest}");
            assert_eq!(rest.matches("keyspace").count(), text.matches("keyspace").count(), "{rest}");
            assert!(!rest.contains("dsl") && !rest.contains("redis_set"), "{rest}");
        }
        assert!(shown("[serve]\n").is_empty() && shown("").is_empty());
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        for (text, expected) in [
            ("a = \n", "a.toml, line 1: "),
            ("[serve]\ndsl = \"off\"\n\n[keyspace.a]\nblock_sise = 1\n", "a.toml, line 5: "),
            ("\nserve = 1\n", "a.toml, line 2: [serve] is a section"),
            ("[serve]\n\nwatch = 1979-05-27\n", "a.toml, line 3: watch has a value of no known kind"),
            ("memory = 5\n[serve]\n", "a.toml, line 1: "),
        ] {
            let failure = parse(text).and_then(|file| file.options()).expect_err(text);
            assert!(failure.message().starts_with(expected), "{text}: {}", failure.message());
        }
    }
}
