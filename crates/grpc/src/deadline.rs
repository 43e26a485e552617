//! Deadlines: the moment after which a caller wants no answer any more.

use http::HeaderMap;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;

/// The header with the time that a call may take.
const HEADER: &str = "grpc-timeout";

/// Most digits of that header.
const DIGITS_MAX: usize = 8;

/// When a call is given up, if ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline of a call that arrives now.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Deadline, Status> {
        let Some(value) = headers.get(HEADER) else { return Ok(Deadline(None)) };
        let timeout = value.to_str().ok().and_then(parse);
        let timeout = timeout.ok_or_else(|| {
            let message = format!("the header `{HEADER}` is {value:?}, no time such as `100m`");
            Status::invalid_argument(message)
        })?;
        Ok(Deadline(now().checked_add(timeout)))
    }

    /// A deadline this long from now, or this one if it is earlier. Whether it is the caller's own.
    pub(crate) fn within(self, limit: Duration) -> (Instant, bool) {
        let limited = now() + limit;
        match self.0 {
            Some(own) if own <= limited => (own, true),
            _ => (limited, false),
        }
    }

    /// Whether it has passed.
    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|moment| moment <= now())
    }

    /// The result of `work`, unless the deadline passes before: then the work is dropped.
    pub(crate) async fn limit<F: Future>(self, work: F) -> Option<F::Output> {
        match self.0 {
            None => Some(work.await),
            Some(moment) => tokio::time::timeout_at(moment, work).await.ok(),
        }
    }
}

/// The runtime's clock, which its timers go by.
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(count * 3600),
        'M' => Duration::from_secs(count * 60),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_digits_and_a_unit() {
        assert_eq!(parse("100m"), Some(Duration::from_millis(100)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse("1n"), Some(Duration::from_nanos(1)));
        for wrong in ["", "m", "1", "-1m", "1.5S", "123456789m", "1x", "\u{e9}", "1\u{e9}"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
