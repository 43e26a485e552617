//! A directive of redis.conf: which values it takes.

use super::buffer_limits::BufferLimits;
use crate::keyspace_events::KeyspaceEvents;
use esker_resp::double::parse_double;
use esker_resp::integer::parse_integer;
use esker_resp::memory_size::parse_memory_size;

/// What values a directive takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// `yes` or `no`.
    YesNo,
    /// A whole number, this or more.
    Integer { least: i64 },
    /// A number of bytes, with a unit perhaps, this or more.
    Memory { least: u64 },
    /// One of these words.
    Word(&'static [&'static str]),
    /// The letters of `notify-keyspace-events`.
    Events,
    /// Limits of classes of clients.
    BufferLimits,
    /// Numbers from 0 to 100.
    Percentiles,
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
            Kind::Integer { least } => match parse_integer(value) {
                Some(number) if number >= least => Ok(value.to_vec()),
                Some(_) => Err(format!("argument must be between {least} and {} inclusive", i64::MAX)),
                None => Err("argument couldn't be parsed into an integer".to_owned()),
            },
            Kind::Memory { least } => match parse_memory_size(value) {
                Some(bytes) if bytes >= least => Ok(bytes.to_string().into_bytes()),
                Some(_) => Err(format!("argument must be between {least} and {} inclusive", i64::MAX)),
                None => Err("argument must be a memory value".to_owned()),
            },
            Kind::Word(words) => {
                let found = words.iter().find(|word| is_word(word));
                found
                    .map(|word| word.as_bytes().to_vec())
                    .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")))
            }
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
            Kind::Percentiles => percentiles(value),
            Kind::Text => Ok(value.to_vec()),
        }
    }
}

/// Percentiles with six places at most and no zeros behind them.
fn percentiles(value: &[u8]) -> Result<Vec<u8>, String> {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let shown = words.map(|word| match parse_double(word) {
        Some(number) if (0.0..=100.0).contains(&number) => {
            let places = format!("{number:.6}");
            Ok(places.trim_end_matches('0').trim_end_matches('.').to_owned())
        }
        Some(number) if !number.is_nan() => {
            Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".to_owned())
        }
        _ => Err("Invalid latency-tracking-info-percentiles parameters".to_owned()),
    });
    Ok(shown.collect::<Result<Vec<_>, String>>()?.join(" ").into_bytes())
}
