//! A directive of redis.conf: which values it takes.

use super::buffer_limits::BufferLimits;
use crate::keyspace_events::KeyspaceEvents;
use esker_resp::integer::parse_integer;
use esker_resp::memory_size::parse_memory_size;

/// What values a directive takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// `yes` or `no`.
    YesNo,
    /// A whole number within these bounds.
    Integer { least: i64, most: i64 },
    /// A number of bytes, with a unit perhaps, within these bounds.
    Memory { least: u64, most: u64 },
    /// A number of bytes, with a unit perhaps, or a percentage.
    MemoryOrPercent,
    /// One of these words.
    Word(&'static [&'static str]),
    /// What a signal that ends the server does: the first of [`SHUTDOWN_WORDS`], or some of the others.
    ShutdownWords,
    /// The letters of `notify-keyspace-events`.
    Events,
    /// Limits of classes of clients.
    BufferLimits,
    /// Text with rules of its own: what CONFIG GET prints of it, or why it is not taken.
    Checked(fn(&[u8]) -> Result<Vec<u8>, String>),
    /// Anything.
    Text,
}

/// A directive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directive {
    pub(super) name: &'static str,
    /// Its older name.
    pub(super) alias: Option<&'static str>,
    pub(super) kind: Kind,
    /// The value of Redis 7.0.15, as CONFIG GET prints it.
    pub(super) default: &'static str,
    /// Whether CONFIG SET refuses it.
    pub(super) is_fixed: bool,
}

impl Directive {
    /// A value as CONFIG GET prints it, when the directive has had the value `before`.
    ///
    /// # Errors
    /// Why the value is not taken.
    pub(super) fn canonical(&self, value: &[u8], before: &[u8]) -> Result<Vec<u8>, String> {
        let is_word = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
        match self.kind {
            Kind::YesNo => ["yes", "no"]
                .into_iter()
                .find(|word| is_word(word))
                .map(|word| word.as_bytes().to_vec())
                .ok_or_else(|| "argument must be 'yes' or 'no'".to_owned()),
            Kind::Integer { least, most } => match parse_integer(value) {
                Some(number) if (least..=most).contains(&number) => {
                    Ok(self.taken_integer(number).to_string().into_bytes())
                }
                Some(_) => Err(format!("argument must be between {least} and {most} inclusive")),
                None => Err("argument couldn't be parsed into an integer".to_owned()),
            },
            Kind::Memory { least, most } => match parse_memory_size(value) {
                Some(bytes) if (least..=most).contains(&bytes) => {
                    Ok(self.taken_bytes(bytes).to_string().into_bytes())
                }
                Some(_) => Err(format!("argument must be between {least} and {most} inclusive")),
                None => Err("argument must be a memory value".to_owned()),
            },
            Kind::MemoryOrPercent => memory_or_percent(value),
            Kind::Word(words) => {
                let found = words.iter().find(|word| is_word(word));
                found.map(|word| word.as_bytes().to_vec()).ok_or_else(|| no_such_word(words))
            }
            Kind::ShutdownWords => shutdown_words(value),
            Kind::Events => {
                let events = KeyspaceEvents::default();
                match events.set(value) {
                    true => Ok(events.letters().into_bytes()),
                    false => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
                }
            }
            Kind::BufferLimits => {
                let before = BufferLimits::default().changed_by(before)?;
                Ok(before.changed_by(value)?.to_string().into_bytes())
            }
            Kind::Checked(check) => check(value),
            Kind::Text => Ok(value.to_vec()),
        }
    }
}

impl Directive {
    /// What Redis makes of a number within the bounds.
    fn taken_integer(&self, number: i64) -> i64 {
        match self.name {
            "hz" => number.clamp(LEAST_HZ, MOST_HZ),
            "watchdog-period" if number > 0 => number.max(LEAST_WATCHDOG_MS),
            _ => number,
        }
    }

    /// What Redis makes of a number of bytes within the bounds.
    fn taken_bytes(&self, bytes: u64) -> u64 {
        if self.name == "repl-backlog-size" { bytes.max(LEAST_BACKLOG_BYTES) } else { bytes }
    }
}

/// Bounds into which Redis brings `hz`.
const LEAST_HZ: i64 = 1;
const MOST_HZ: i64 = 500;

/// The least `watchdog-period` that Redis keeps: two rounds of its timer at the default of `hz`.
const LEAST_WATCHDOG_MS: i64 = 200;

/// The least `repl-backlog-size` that Redis keeps.
const LEAST_BACKLOG_BYTES: u64 = 16 << 10;

/// Bytes as their number, a percentage with its sign.
fn memory_or_percent(value: &[u8]) -> Result<Vec<u8>, String> {
    const BEYOND: &str = "percentage argument must be less or equal to 100";
    if let Some(bytes) = parse_memory_size(value) {
        // Redis takes a number beyond 63 bits for a percentage.
        let bytes = i64::try_from(bytes).map_err(|_| BEYOND.to_owned())?;
        return Ok(bytes.to_string().into_bytes());
    }
    match value.strip_suffix(b"%").and_then(parse_integer) {
        Some(0) => Ok(b"0".to_vec()),
        Some(percent @ 1..=100) => Ok(format!("{percent}%").into_bytes()),
        Some(101..) => Err(BEYOND.to_owned()),
        _ => Err("argument must be a memory or percent value".to_owned()),
    }
}

fn no_such_word(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

/// The words of `shutdown-on-sigint` and `shutdown-on-sigterm`.
const SHUTDOWN_WORDS: [&str; 5] = ["default", "save", "nosave", "now", "force"];

fn shutdown_words(value: &[u8]) -> Result<Vec<u8>, String> {
    let is = |given: &[u8], word: &str| given.eq_ignore_ascii_case(word.as_bytes());
    let given: Vec<&[u8]> = value.split(|byte| *byte == b' ').collect();
    if !given.iter().all(|given| SHUTDOWN_WORDS.iter().any(|word| is(given, word))) {
        return Err(no_such_word(&SHUTDOWN_WORDS));
    }
    let has = |word: &&str| given.iter().any(|given| is(given, word));
    if has(&"save") && has(&"nosave") {
        return Err("Can't combine SAVE and NOSAVE".to_owned());
    }
    let others: Vec<&str> = SHUTDOWN_WORDS[1..].iter().copied().filter(has).collect();
    Ok(if others.is_empty() { SHUTDOWN_WORDS[0].to_owned() } else { others.join(" ") }.into_bytes())
}
