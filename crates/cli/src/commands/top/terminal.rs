//! The terminal: draws the dashboard, reads keys, and gives the terminal back on every way out.
//!
//! The figures are told by a thread of its own, so that keys are obeyed while an answer is awaited.
//!
//! DC4. However `top` ends, by a key, a signal, an error or a panic, the terminal is as it was before.

use super::dashboard::{Action, Dashboard};
use super::snapshot::Snapshot;
use super::source::Source;
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use esker::parts::env::{Clock, SystemClock};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Stdout};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

/// How long a key is awaited before signals and figures are looked at.
const KEY_WAIT: Duration = Duration::from_millis(100);

type Fetched = Result<Snapshot, Failure>;

/// Draws until a key or a signal ends it, or the figures stay away.
pub(super) fn run(mut dashboard: Dashboard, source: Source, interval: Duration) -> Result<Exit, Failure> {
    let interrupt = Interrupt::of(&Caller::default())?;
    let clock = SystemClock::new();
    let (end, ended) = mpsc::channel();
    let told = start_telling(source, interval, ended)?;
    let mut screen = RawTerminal::open()?;
    screen.draw(&dashboard)?;
    let result = loop {
        if interrupt.is_set() {
            break Err(Failure::interrupted("the terminal is as it was"));
        }
        let mut must_draw = false;
        if event::poll(KEY_WAIT).map_err(|error| lost_terminal(&error))? {
            match event::read().map_err(|error| lost_terminal(&error))? {
                Event::Key(key) => match dashboard.key(key) {
                    Action::End => break Ok(Exit::Done),
                    Action::Draw => must_draw = true,
                    Action::Nothing => {}
                },
                Event::Resize(..) => must_draw = true,
                _ => {}
            }
        }
        match told.try_recv() {
            Ok(told) => {
                let at = Duration::from_nanos(clock.monotonic_ns());
                if let Err(failure) = dashboard.take(told, at) {
                    break Err(failure);
                }
                must_draw = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break Err(Failure::defect("the thread of the figures ended")),
        }
        if must_draw {
            screen.draw(&dashboard)?;
        }
    };
    drop(screen);
    drop(end);
    result
}

fn lost_terminal(error: &io::Error) -> Failure {
    Failure::system("the terminal cannot be used", error)
}

/// Starts the thread that tells figures at an interval, until the sender of `ended` is dropped.
fn start_telling(
    source: Source,
    interval: Duration,
    ended: Receiver<()>,
) -> Result<Receiver<Fetched>, Failure> {
    let (tell, told): (Sender<Fetched>, Receiver<Fetched>) = mpsc::channel();
    let run = move || {
        while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            if tell.send(source.fetch()).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("esker-top".to_owned()).spawn(run);
    started.map_err(|error| Failure::system("cannot start a thread", &error))?;
    Ok(told)
}

/// The terminal while the dashboard has it; dropping gives it back (DC4).
struct RawTerminal(Terminal<CrosstermBackend<Stdout>>);

impl RawTerminal {
    fn open() -> Result<RawTerminal, Failure> {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // Its message belongs on the usual screen.
            restore();
            earlier(panic);
        }));
        let opened = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        opened.map(RawTerminal).map_err(|error| {
            restore();
            lost_terminal(&error)
        })
    }

    fn draw(&mut self, dashboard: &Dashboard) -> Result<(), Failure> {
        let screen = dashboard.screen(true);
        let drawn = self.0.draw(|frame| frame.render_widget(&screen, frame.area()));
        drawn.map(drop).map_err(|error| lost_terminal(&error))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back. It may be gone, which is no failure.
fn restore() {
    let _shown = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _cooked = disable_raw_mode();
}
