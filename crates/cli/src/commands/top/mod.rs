//! `top`: a dashboard of a database in a terminal.
//!
//! `source` tells the figures as JSON, `snapshot` reads them, `rates` compares two moments, `dashboard` has
//! the state, `view` draws it without touching the terminal, and `terminal` is the loop around them.

mod dashboard;
mod rates;
mod snapshot;
mod source;
mod terminal;
mod view;

use crate::args::{Connect, Global, TopArgs};
use crate::control::listen::SharedRun;
use crate::failure::{Exit, Failure};
use crate::host;
use crate::http_client::HttpClient;
use dashboard::Dashboard;
use esker_admin::{Observer, Sources};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use source::Source;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use view::Theme;

/// Shortest interval: a frame takes some milliseconds, and more cannot be read.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Rows of a frame as text; what is blank at its end is left out.
const TEXT_ROWS: u16 = 200;

/// Columns of a frame as text: as many as are readable, and no more than a terminal could have.
const TEXT_COLUMNS: std::ops::RangeInclusive<usize> = 60..=400;

/// The variable that asks for no colours, if it is not empty.
const NO_COLOR: &str = "NO_COLOR";

pub(crate) fn run(
    global: &Global,
    args: &TopArgs,
    shared: SharedRun,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let draws = !args.once && !global.shape.json;
    if draws && !host::is_interactive() {
        return Err(Failure::usage("`top` draws in a terminal, and input or output is none")
            .advise("`esker top --once` prints one frame as text, `esker top --json` the figures"));
    }
    let other = |path: &Path| Source::Control(path.to_owned());
    match &global.connect {
        Some(Connect::Server(address)) => {
            let client = HttpClient::new(address, global.token_file.as_deref(), &global.tls)?;
            show(global, args, Source::Http(client), out)
        }
        Some(Connect::Socket(path)) => show(global, args, other(path), out),
        None => match super::open_existing(global, |options| options) {
            Err(failure) if failure.is_locked() => show(global, args, other(global.data()), out),
            Err(failure) => Err(failure),
            Ok(database) => {
                let listening = super::listen(global, &database, shared);
                let observer = Observer::new(Sources::new(database.clone(), global.data()));
                let shown = show(global, args, Source::Own(observer, global.data().to_owned()), out);
                drop(listening);
                let closed = database.close();
                let exit = shown?;
                closed?;
                Ok(exit)
            }
        },
    }
}

/// Prints the figures of a database that this process has open.
pub(crate) fn print_json(observer: &Observer, out: &mut dyn Write) -> Result<Exit, Failure> {
    writeln!(out, "{}", observer.status())?;
    Ok(Exit::Done)
}

fn show(global: &Global, args: &TopArgs, source: Source, out: &mut dyn Write) -> Result<Exit, Failure> {
    if global.shape.json {
        out.write_all(source.status()?.as_bytes())?;
        return Ok(Exit::Done);
    }
    let interval = args.interval.max(SHORTEST_INTERVAL);
    let is_coloured = !args.once && host::variable(NO_COLOR)?.is_none_or(|text| text.is_empty());
    let theme = if is_coloured { Theme::Coloured } else { Theme::Plain };
    let mut dashboard = Dashboard::new(source.place(), interval, theme, source.fetch()?);
    if let Some(name) = &global.shape.keyspace {
        dashboard.choose(name)?;
    }
    if args.once {
        host::pause(interval);
        dashboard.take(Ok(source.fetch()?), Duration::ZERO)?;
        return print_frame(&dashboard, out);
    }
    terminal::run(dashboard, source, interval)
}

/// Prints a frame as lines of text.
fn print_frame(dashboard: &Dashboard, out: &mut dyn Write) -> Result<Exit, Failure> {
    let columns = host::output_width().clamp(*TEXT_COLUMNS.start(), *TEXT_COLUMNS.end());
    let mut cells = Buffer::empty(Rect::new(0, 0, columns as u16, TEXT_ROWS));
    dashboard.screen(false).render(*cells.area(), &mut cells);
    let lines: Vec<String> = cells.content().chunks(columns).map(text_of).collect();
    let rows = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    for line in &lines[..rows] {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}

/// The text of a row, without blanks at its end. A wide character has an empty cell behind it.
fn text_of(row: &[ratatui::buffer::Cell]) -> String {
    let mut text = String::new();
    let mut columns = 0;
    for (at, cell) in row.iter().enumerate() {
        if at >= columns {
            text.push_str(cell.symbol());
            columns = at + ratatui::text::Span::raw(cell.symbol()).width().max(1);
        }
    }
    text.trim_end().to_owned()
}
