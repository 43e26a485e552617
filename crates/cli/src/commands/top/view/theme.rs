//! Colours: few, and none where the user wants none.

use ratatui::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::top) enum Theme {
    Coloured,
    Plain,
}

impl Theme {
    fn coloured(self, color: Color, style: Style) -> Style {
        match self {
            Theme::Coloured => style.fg(color),
            Theme::Plain => style,
        }
    }

    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Names of figures, and heads of columns.
    pub(super) fn label(self) -> Style {
        self.coloured(Color::Cyan, Style::new())
    }

    pub(super) fn rule(self) -> Style {
        self.coloured(Color::DarkGray, Style::new())
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green, Style::new())
    }

    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow, self.strong())
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red, self.strong())
    }

    pub(super) fn bar(self) -> Style {
        self.coloured(Color::Blue, Style::new())
    }

    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
