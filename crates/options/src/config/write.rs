//! Writing a configuration.

use crate::{KeyspaceOptions, OptionValue, Options};
use std::fmt::Write;

/// The options that differ from the defaults.
pub(super) fn write(options: &Options) -> String {
    let mut out = String::new();
    assignments(&mut out, &options.values());
    let defaults = options.keyspace.values();
    if defaults.iter().any(|value| !value.is_default) {
        section(&mut out, "keyspace_defaults");
        assignments(&mut out, &defaults);
    }
    for (keyspace, settings) in options.named.iter() {
        section(&mut out, &format!("keyspace.{}", quoted(keyspace)));
        for (name, value) in settings {
            // In canonical form: the setting may use an alias, or a number without its unit.
            let shown = KeyspaceOptions::default().set(name, value).map(|options| options.values());
            let shown = shown.unwrap_or_default().into_iter().find(|value| value.name == name);
            match shown {
                Some(value) => assignment(&mut out, &value),
                None => line(&mut out, name, &quoted(value)),
            }
        }
    }
    out
}

fn section(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    let _infallible = writeln!(out, "[{name}]");
}

fn assignments(out: &mut String, values: &[OptionValue]) {
    for value in values.iter().filter(|value| !value.is_default) {
        assignment(out, value);
    }
}

fn assignment(out: &mut String, value: &OptionValue) {
    let text = value.text.as_str();
    // TOML's integers are signed 64-bit numbers.
    let plain = text.parse::<i64>().is_ok() && value.number.is_some() || matches!(text, "true" | "false");
    line(out, value.name, &if plain { text.to_owned() } else { quoted(text) });
}

fn line(out: &mut String, name: &str, value: &str) {
    let _infallible = writeln!(out, "{name} = {value}");
}

/// A basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            char if char.is_control() => {
                let _infallible = write!(out, "\\u{:04X}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}
