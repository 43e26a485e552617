//! Frames of a made-up server, drawn on a terminal that is only memory.

use super::super::rates::{Curve, Rates};
use super::super::snapshot::Snapshot;
use super::{Screen, Theme};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::{Value, json};
use std::time::Duration;

fn level(number: u64, label: &str, runs: &[u64], bytes: u64) -> Value {
    let table = |_: u64| json!({ "bytes": bytes, "entries": 1000, "tombstones": 50 });
    let runs: Vec<Vec<Value>> = runs.iter().map(|tables| (0..*tables).map(table).collect()).collect();
    let tables: usize = runs.iter().map(Vec::len).sum();
    json!({ "level": number, "label": label, "bytes": bytes * tables as u64, "runs": runs })
}

fn keyspace(name: &str, levels: &[Value], lookups: u64) -> Value {
    json!({
        "keyspace": name,
        "strategy": "partitioned",
        "memtable_entries": 12_345,
        "levels": levels,
        "blob_files": [{ "bytes": 300 << 20, "garbage_bytes": 30 << 20 }],
        "amplification": {
            "put_bytes": lookups * 1000,
            "written_bytes": lookups * 3000,
            "write": 4.25,
            "read": { "sampled_lookups": lookups },
            "space": { "ratio": 1.17, "is_measured": true },
        },
    })
}

/// A server whose counters stand at `count`, this long after its start.
fn status(uptime_ms: u64, count: u64) -> Value {
    let users = [
        level(0, "L0", &[1, 1, 1, 1], 8 << 20),
        level(1, "L1", &[12], 16 << 20),
        level(63, "Llast", &[40], 64 << 20),
    ];
    let job = json!({
        "number": 17, "keyspace": "users", "class": "shape", "reason": "runs", "from": ["L0"], "to": "L1",
        "done_bytes": 45 << 20, "total_bytes": 100 << 20, "bytes_per_second": 12 << 20,
    });
    json!({
        "info": {
            "version": "0.1.0", "uptime_ms": uptime_ms, "free_bytes": 12u64 << 30,
            "visible_seqno": 5_000, "durable_seqno": 4_766, "log_bytes": 96 << 20,
            "not_ready": [], "background_errors": [],
            "redis": { "clients": 3, "blocked_clients": 1, "max_clients": 10_000, "executed": count * 10, "keys": 1_234_567 },
            "totals": {
                "entries": count * 4, "user_bytes": count * 1000, "delay_ms": 0, "stall_ms": 0,
                "cache_hits": count * 97, "cache_misses": count * 3,
            },
        },
        "levels": { "keyspaces": [keyspace("users", &users, count), keyspace("events", &[], 0)], "left_out": 2 },
        "memory": {
            "budget_bytes": 256 << 20, "used_bytes": 192 << 20, "cache_bytes": 90 << 20, "cache_capacity_bytes": 120 << 20,
            "parts": { "memtables": 60 << 20, "cache": 90 << 20, "table_metadata": 12 << 20, "log_mapped": 30 << 20, "jobs": 0 },
        },
        "stalls": { "keyspaces": [{
            "name": "users", "state": "slowed", "admitted_bytes_per_second": 12 << 20,
            "blocking": { "job": job, "ends_in_ms": 3_200, "error": null },
            "pressures": [
                { "cause": "memory", "amount": 1, "hard": 10, "permille": 100 },
                { "cause": "level 0", "amount": 12, "hard": 20, "permille": 600 },
            ],
        }] },
        "promises": { "keyspaces": [{ "keyspace": "users", "space": { "target": 1.5 } }] },
        "jobs": { "jobs": [job] },
        "readers": { "readers": [{
            "kind": "snapshot", "name": null, "keyspace": "users", "age_ms": 200_000, "newer_operations": 321,
            "memtable_bytes": 4 << 20, "table_bytes": 8 << 20,
        }] },
        "commands": { "commands": [
            { "name": "get", "calls": count * 9, "microseconds": count * 9 * 4 },
            { "name": "set", "calls": count, "microseconds": count * 21 },
        ] },
        "history": { "samples": [
            { "commands_per_second": 10.0, "writes_per_second": 1.0, "p50_us": 3.0, "p99_us": 8.0 },
            { "commands_per_second": 20.0, "writes_per_second": 1.0, "p50_us": 4.5, "p99_us": 1_234.0 },
        ] },
    })
}

fn terminal(
    status: &Value,
    columns: u16,
    rows: u16,
    change: impl Fn(Screen<'_>) -> Screen<'_>,
) -> TestBackend {
    let then = Snapshot::of(&self::status(3_600_000, 100)).unwrap();
    let now = Snapshot::of(status).unwrap();
    let (rates, mut curve) = (Rates::between(&then, &now), Curve::of(&now));
    rates.iter().for_each(|rates| curve.push(rates));
    let screen = change(Screen {
        place: "/srv/db",
        now: &now,
        rates: rates.as_ref(),
        curve: &curve,
        chosen: 0,
        interval: Duration::from_secs(1),
        notice: None,
        shows_help: false,
        shows_keys: true,
        theme: Theme::Plain,
    });
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| frame.render_widget(&screen, frame.area())).unwrap();
    terminal.backend().clone()
}

