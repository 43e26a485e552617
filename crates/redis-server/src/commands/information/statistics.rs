//! The sections of INFO about commands: how often each was called, how long it took, which errors there were.

use crate::server::Server;
use esker_resp::double::parse_double;
use std::fmt::Write;

/// `commandstats`: the commands that were called or rejected.
pub(super) fn commands(server: &Server, text: &mut String) {
    text.push_str("# Commandstats\r\n");
    for (command, total) in server.observed.commands.totals() {
        if total.calls == 0 && total.rejected == 0 {
            continue;
        }
        let usec = total.nanos as f64 / 1e3;
        let per_call = if total.calls == 0 { 0.0 } else { usec / total.calls as f64 };
        // A String takes everything.
        let _written = write!(
            text,
            "cmdstat_{}:calls={},usec={},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}\r\n",
            command.name(),
            total.calls,
            total.nanos / 1000,
            total.rejected,
            total.failed,
        );
    }
}

/// `errorstats`: the codes of error replies.
pub(super) fn errors(server: &Server, text: &mut String) {
    text.push_str("# Errorstats\r\n");
    for (code, count) in server.observed.commands.errors() {
        // A code comes from a script, perhaps; a colon would end the name.
        let code = String::from_utf8_lossy(&code).replace([':', '='], "_");
        let _written = write!(text, "errorstat_{code}:count={count}\r\n");
    }
}

/// `latencystats`: percentiles of the times of commands, which the directive
/// `latency-tracking-info-percentiles` names.
pub(super) fn latencies(server: &Server, text: &mut String) {
    text.push_str("# Latencystats\r\n");
    let wanted = server.config.get("latency-tracking-info-percentiles");
    let wanted: Vec<f64> = wanted.split(|byte| *byte == b' ').filter_map(parse_double).collect();
    for (command, total) in server.observed.commands.totals() {
        let Some(counts) = total.latencies.filter(|counts| counts.total() > 0) else { continue };
        let _written = write!(text, "latency_percentiles_usec_{}:", command.name());
        for (number, percent) in wanted.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let usec = counts.percentile(*percent) as f64 / 1e3;
            let _written = write!(text, "{comma}p{percent}={usec:.3}");
        }
        text.push_str("\r\n");
    }
}
