//! LATENCY: which events took long, and how the times of commands are distributed.

use super::{Family, reply_help};
use crate::call::Call;
use crate::failure::Outcome;
use crate::observed::latency::{LatencyEvent, Samples};
use esker_redis_commands::{Command, find_full};
use std::fmt::Write;

pub(crate) const COMMANDS: Family = &[
    ("latency|doctor", doctor),
    ("latency|graph", graph),
    ("latency|help", help),
    ("latency|histogram", histogram),
    ("latency|history", history),
    ("latency|latest", latest),
    ("latency|reset", reset),
];

fn latest(call: &mut Call<'_, '_>) -> Outcome {
    let events = call.server.observed.latency.all();
    call.reply.array(events.len());
    for (event, samples) in events {
        let Some(last) = samples.list.back() else { continue };
        call.reply.array(4);
        call.reply.bulk(event.name().as_bytes());
        call.reply.integer(last.time_s as i64);
        call.reply.integer(last.latency_ms as i64);
        call.reply.integer(samples.highest_ms as i64);
    }
    Ok(())
}

fn samples_of(call: &Call<'_, '_>) -> Option<Samples> {
    LatencyEvent::named(call.args[2]).and_then(|event| call.server.observed.latency.of(event))
}

fn history(call: &mut Call<'_, '_>) -> Outcome {
    let samples = samples_of(call).unwrap_or_default();
    call.reply.array(samples.list.len());
    for sample in samples.list {
        call.reply.array(2);
        call.reply.integer(sample.time_s as i64);
        call.reply.integer(sample.latency_ms as i64);
    }
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> Outcome {
    let latency = &call.server.observed.latency;
    let forgotten = match call.args.len() {
        2 => latency.forget_all(),
        _ => {
            let events = call.args[2..].iter().filter_map(|name| LatencyEvent::named(name));
            events.filter(|event| latency.forget(*event)).count()
        }
    };
    call.reply.integer(forgotten as i64);
    Ok(())
}

/// Marks of a graph, from the lowest to the highest latency.
const MARKS: [char; 5] = ['_', '.', 'o', 'O', '#'];

fn graph(call: &mut Call<'_, '_>) -> Outcome {
    let Some(samples) = samples_of(call) else {
        let name = crate::failure::shown(call.args[2]);
        return Err([b"ERR No samples available for event '", name, b"'"].concat().into());
    };
    let latencies = || samples.list.iter().map(|sample| sample.latency_ms);
    let (low, high) = (latencies().min().unwrap_or_default(), latencies().max().unwrap_or_default());
    let name = LatencyEvent::named(call.args[2]).map_or("", LatencyEvent::name);
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        samples.highest_ms,
        "-".repeat(80)
    );
    let steps = MARKS.len() as u64;
    text.extend(latencies().map(|latency_ms| {
        let step = (latency_ms - low) * (steps - 1) / (high - low).max(1);
        MARKS[(step as usize).min(MARKS.len() - 1)]
    }));
    let now_s = call.server.now_ms() / 1000;
    let age = |sample: Option<&crate::observed::latency::Sample>| {
        sample.map_or(0, |sample| now_s.saturating_sub(sample.time_s))
    };
    // A String takes everything.
    let _written = write!(
        text,
        "\n\nThe first mark is {} s old, the last {} s.\n",
        age(samples.list.front()),
        age(samples.list.back())
    );
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn doctor(call: &mut Call<'_, '_>) -> Outcome {
    let latency = &call.server.observed.latency;
    let events = latency.all();
    let mut text = String::new();
    if latency.threshold_ms() == 0 {
        text.push_str(
            "Latencies are not watched. CONFIG SET latency-monitor-threshold MILLISECONDS watches what takes \
             longer.\n",
        );
    } else if events.is_empty() {
        let _written = writeln!(text, "No event took {} ms or longer.", latency.threshold_ms());
    }
    for (event, samples) in &events {
        let sum: u64 = samples.list.iter().map(|sample| sample.latency_ms).sum();
        let average = sum / samples.list.len().max(1) as u64;
        let _written = writeln!(
            text,
            "{}: {} seconds with a long one, {average} ms on average, {} ms at most. {}",
            event.name(),
            samples.list.len(),
            samples.highest_ms,
            advice(*event)
        );
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn advice(event: LatencyEvent) -> &'static str {
    match event {
        LatencyEvent::BatchWrite => "Writes are held back or the device is slow: see INFO esker.",
        LatencyEvent::Command => "SLOWLOG GET shows which commands were slow.",
        LatencyEvent::ExpireCycle => "Many keys expired at once.",
        LatencyEvent::FastCommand => {
            "Such commands take microseconds: the machine is busy, or data were read from the device."
        }
    }
}

fn histogram(call: &mut Call<'_, '_>) -> Outcome {
    let asked: Vec<&Command> = call.args[2..].iter().filter_map(|name| find_full(name)).collect();
    // A command with subcommands means all of them.
    let is_asked = |command: &Command| {
        let is_it = |asked: &&Command| {
            asked.index() == command.index()
                || command.parent().is_some_and(|parent| parent.index() == asked.index())
        };
        call.args.len() == 2 || asked.iter().any(is_it)
    };
    let totals = call.server.observed.commands.totals();
    let found = totals.into_iter().filter(|(command, _)| is_asked(command));
    let found = found.filter_map(|(command, total)| Some((command, total.latencies?)));
    let found: Vec<_> = found.filter(|(_, counts)| counts.total() > 0).collect();
    call.reply.map(found.len());
    for (command, counts) in found {
        call.reply.bulk(command.name().as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(counts.total() as i64);
        call.reply.bulk(b"histogram_usec");
        let rows = counts.cumulated();
        call.reply.map(rows.len());
        for (end_us, count) in rows {
            call.reply.integer(end_us as i64);
            call.reply.integer(count as i64);
        }
    }
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "DOCTOR",
            "    Return a human readable latency analysis report.",
            "GRAPH <event>",
            "    Return an ASCII latency graph for the <event> class.",
            "HISTORY <event>",
            "    Return time-latency samples for the <event> class.",
            "LATEST",
            "    Return the latest latency samples for all events.",
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes.",
            "    (default: reset all data for all event classes)",
            "HISTOGRAM [COMMAND ...]",
            "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
            "    If no commands are specified then all histograms are replied.",
        ],
    );
    Ok(())
}
