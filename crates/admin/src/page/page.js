// The status page: fetches /api/v1/status and draws it. All text goes into the page as text, never as markup.
"use strict";

const REFRESH_MS = 2000;
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000; // Units of a drawing; it is stretched to its place.
const DENSE = 150; // Tables of a run beside which lines between them would hide them.

/** An element with attributes and children; strings become text. */
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function shape(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** A drawing with the sentence that says the same. */
function drawing(height, css, label, ...children) {
  const box = { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", class: css, role: "img", "aria-label": label };
  return shape("svg", box, ...children);
}

function fill(id, ...children) {
  document.getElementById(id).replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

function count(number) {
  return Math.round(number).toLocaleString("en");
}

function counted(number, thing) {
  return count(number) + " " + thing + (number === 1 ? "" : "s");
}

function rate(number) {
  return number < 10 ? number.toFixed(1) : count(number);
}

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
  return (unit === 0 ? number : number.toFixed(number < 10 ? 2 : 1)) + " " + units[unit];
}

function time(ms) {
  const seconds = ms / 1000;
  if (seconds < 1) return Math.round(ms) + " ms";
  if (seconds < 100) return seconds.toFixed(1) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  return seconds < 172800 ? Math.round(seconds / 3600) + " h" : Math.round(seconds / 86400) + " days";
}

function micros(us) {
  return us < 1000 ? us.toFixed(us < 10 ? 1 : 0) + " µs" : time(us / 1000);
}

/** A key of hexadecimal digits, readable if it is text, and short. */
function key(hex) {
  let text = "";
  for (let at = 0; at < hex.length && at < 48; at += 2) {
    const byte = parseInt(hex.slice(at, at + 2), 16);
    text += byte >= 32 && byte < 127 && byte !== 92 ? String.fromCharCode(byte) : "\\x" + hex.slice(at, at + 2);
  }
  return hex.length > 48 ? text + "…" : text;
}

/** A table; columns with a leading # hold numbers. */
const KINDS = { "#": "number", "_": "whole", "~": "whole aside" }; // First letters of columns.

function table(head, rows, caption) {
  const css = head.map((name) => (KINDS[name[0]] ? { class: KINDS[name[0]] } : {}));
  const cells = (tag, row) => make("tr", {}, ...row.map((cell, at) => make(tag, css[at], cell)));
  const names = head.map((name) => name.replace(/^[#_~]/, ""));
  const body = make("tbody", {}, ...rows.map((row) => cells("td", row)));
  const whole = make("table", {}, make("thead", {}, cells("th", names)), body);
  if (caption) whole.prepend(make("caption", { class: "dim" }, caption));
  return make("div", { class: "scroll" }, whole);
}

function header(status) {
  const info = status.info;
  const reasons = info.not_ready.map((reason) => reason.text);
  const state = document.getElementById("state");
  state.textContent = reasons.length === 0 ? "ready" : "not ready: " + reasons.join("; ");
  state.className = "badge " + (reasons.length === 0 ? "good" : "bad");
  const parts = ["version " + info.version, "up for " + time(info.uptime_ms)];
  if (info.free_bytes !== null) parts.push(bytes(info.free_bytes) + " of disk free");
  if (info.redis) {
    parts.push(`${counted(info.redis.clients, "client")}, ${count(info.redis.blocked_clients)} waiting`);
    parts.push(count(info.redis.keys) + " keys of Redis");
  }
  fill("about", parts.join(" · "));
}

const STATES = { free: ["good", "not slowed"], slowed: ["warn", "slowed"], stopped: ["bad", "stopped"] };
const RANK = { free: 0, slowed: 1, stopped: 2 };

function pressure(of) {
  const show = of.cause === "level 0" ? (runs) => count(runs) + " runs" : bytes;
  return `${of.cause}: ${show(of.amount)}, slowed from ${show(of.soft)}, stopped at ${show(of.hard)}`;
}

function writes(status) {
  const { keyspaces, waiting, left_out } = status.stalls;
  const worst = keyspaces.reduce((most, one) => (RANK[one.state] > RANK[most.state] ? one : most), keyspaces[0]);
  const lines = [];
  const [css, word] = STATES[worst.state];
  lines.push(make("p", { class: "state " + css, id: "write-state" }, "Writes are " + word));
  for (const one of keyspaces.filter((one) => one.state !== "free")) {
    const sentences = [one.name + " is " + STATES[one.state][1]];
    if (one.admitted_bytes_per_second !== null) sentences.push("to " + bytes(one.admitted_bytes_per_second) + "/s");
    if (one.pressures.length > 0) sentences.push("by " + pressure(one.pressures[0]));
    lines.push(make("p", {}, sentences.join(" ") + "."));
    if (one.blocking) {
      const job = one.blocking.job;
      const work = job ? `${job.class} to ${job.to}, ${bytes(job.done_bytes)} of ${bytes(job.total_bytes)} done` : "no job yet";
      const end = one.blocking.ends_in_ms === null ? "end not known" : "ends in about " + time(one.blocking.ends_in_ms);
      lines.push(make("p", { class: "dim" }, one.blocking.error ? "Failed: " + one.blocking.error : work + "; " + end));
    }
  }
  for (const of of waiting) lines.push(make("p", {}, `${count(of.writes)} writes wait for ${of.cause}.`));
  const full = keyspaces.flatMap((one) => one.pressures.filter((of) => of.hard > 0 && of.permille > 0).map((of) => [one.name, of]));
  full.sort((a, b) => b[1].permille - a[1].permille);
  if (full.length > 0) {
    const rows = full.slice(0, 5).map(([name, of]) => [name, pressure(of), (of.permille / 10).toFixed(0) + " %"]);
    lines.push(table(["Keyspace", "Queue", "#Full"], rows));
  }
  if (left_out > 0) lines.push(make("p", { class: "dim" }, count(left_out) + " keyspaces with less pressure are left out."));
  fill("writes", ...lines);
}

/** A chart of lines over the samples, on one scale from zero: each has values, a name and a class. */
function chart(lines, samples, show) {
  const height = 60;
  const top = Math.max(...lines.flatMap((line) => samples.map(line.value)));
  const parts = [];
  const figures = [];
  for (const line of lines) {
    const values = samples.map(line.value);
    const most = Math.max(...values);
    const x = (at) => ((WIDTH * at) / Math.max(values.length - 1, 1)).toFixed(1);
    const y = (value) => (height - 2 - (top > 0 ? (value / top) * (height - 6) : 0)).toFixed(1);
    const path = values.map((value, at) => (at === 0 ? "M" : "L") + x(at) + " " + y(value)).join("");
    parts.push(shape("path", { d: path, class: line.css }));
    const last = values[values.length - 1];
    figures.push(make("span", { class: line.css + "-text" }, `${line.name} ${show(last)}, at most ${show(most)}`));
  }
  const label = figures.map((figure) => figure.textContent).join("; ");
  return [drawing(height, "chart", label, ...parts), make("p", { class: "figures" }, ...figures)];
}

function rates(status) {
  const { samples, interval_ms } = status.history;
  if (samples.length < 2) {
    fill("rates", make("p", { class: "dim" }, `The first samples come after ${time(2 * interval_ms)}.`));
    return;
  }
  const perSecond = (number) => rate(number) + "/s";
  const operations = [
    { name: "commands", css: "main", value: (one) => one.commands_per_second },
    { name: "writes", css: "second", value: (one) => one.writes_per_second },
  ];
  const latencies = [
    { name: "99 %", css: "second", value: (one) => one.p99_us },
    { name: "half", css: "main", value: (one) => one.p50_us },
  ];
  const parts = chart(operations, samples, perSecond);
  if (status.info.redis) parts.push(make("h3", {}, "Commands take"), ...chart(latencies, samples, micros));
  parts.push(make("p", { class: "dim" }, "Over " + time(samples.length * interval_ms)));
  fill("rates", ...parts);
}

const PARTS = {
  memtables: "memtables", cache: "block cache", table_metadata: "indexes and filters", log_mapped: "log, mapped",
  read_ahead: "read ahead", jobs: "flushes and merges", large_values: "large values", loading: "bulk loads",
};
const COLOURS = ["#2563a8", "#5b9bd5", "#b3541e", "#8a6fb0", "#4f9d69", "#c9a227", "#a24d6d", "#7a8594"];

function memory(status) {
  const of = status.memory;
  const parts = Object.entries(of.parts);
  const whole = Math.max(of.budget_bytes, of.used_bytes);
  let x = 0;
  const cells = parts.map(([, size], at) => {
    const width = (WIDTH * size) / whole;
    const cell = shape("rect", { x, y: 0, width, height: 18, fill: COLOURS[at % COLOURS.length] });
    x += width;
    return cell;
  });
  const label = `${bytes(of.used_bytes)} of ${bytes(of.budget_bytes)}`;
  const rows = parts.map(([name, size], at) => {
    const swatch = shape("svg", { viewBox: "0 0 10 10", class: "swatch", "aria-hidden": "true" });
    swatch.append(shape("rect", { width: 10, height: 10, fill: COLOURS[at % COLOURS.length] }));
    return [make("span", {}, swatch, PARTS[name] || name), bytes(size)];
  });
  const lines = [make("p", { class: "state" }, label), drawing(18, "bar", label, ...cells), table(["Part", "#Bytes"], rows)];
  if (of.process_anonymous_bytes !== null) {
    lines.push(make("p", { class: "dim" }, "The process has " + bytes(of.process_anonymous_bytes) + " of anonymous memory."));
  }
  fill("memory", ...lines);
}

/**
 * Where keys lie: a step between two borders of tables is as wide as the most bytes that a table has there, if those of a
 * table lie evenly within it. So neighbours in a run stand side by side, and a share of the width is about one of the data.
 */
function places(tree) {
  const tables = tree.levels.flatMap((level) => level.runs.flat());
  const borders = new Set();
  for (const one of tables) {
    borders.add(one.smallest_hex);
    if (one.largest_hex !== "") borders.add(one.largest_hex);
  }
  const sorted = [...borders].sort();
  const index = new Map(sorted.map((border, at) => [border, at]));
  // A table without an end takes a last step, behind all borders.
  const from = (one) => index.get(one.smallest_hex);
  const to = (one) => (one.largest_hex === "" ? sorted.length : index.get(one.largest_hex));
  const widths = new Array(sorted.length).fill(0);
  for (const one of tables) {
    const share = one.bytes / (to(one) - from(one));
    for (let step = from(one); step < to(one); step += 1) widths[step] = Math.max(widths[step], share);
  }
  const starts = [0];
  for (const width of widths) starts.push(starts[starts.length - 1] + width);
  const whole = starts[sorted.length];
  if (!(whole > 0)) return { from: () => 0, to: () => WIDTH };
  return { from: (one) => (starts[from(one)] * WIDTH) / whole, to: (one) => (starts[to(one)] * WIDTH) / whole };
}

/** A table, and a part of its height for the share of deletes. */
function cell(one, place) {
  const x = place.from(one);
  const width = Math.max(place.to(one) - x, 2);
  const dead = one.entries === 0 ? 0 : one.tombstones / one.entries;
  const box = { x: x.toFixed(1), width: width.toFixed(1) };
  const ranges = one.range_deletes > 0 ? `, ${count(one.range_deletes)} range deletes` : "";
  const told = `table ${one.file}: ${bytes(one.bytes)}, ${count(one.entries)} entries, ${(100 * dead).toFixed(0)} % deletes${ranges}, ` +
    `${key(one.smallest_hex)} to ${one.largest_hex === "" ? "the end" : key(one.largest_hex)}`;
  const parts = [shape("rect", { ...box, y: 0, height: 20, class: "table" }, shape("title", {}, told))];
  if (dead > 0) {
    const height = Math.max(18 * dead, 2);
    parts.push(shape("rect", { ...box, y: (19 - height).toFixed(1), height: height.toFixed(1), class: "dead" }));
  }
  return parts;
}

function sum(list, of) {
  return list.reduce((total, one) => total + of(one), 0);
}

// What a level holds before it is compacted, beside what it has.
function limitsOf(level) {
  const limits = [];
  if (level.max_bytes > 0) limits.push(`${((100 * level.bytes) / level.max_bytes).toFixed(0)} % of at most ${bytes(level.max_bytes)}`);
  if (level.max_runs > 1) limits.push(`${level.runs.length} of at most ${level.max_runs} runs`);
  return limits;
}

function levelRows(tree, level, place, heat, busy, widest) {
  const row = (css, label, strip, figures) => make("div", { class: css }, make("span", {}, label), strip, make("span", {}, figures));
  const rows = level.runs.map((run, at) => {
    const label = at === 0 ? level.label : "";
    const size = sum(run, (one) => one.bytes);
    const entries = sum(run, (one) => one.entries);
    const dead = entries === 0 ? 0 : (100 * sum(run, (one) => one.tombstones)) / entries;
    const figures = `${bytes(size)} · ${counted(run.length, "table")} · ${count(entries)} entries, ${dead.toFixed(0)} % deletes`;
    const css = run.length > DENSE ? "strip dense" : "strip";
    const strip = drawing(20, css, `${level.label}, run ${at + 1}: ${figures}`, ...run.flatMap((one) => cell(one, place)));
    strip.setAttribute("fill-opacity", (0.3 + 0.7 * heat).toFixed(2));
    return row(busy ? "row busy" : "row", label, strip, figures);
  });
  const wide = (size) => (widest > 0 ? (WIDTH * size) / widest : 0);
  const weight = [shape("rect", { x: 0, y: 0, width: wide(level.bytes), height: 4 })];
  if (level.max_bytes > 0 && level.max_bytes <= widest) {
    weight.push(shape("rect", { class: "limit", x: wide(level.max_bytes) - 2, y: 0, width: 4, height: 4 }));
  }
  const limits = limitsOf(level);
  const strip = drawing(4, "", [`${level.label} has ${bytes(level.bytes)}`, ...limits].join(", "), ...weight);
  rows.push(row("row weight dim", "", strip, limits.join(" · ")));
  return rows;
}

function treeTable(tree, lookups) {
  const rows = tree.levels.map((level) => {
    const tables = level.runs.flat();
    const of = tree.amplification.levels.find((one) => one.level === level.level);
    const searched = of && lookups > 0 ? (of.searched / lookups).toFixed(3) : "-";
    const entries = sum(tables, (one) => one.entries);
    const dead = sum(tables, (one) => one.tombstones);
    const figures = [level.label, count(level.runs.length), count(tables.length), bytes(level.bytes), count(entries), count(dead)];
    return [...figures, searched, of ? bytes(of.written_bytes) : "-"];
  });
  rows.unshift(["memory", "", "", "", count(tree.memtable_entries), "", "", ""]);
  const head = ["Level", "#Runs", "#Tables", "#Bytes", "#Entries", "#Deletes", "#Searched by a lookup", "#Written so far"];
  return make("details", {}, make("summary", {}, "The same as a table"), table(head, rows));
}

function oneTree(tree, jobs) {
  const place = places(tree);
  const seen = tree.amplification;
  const lookups = seen.read.sampled_lookups;
  const widest = Math.max(...tree.levels.map((level) => level.bytes), 0);
  const mine = jobs.filter((job) => job.keyspace === tree.keyspace);
  const parts = [make("h3", {}, tree.keyspace)];
  const amplification = [];
  if (seen.write !== null) amplification.push(`${seen.write.toFixed(2)} bytes written for a byte of users`);
  if (seen.space.ratio !== null) amplification.push(`${seen.space.ratio.toFixed(2)} bytes stored for a live byte`);
  if (lookups > 0) amplification.push(`${(seen.read.tables_searched / lookups).toFixed(3)} tables searched by a lookup`);
  const about = [tree.strategy, ...amplification, `${count(tree.memtable_entries)} entries in memory`];
  if (tree.migration) about.push(`changing from ${tree.migration.from}, ${bytes(tree.migration.bytes_left)} left`);
  parts.push(make("p", { class: "dim" }, about.join(" · ")));
  for (const level of tree.levels.filter((level) => level.runs.length > 0)) {
    const of = seen.levels.find((one) => one.level === level.level);
    const heat = of && lookups > 0 ? Math.min(of.searched / lookups, 1) : 0;
    const busy = mine.some((job) => job.to === level.label || job.from.includes(level.label));
    parts.push(...levelRows(tree, level, place, heat, busy, widest));
  }
  if (tree.blob_files.length > 0) {
    const size = sum(tree.blob_files, (one) => one.bytes);
    const garbage = sum(tree.blob_files, (one) => one.garbage_bytes);
    parts.push(make("p", {}, `${counted(tree.blob_files.length, "blob file")}: ${bytes(size)}, ${bytes(garbage)} of it garbage`));
  }
  parts.push(treeTable(tree, lookups));
  return make("div", { class: "tree" }, ...parts);
}

/** What is open stays open over a refresh. */
function opened(id) {
  return [...document.querySelectorAll(`#${id} details`)].map((details) => details.open);
}

function tree(status) {
  const open = opened("tree");
  const { keyspaces, left_out } = status.levels;
  const shown = keyspaces.filter((one) => one.levels.some((level) => level.runs.length > 0) || one.memtable_entries > 0);
  const parts = shown.map((one) => oneTree(one, status.jobs.jobs));
  if (shown.length === 0) parts.push(make("p", { class: "dim" }, "No keyspace has data yet."));
  const rest = left_out + keyspaces.length - shown.length;
  if (rest > 0) parts.push(make("p", { class: "dim" }, `${counted(rest, "keyspace")} ${rest === 1 ? "is" : "are"} empty or smaller than these.`));
  fill("tree", ...parts);
  document.querySelectorAll("#tree details").forEach((details, at) => { details.open = open[at] === true; });
}

function jobs(status) {
  const rows = status.jobs.jobs.map((job) => {
    const label = `${bytes(job.done_bytes)} of ${bytes(job.total_bytes)}`;
    const bar = make("progress", { max: Math.max(job.total_bytes, 1), value: job.done_bytes, "aria-label": label });
    const way = (job.from.length > 0 ? job.from.join(", ") : "memory") + " → " + job.to;
    const work = job.reason ? `${job.class}: ${job.reason}` : job.class;
    return [job.keyspace, work, way, make("span", {}, bar, label), time(job.running_ms)];
  });
  const none = make("p", { class: "dim" }, "No flush and no compaction runs.");
  fill("jobs", rows.length > 0 ? table(["Keyspace", "Job", "From, to", "Done", "#For"], rows) : none);
}

function log(status) {
  const info = status.info;
  const lag = Math.max(info.visible_seqno - info.durable_seqno, 0);
  const lines = [
    make("p", {}, `The log has ${bytes(info.log_bytes)}. ${count(lag)} operations would not survive a power cut yet.`),
  ];
  const readers = status.readers.readers;
  if (readers.length === 0) {
    lines.push(make("p", { class: "dim" }, "No snapshot, cursor or consumer is open."));
  } else {
    const row = (one) => [one.kind + (one.name || one.keyspace ? " of " + (one.name || one.keyspace) : ""), time(one.age_ms),
      bytes(one.memtable_bytes + one.table_bytes + one.log_bytes)];
    lines.push(table(["Oldest readers", "#Age", "#Pinned"], readers.slice(0, 5).map(row)));
  }
  for (const error of info.background_errors) lines.push(make("p", { class: "bad" }, "Background error: " + error));
  if (info.read_only_cause) lines.push(make("p", { class: "bad" }, "No writes: " + info.read_only_cause));
  fill("log", ...lines);
}

function promises(status) {
  const colours = { kept: "good", "at risk": "warn", missed: "bad" };
  const state = (word) => make("span", { class: colours[word] || "dim" }, word);
  const rows = [];
  for (const one of status.promises.keyspaces) {
    if (one.space) rows.push([one.keyspace, `${one.space.taken.toFixed(2)} of ${one.space.target} times the live data`, state(one.space.state)]);
    if (one.deletes) {
      const oldest = one.deletes.oldest_ms === null ? "no delete" : "oldest delete " + time(one.deletes.oldest_ms);
      rows.push([one.keyspace, `${oldest}, within ${time(one.deletes.within_ms)}`, state(one.deletes.state)]);
    }
  }
  const none = make("p", { class: "dim" }, "No keyspace has max_space_amp or delete_within.");
  fill("promises", rows.length > 0 ? table(["Keyspace", "Promise", "State"], rows) : none);
}

function slow(status) {
  const slowest = [...status.slowlog.commands].sort((a, b) => b.duration_us - a.duration_us).slice(0, 8);
  const row = (one) => [micros(one.duration_us), one.arguments.join(" "), new Date(1000 * one.time_s).toLocaleTimeString("en-GB"), one.address];
  const parts = [];
  if (slowest.length > 0) parts.push(table(["#Took", "Command", "_At", "~Client"], slowest.map(row)));
  else parts.push(make("p", { class: "dim" }, "SLOWLOG has no command."));
  const used = status.commands.commands.filter((one) => one.calls > 0);
  used.sort((a, b) => b.microseconds - a.microseconds);
  if (used.length > 0) {
    const rows = used.slice(0, 8).map((one) => [one.name, count(one.calls), micros(one.microseconds / one.calls), count(one.failed)]);
    parts.push(make("h3", {}, "Commands that took the most time"), table(["Command", "#Calls", "#Each", "#Failed"], rows));
  }
  fill("slow", ...parts);
}

function draw(status) {
  const began = performance.now();
  for (const part of [header, writes, rates, memory, tree, jobs, log, promises, slow]) part(status);
  document.body.dataset.drawMs = String(Math.round(performance.now() - began));
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
}

function trouble(text) {
  const place = document.getElementById("trouble");
  place.hidden = text === "";
  place.textContent = text;
}

let answered = Date.now();

async function refresh() {
  if (document.hidden) return;
  try {
    const response = await fetch("api/v1/status", { cache: "no-store" });
    if (!response.ok) throw new Error("the server answers " + response.status);
    draw(await response.json());
    answered = Date.now();
    trouble("");
  } catch (error) {
    trouble(`No figures for ${time(Date.now() - answered)}: ${error.message}. What is shown is older.`);
  }
}

async function run() {
  await refresh();
  setTimeout(run, REFRESH_MS);
}

document.addEventListener("visibilitychange", refresh);
run();
