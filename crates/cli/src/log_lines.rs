//! Forms of the log's lines beside that for people: a JSON object a line, and the lines of redis-server.

use esker::parts::env::Env;
use serde_json::{Map, Value};
use std::fmt::{self, Debug};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Names of months, as redis-server writes them.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A JSON object a line: `time`, `level`, `target`, `message` and what else is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonLines;

/// `PID:M 28 Nov 2026 06:34:30.854 * text`. The time is that of Greenwich.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedisLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = EventFields(Map::new());
        let time = Moment::new(Env::real().clock.wall_ms());
        fields.0.insert("time".into(), time.iso().into());
        fields.0.insert("level".into(), event.metadata().level().as_str().into());
        fields.0.insert("target".into(), event.metadata().target().into());
        event.record(&mut fields);
        writeln!(out, "{}", Value::Object(fields.0))
    }
}

impl<S, N> FormatEvent<S, N> for RedisLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let sign = match *event.metadata().level() {
            Level::ERROR | Level::WARN => '#',
            Level::INFO => '*',
            Level::DEBUG => '-',
            Level::TRACE => '.',
        };
        let time = Moment::new(Env::real().clock.wall_ms());
        write!(out, "{}:M {} {sign} ", std::process::id(), time.redis())?;
        ctx.format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}

/// Fields of an event by their names.
struct EventFields(Map<String, Value>);

impl EventFields {
    fn insert(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.insert(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }
}

/// A moment as date and time of day.
#[derive(Clone, Copy, Debug)]
struct Moment {
    year: u64,
    /// From 0.
    month: usize,
    day: u64,
    ms_of_day: u64,
}

impl Moment {
    /// The moment so many milliseconds after the beginning of 1970.
    fn new(ms: u64) -> Moment {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut days, ms_of_day) = (ms / 86_400_000, ms % 86_400_000);
        let mut year = 1970;
        while days >= 365 + u64::from(is_leap(year)) {
            days -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        let mut month = 0;
        let february = 28 + u64::from(is_leap(year));
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        Moment { year, month, day: days + 1, ms_of_day }
    }

    fn time_of_day(self) -> String {
        let (seconds, ms) = (self.ms_of_day / 1000, self.ms_of_day % 1000);
        format!("{:02}:{:02}:{:02}.{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    fn iso(self) -> String {
        format!("{:04}-{:02}-{:02}T{}Z", self.year, self.month + 1, self.day, self.time_of_day())
    }

    fn redis(self) -> String {
        format!("{:02} {} {:04} {}", self.day, MONTHS[self.month], self.year, self.time_of_day())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        for (ms, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_795_847_670_854, "2026-11-28T06:34:30.854Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Moment::new(ms).iso(), date);
        }
        assert_eq!(Moment::new(1_795_847_670_854).redis(), "28 Nov 2026 06:34:30.854");
    }
}