fn text(backend: &TestBackend) -> String {
    let columns = usize::from(backend.buffer().area().width).max(1);
    let row = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", text.trim_end())
    };
    backend.buffer().content().chunks(columns).map(row).collect()
}

fn drawn(columns: u16, rows: u16, change: impl Fn(Screen<'_>) -> Screen<'_>) -> String {
    text(&terminal(&status(3_601_000, 200), columns, rows, change))
}

#[test]
fn a_frame_of_80_columns_has_all_that_matters() {
    let frame = drawn(80, 24, |screen| screen);
    assert_eq!(frame, include_str!("frames/80x24.txt"), "\n{frame}");
}

#[test]
fn a_wide_frame_has_activity_beside_the_trees() {
    let frame = drawn(140, 34, |screen| screen);
    assert_eq!(frame, include_str!("frames/140x34.txt"), "\n{frame}");
}

#[test]
fn a_tall_frame_has_activity_below_the_trees() {
    let frame = drawn(80, 50, |screen| screen);
    let at = |words: &str| {
        frame.lines().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {frame}"))
    };
    assert!(at("tree of users") < at("commands/s") && at("commands/s") < at("by their time"), "{frame}");
    assert!(at("by their time") < at("running: 1") && at("running: 1") < at("readers, oldest"), "{frame}");
}

#[test]
fn every_size_is_drawn_within_its_bounds() {
    for columns in (0..=200).step_by(7) {
        for rows in (0..=60).filter(|rows| *rows == 0 || columns > 0) {
            let frame = drawn(columns, rows, |screen| Screen { shows_help: rows % 2 == 0, ..screen });
            assert_eq!(frame.lines().count(), usize::from(rows), "{columns}x{rows}");
        }
    }
    assert!(drawn(50, 20, |screen| screen).contains("at least 60"));
}

#[test]
fn a_stop_its_cause_and_its_end_are_told() {
    let mut told = status(3_601_000, 200);
    told["stalls"]["keyspaces"][0]["state"] = "stopped".into();
    let frame = text(&terminal(&told, 80, 24, |screen| screen));
    assert!(frame.contains("stopped, ends in 3.2 s (merge): level 0 of users 60% full"), "{frame}");
    told["stalls"]["keyspaces"][0]["blocking"] = json!({ "error": "the disk is full" });
    told["info"]["not_ready"] = json!([{ "reason": "writes_stopped", "text": "writes have been stopped" }]);
    told["info"]["read_only_cause"] = "a flush of\nthe log failed".into();
    let frame = text(&terminal(&told, 80, 24, |screen| screen));
    for words in [
        "failed: the disk is full",
        "trouble  writes have been stopped",
        "takes no writes: a flush of\\nthe log",
    ] {
        assert!(frame.contains(words), "{words}: {frame}");
    }
}

#[test]
fn the_chosen_keyspace_and_the_loss_of_the_server_are_shown() {
    let frame = drawn(80, 24, |screen| Screen { chosen: 1, notice: Some("nothing answers"), ..screen });
    assert!(frame.contains("\u{25b8}events") && frame.contains("tree of events"), "{frame}");
    assert!(frame.ends_with(" nothing answers\n"), "{frame}");
    let frame = drawn(80, 24, |screen| Screen { shows_help: true, ..screen });
    assert!(frame.contains("show or hide this"), "{frame}");
}

/// What an older server, or one without anything, tells.
#[test]
fn missing_figures_are_no_failure() {
    assert!(Snapshot::of(&json!({ "error": "no" })).is_none());
    assert!(Snapshot::read("no JSON").is_none());
    for told in [
        json!({ "info": {} }),
        json!({ "info": { "redis": {}, "totals": 5 }, "levels": { "keyspaces": [{}, 7] }, "jobs": { "jobs": [{}] } }),
        json!({ "info": null, "levels": { "keyspaces": [{ "levels": [{ "label": "" }, { "label": "\u{e9}" }] }] } }),
    ] {
        let frame = text(&terminal(&told, 80, 24, |screen| screen));
        assert!(
            frame.contains("no server of the Redis protocol") || frame.contains("clients 0 of 0"),
            "{frame}"
        );
    }
}

#[test]
fn without_colours_nothing_is_coloured() {
    let colours = |theme: Theme| {
        let told = status(3_601_000, 200);
        let backend = terminal(&told, 140, 50, |screen| Screen { theme, ..screen });
        backend
            .buffer()
            .content()
            .iter()
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .count()
    };
    assert_eq!(colours(Theme::Plain), 0);
    assert!(colours(Theme::Coloured) > 0);
}
