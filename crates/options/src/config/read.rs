//! Reading a configuration: the `toml` crate parses the syntax, the table of options interprets it.

use crate::{Cs265, KeyspaceOptions, Options, Preset};
use esker_base::{Error, Result};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Entry<'t, 'i> = (&'t str, Range<usize>, &'t Spanned<DeValue<'i>>);

/// Reads `text`; `file` is its origin, if it has one.
pub(super) fn read(text: &str, file: Option<&Path>) -> Result<Options> {
    let source = Source { text, file };
    let parsed = DeTable::parse(text).map_err(|error| source.wrong(error.span(), error.message().trim()))?;
    let entries = in_order(parsed.get_ref());
    let mut options = source.start(&entries)?;
    for (key, span, value) in &entries {
        options = match (*key, value.get_ref()) {
            ("preset" | "profile" | "cs265", _) => options,
            ("keyspace_defaults", DeValue::Table(table)) => source.defaults(options, table)?,
            ("keyspace", DeValue::Table(table)) => in_order(table)
                .into_iter()
                .try_fold(options, |options, entry| source.keyspace(options, entry))?,
            ("keyspace_defaults", _) => return Err(source.no_section("[keyspace_defaults]", span)),
            ("keyspace", _) => return Err(source.no_section("[keyspace.NAME]", span)),
            (name, DeValue::Table(_)) => return Err(source.unknown_section(name, span)),
            (name, value) => {
                let text = source.scalar(name, value, span)?;
                options.set(name, &text).map_err(|error| source.refused(error, span))?
            }
        };
    }
    Ok(options)
}

/// The entries of a table in the order of the text, so that the first mistake is reported.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
    let entries = table.iter().map(|(key, value)| (key.get_ref().as_ref(), key.span(), value));
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|(_, span, _)| span.start);
    entries
}

/// The text being read, for messages.
struct Source<'a> {
    text: &'a str,
    file: Option<&'a Path>,
}

impl Source<'_> {
    /// The initial options: the defaults or a preset.
    fn start(&self, entries: &[Entry<'_, '_>]) -> Result<Options> {
        let mut named = None;
        for (key, span, value) in entries {
            let preset = match (*key, value.get_ref()) {
                ("preset" | "profile", value) => {
                    let name = self.scalar(key, value, span)?;
                    Preset::find(&name)
                        .and_then(Preset::options)
                        .map_err(|error| self.refused(error, span))?
                }
                ("cs265", DeValue::Table(table)) => self.cs265(table)?,
                ("cs265", _) => return Err(self.no_section("[cs265]", span)),
                _ => continue,
            };
            if named.replace(preset).is_some() {
                return Err(self.wrong(Some(span.clone()), "options can start from one preset only"));
            }
        }
        Ok(named.unwrap_or_default())
    }

    fn cs265(&self, table: &DeTable<'_>) -> Result<Options> {
        let parameters = in_order(table).into_iter().try_fold(Cs265::default(), |parameters, entry| {
            let (name, span, value) = entry;
            let text = self.scalar(name, value.get_ref(), &span)?;
            parameters.set(name, &text).map_err(|error| self.refused(error, &span))
        });
        parameters?.options()
    }

    fn defaults(&self, options: Options, table: &DeTable<'_>) -> Result<Options> {
        in_order(table).into_iter().try_fold(options, |mut options, (name, span, value)| {
            let text = self.scalar(name, value.get_ref(), &span)?;
            let refused = |error| self.refused(error, &span);
            if name == "preset" || name == "profile" {
                let preset = Preset::find(&text).map_err(&refused)?;
                options.keyspace = preset.applied_to(options.keyspace).map_err(refused)?;
            } else {
                options.keyspace = options.keyspace.set(name, &text).map_err(refused)?;
            }
            Ok(options)
        })
    }

    fn keyspace(&self, mut options: Options, entry: Entry<'_, '_>) -> Result<Options> {
        let (keyspace, span, value) = entry;
        let DeValue::Table(table) = value.get_ref() else {
            // `keyspace.block_size = ..` is a mistake for a default of all keyspaces.
            let known = KeyspaceOptions::default()
                .set(keyspace, "")
                .is_err_and(|e| !e.to_string().contains("no option"));
            let advice =
                if known { "; options of all keyspaces stand below [keyspace_defaults]" } else { "" };
            return Err(
                self.wrong(Some(span), &format!("keyspace {keyspace:?} is no section of options{advice}"))
            );
        };
        options.named.mention(keyspace);
        in_order(table).into_iter().try_fold(options, |options, (name, span, value)| {
            let text = self.scalar(name, value.get_ref(), &span)?;
            let set = match name {
                "preset" | "profile" => {
                    Preset::find(&text).and_then(|preset| options.preset_keyspace(keyspace, preset))
                }
                _ => options.set_keyspace(keyspace, name, &text),
            };
            set.map_err(|error| self.refused(error, &span))
        })
    }

    /// A value as text.
    fn scalar(&self, name: &str, value: &DeValue<'_>, span: &Range<usize>) -> Result<String> {
        let one = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => {
                Some(number.as_str().trim_start_matches('+').to_owned())
            }
            DeValue::Integer(number) => {
                let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
                Some(number.to_string())
            }
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            DeValue::Boolean(value) => Some(value.to_string()),
            _ => None,
        };
        let text = match value {
            DeValue::Array(values) => {
                let values: Option<Vec<String>> = values.iter().map(|value| one(value.get_ref())).collect();
                values.map(|values| values.join(","))
            }
            value => one(value),
        };
        text.ok_or_else(|| {
            self.wrong(Some(span.clone()), &format!("{name} is no text, number, or list of them"))
        })
    }

    fn unknown_section(&self, name: &str, span: &Range<usize>) -> Error {
        let what = match name {
            "keyspaces" => "; did you mean [keyspace.NAME]?",
            "defaults" | "keyspace_default" => "; did you mean [keyspace_defaults]?",
            _ => "; there are [keyspace_defaults], [keyspace.NAME] and [cs265]",
        };
        self.wrong(Some(span.clone()), &format!("there is no section [{name}]{what}"))
    }

    fn no_section(&self, section: &str, span: &Range<usize>) -> Error {
        self.wrong(
            Some(span.clone()),
            &format!("{section} is a section with options, and has no value itself"),
        )
    }

    /// Adds the location to the error of a refused option.
    fn refused(&self, error: Error, span: &Range<usize>) -> Error {
        match error {
            Error::InvalidArgument(text) => {
                let misplaced = text.contains("an option of a keyspace");
                let advice =
                    if misplaced { "; it stands below [keyspace_defaults] or [keyspace.NAME]" } else { "" };
                self.wrong(Some(span.clone()), &format!("{text}{advice}"))
            }
            other => other,
        }
    }

    /// An error about the text at `span`.
    fn wrong(&self, span: Option<Range<usize>>, what: &str) -> Error {
        let before = span.and_then(|span| self.text.get(..span.start)).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Error::invalid(match self.file {
            Some(file) => format!("{}, line {line}: {what}", file.display()),
            None => format!("configuration, line {line}: {what}"),
        })
    }
}
