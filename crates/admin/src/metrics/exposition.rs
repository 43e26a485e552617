//! Writes samples as text. The samples of a metric stand together behind its help and its kind.

use super::catalog::Metric;
use std::fmt::{Display, Write};

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
    /// The metric whose samples are being written.
    current: Option<&'static str>,
}

impl Exposition {
    /// Appends a sample, with one value for each label of the metric.
    pub(super) fn sample(&mut self, metric: &'static Metric, values: &[&str], value: impl Display) {
        self.begin(metric);
        self.line(metric, "", values, None, value);
    }

    /// Appends a histogram: how many observations were below each bound, how many there were, and their sum.
    pub(super) fn histogram(
        &mut self,
        metric: &'static Metric,
        values: &[&str],
        below: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        self.begin(metric);
        for (bound, below) in below {
            // A count that was read later than the buckets never is below them.
            self.line(metric, "_bucket", values, Some(&bound.to_string()), below.min(count));
        }
        self.line(metric, "_bucket", values, Some("+Inf"), count);
        self.line(metric, "_sum", values, None, sum);
        self.line(metric, "_count", values, None, count);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn begin(&mut self, metric: &'static Metric) {
        if self.current != Some(metric.name) {
            self.current = Some(metric.name);
            let (name, help, kind) = (metric.name, metric.help, metric.kind.word());
            // A String takes everything, here and below.
            let _written = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
    }

    fn line(
        &mut self,
        metric: &'static Metric,
        suffix: &str,
        values: &[&str],
        bound: Option<&str>,
        value: impl Display,
    ) {
        debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
        self.text.push_str(metric.name);
        self.text.push_str(suffix);
        let pairs = metric.labels.iter().copied().zip(values.iter().copied());
        for (number, (label, value)) in pairs.chain(bound.map(|bound| ("le", bound))).enumerate() {
            let comma = if number == 0 { '{' } else { ',' };
            let _written = write!(self.text, "{comma}{label}=\"");
            self.escaped(value);
            self.text.push('"');
        }
        let end = if metric.labels.is_empty() && bound.is_none() { "" } else { "}" };
        let _written = writeln!(self.text, "{end} {value}");
    }

    fn escaped(&mut self, value: &str) {
        for char in value.chars() {
            match char {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                char => self.text.push(char),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::{COMMAND_SECONDS, KEYSPACES, TABLES};
    use super::*;

    #[test]
    fn text_is_as_the_format_wants_it() {
        let mut out = Exposition::default();
        out.sample(&KEYSPACES, &[], 2);
        out.sample(&TABLES, &["a \"b\"\\\n"], 3);
        out.sample(&TABLES, &["ä"], 4);
        out.histogram(&COMMAND_SECONDS, &["get"], [(0.001, 1), (0.5, 9)].into_iter(), 4, 0.25);
        let lines: Vec<String> = out.into_text().lines().map(str::to_owned).collect();
        let samples: Vec<&String> = lines.iter().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "esker_keyspaces 2",
                "esker_tables{keyspace=\"a \\\"b\\\"\\\\\\n\"} 3",
                "esker_tables{keyspace=\"ä\"} 4",
                "esker_command_seconds_bucket{cmd=\"get\",le=\"0.001\"} 1",
                "esker_command_seconds_bucket{cmd=\"get\",le=\"0.5\"} 4",
                "esker_command_seconds_bucket{cmd=\"get\",le=\"+Inf\"} 4",
                "esker_command_seconds_sum{cmd=\"get\"} 0.25",
                "esker_command_seconds_count{cmd=\"get\"} 4",
            ]
        );
        assert_eq!(lines.iter().filter(|line| line.starts_with("# TYPE")).count(), 3);
    }
}
