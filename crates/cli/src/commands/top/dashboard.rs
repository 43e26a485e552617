//! The dashboard's state: what was told last, what is chosen, and what keys do.

use super::rates::{Curve, Rates};
use super::snapshot::Snapshot;
use super::view::{Screen, Theme};
use crate::failure::Failure;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::Duration;

/// How long a process that told figures before may be silent: as long as a restart takes.
const LOST_LIMIT: Duration = Duration::from_secs(10);

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Draw,
    End,
}

/// What is shown.
#[derive(Debug)]
pub(super) struct Dashboard {
    place: String,
    interval: Duration,
    theme: Theme,
    now: Snapshot,
    rates: Option<Rates>,
    curve: Curve,
    /// The name of the chosen keyspace; the order of keyspaces changes as they grow.
    chosen: Option<String>,
    shows_help: bool,
    /// Why there are no figures, and since when.
    lost: Option<(String, Duration)>,
}

impl Dashboard {
    pub(super) fn new(place: String, interval: Duration, theme: Theme, first: Snapshot) -> Dashboard {
        let curve = Curve::of(&first);
        let (now, rates, chosen, lost) = (first, None, None, None);
        Dashboard { place, interval, theme, now, rates, curve, chosen, shows_help: false, lost }
    }

    /// Chooses a keyspace by its name.
    pub(super) fn choose(&mut self, name: &str) -> Result<(), Failure> {
        let mut names = self.now.keyspaces.iter().map(|keyspace| keyspace.name.as_str());
        if !names.any(|known| known == name) {
            let names: Vec<&str> = self.now.keyspaces.iter().map(|keyspace| keyspace.name.as_str()).collect();
            return Err(Failure::usage(format!("keyspace '{}' is not shown", name.escape_debug()))
                .advise(format!("there are: {}", names.join(", "))));
        }
        self.chosen = Some(name.to_owned());
        Ok(())
    }

    /// Takes what was told at a moment. A process that is silent for long is given up.
    pub(super) fn take(&mut self, told: Result<Snapshot, Failure>, at: Duration) -> Result<(), Failure> {
        match told {
            Ok(now) => {
                self.lost = None;
                self.rates = Rates::between(&self.now, &now);
                if let Some(rates) = &self.rates {
                    self.curve.push(rates);
                }
                self.now = now;
                Ok(())
            }
            Err(failure) => {
                let since = self.lost.as_ref().map_or(at, |(_, since)| *since);
                if at.saturating_sub(since) >= LOST_LIMIT {
                    return Err(failure);
                }
                self.lost = Some((format!("trying again: {}", failure.message()), since));
                Ok(())
            }
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return Action::End,
            KeyCode::Char('q') => return Action::End,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Down | KeyCode::Tab | KeyCode::Right | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::BackTab | KeyCode::Left | KeyCode::Char('k') => {
                self.step(self.now.keyspaces.len().saturating_sub(1));
            }
            _ => return Action::Nothing,
        }
        Action::Draw
    }

    /// Chooses the keyspace this many rows below, beginning at the top again behind the last.
    fn step(&mut self, rows: usize) {
        let count = self.now.keyspaces.len();
        let next = (self.chosen_row() + rows).checked_rem(count);
        self.chosen = next.map(|next| self.now.keyspaces[next].name.clone());
    }

    fn chosen_row(&self) -> usize {
        let is_chosen = |name: &String| Some(name) == self.chosen.as_ref();
        self.now.keyspaces.iter().position(|keyspace| is_chosen(&keyspace.name)).unwrap_or_default()
    }

    /// What is drawn.
    pub(super) fn screen(&self, shows_keys: bool) -> Screen<'_> {
        Screen {
            place: &self.place,
            now: &self.now,
            rates: self.rates.as_ref(),
            curve: &self.curve,
            chosen: self.chosen_row(),
            interval: self.interval,
            notice: self.lost.as_ref().map(|(reason, _)| reason.as_str()),
            shows_help: self.shows_help,
            shows_keys,
            theme: self.theme,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::Keyspace;
    use super::*;

    fn snapshot(uptime_ms: u64, names: &[&str]) -> Snapshot {
        let keyspace = |name: &&str| Keyspace { name: (*name).to_owned(), ..Keyspace::default() };
        Snapshot { uptime_ms, keyspaces: names.iter().map(keyspace).collect(), ..Snapshot::default() }
    }

    fn dashboard(names: &[&str]) -> Dashboard {
        Dashboard::new("here".to_owned(), Duration::from_secs(1), Theme::Plain, snapshot(1, names))
    }

    fn press(dashboard: &mut Dashboard, code: KeyCode) -> Action {
        dashboard.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_choose_by_name_and_end() {
        let mut shown = dashboard(&["a", "b", "c"]);
        assert_eq!(press(&mut shown, KeyCode::Down), Action::Draw);
        assert_eq!(shown.chosen_row(), 1);
        shown.take(Ok(snapshot(2, &["b", "c", "a"])), Duration::ZERO).unwrap();
        assert_eq!(shown.chosen_row(), 0, "b is the largest now");
        press(&mut shown, KeyCode::Up);
        assert_eq!(shown.screen(true).keyspace().unwrap().name, "a");
        press(&mut shown, KeyCode::Tab);
        assert_eq!(shown.chosen_row(), 0);
        assert_eq!(press(&mut shown, KeyCode::Char('x')), Action::Nothing);
        assert_eq!(press(&mut shown, KeyCode::Char('q')), Action::End);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(shown.key(control_c), Action::End);
        assert!(shown.choose("d").unwrap_err().message().contains("'d'") && shown.choose("c").is_ok());
        let mut empty = dashboard(&[]);
        press(&mut empty, KeyCode::Down);
        assert!(empty.screen(true).keyspace().is_none());
    }

    #[test]
    fn a_silent_process_is_waited_for_and_then_given_up() {
        let mut shown = dashboard(&["a"]);
        let lost = || Err(Failure::unreachable("nothing answers"));
        shown.take(lost(), Duration::from_secs(100)).unwrap();
        assert_eq!(shown.screen(true).notice, Some("trying again: nothing answers"));
        shown.take(lost(), Duration::from_secs(109)).unwrap();
        shown.take(Ok(snapshot(2, &["a"])), Duration::from_secs(110)).unwrap();
        assert_eq!(shown.screen(true).notice, None);
        shown.take(lost(), Duration::from_secs(111)).unwrap();
        shown.take(lost(), Duration::from_secs(120)).unwrap();
        assert!(shown.take(lost(), Duration::from_secs(121)).is_err());
    }
}
