//! One row: an option's names, its kind of value, and how it is read and set.

use super::Scope;
use super::info::{OptionChange, OptionGroup, OptionInfo, OptionValue};
use super::units::{NumberRange, Unit};
use crate::stored::Field;
use esker_base::{Error, Result};

/// An option of `O`.
#[derive(Debug)]
pub(crate) struct Row<O: 'static> {
    /// The name that is shown.
    pub(super) name: &'static str,
    /// The name under which it is stored; with [`Unit::Milliseconds`] and [`Unit::Permille`] it includes the
    /// unit.
    pub(super) stored: &'static str,
    /// Other accepted names.
    pub(super) aliases: &'static [&'static str],
    pub(super) help: &'static str,
    pub(super) group: OptionGroup,
    pub(super) change: OptionChange,
    /// Whether it is stored even with its default: true for the options of the first builds.
    pub(super) always_stored: bool,
    /// Whether it is stored with the options but is not one: users can neither set nor see it.
    pub(super) is_hidden: bool,
    /// How an unset number is stored.
    pub(super) absent_stored: u64,
    pub(super) access: Access<O>,
}

/// How the value is read and set.
#[derive(Debug)]
pub(crate) enum Access<O: 'static> {
    /// A number; `None` has the meaning of `absent`, and is stored as [`Row::absent_stored`].
    Number {
        range: NumberRange,
        absent: Option<Absent>,
        get: fn(&O) -> Option<u64>,
        set: fn(&mut O, Option<u64>),
    },
    /// A name, perhaps with parameters; stored as text.
    Text {
        /// The allowed values, for users.
        choices: fn() -> String,
        get: fn(&O) -> String,
        /// An error says what is wrong with the text.
        set: fn(&mut O, &str) -> Result<(), String>,
    },
    /// Yes or no; stored as 1 or 0.
    Flag { get: fn(&O) -> bool, set: fn(&mut O, bool) },
}

/// An unset number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absent {
    /// How it is written.
    pub(super) word: &'static str,
    /// What it means.
    pub(super) meaning: &'static str,
}

impl<O: Scope> Row<O> {
    const fn new(name: &'static str, access: Access<O>) -> Row<O> {
        let change = OptionChange::NextOpen;
        Row {
            name,
            stored: name,
            aliases: &[],
            help: "",
            group: OptionGroup::Expert,
            change,
            always_stored: false,
            is_hidden: false,
            absent_stored: 0,
            access,
        }
    }

    /// A number that is always set. `set` is called with numbers of the range only.
    pub(crate) const fn number(
        name: &'static str,
        range: NumberRange,
        get: fn(&O) -> Option<u64>,
        set: fn(&mut O, Option<u64>),
    ) -> Row<O> {
        Row::new(name, Access::Number { range, absent: None, get, set })
    }

    /// A name, perhaps with parameters.
    pub(crate) const fn text(
        name: &'static str,
        choices: fn() -> String,
        get: fn(&O) -> String,
        set: fn(&mut O, &str) -> Result<(), String>,
    ) -> Row<O> {
        Row::new(name, Access::Text { choices, get, set })
    }

    /// Yes or no.
    pub(crate) const fn flag(name: &'static str, get: fn(&O) -> bool, set: fn(&mut O, bool)) -> Row<O> {
        Row::new(name, Access::Flag { get, set })
    }

    /// Allows the number to be unset, which is written `word` and means `meaning`.
    pub(crate) const fn or(mut self, word: &'static str, meaning: &'static str) -> Row<O> {
        if let Access::Number { absent, .. } = &mut self.access {
            *absent = Some(Absent { word, meaning });
        }
        self
    }

    /// The number that represents an unset one in the stored form; 0 by default.
    pub(crate) const fn absent_stored_as(mut self, number: u64) -> Row<O> {
        self.absent_stored = number;
        self
    }

    /// One sentence for users.
    pub(crate) const fn help(mut self, help: &'static str) -> Row<O> {
        self.help = help;
        self
    }

    /// Which users need it; [`OptionGroup::Expert`] by default.
    pub(crate) const fn group(mut self, group: OptionGroup) -> Row<O> {
        self.group = group;
        self
    }

    /// Whether it can change while the database is open.
    pub(crate) const fn changes(mut self, change: OptionChange) -> Row<O> {
        self.change = change;
        self
    }

    /// Other accepted names.
    pub(crate) const fn also(mut self, aliases: &'static [&'static str]) -> Row<O> {
        self.aliases = aliases;
        self
    }

    /// Another name in the stored form.
    pub(crate) const fn stored_as(mut self, stored: &'static str) -> Row<O> {
        self.stored = stored;
        self
    }

    /// Stored, but not settable by users.
    pub(crate) const fn hidden(mut self) -> Row<O> {
        self.is_hidden = true;
        self
    }

    /// Stored even where it has its default.
    pub(crate) const fn always_stored(mut self) -> Row<O> {
        self.always_stored = true;
        self
    }

    /// Whether it is an accepted name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.stored == name || self.aliases.contains(&name)
    }

    /// The value as [`Row::set_text`] takes it.
    pub(super) fn text_of(&self, options: &O) -> String {
        match &self.access {
            Access::Number { range, absent, get, .. } => match (get(options), absent) {
                (Some(number), _) => range.unit.text(number),
                (None, Some(absent)) => absent.word.to_owned(),
                (None, None) => String::new(),
            },
            Access::Text { get, .. } => get(options),
            Access::Flag { get, .. } => if get(options) { "true" } else { "false" }.to_owned(),
        }
    }

    /// Sets the value from text that was given for `name`, one of the option's.
    pub(super) fn set_text(&self, options: &mut O, name: &str, text: &str) -> Result<()> {
        let text = text.trim();
        match &self.access {
            Access::Number { range: NumberRange { unit, min, .. }, absent, set, .. } => {
                // Where 0 is no number of the option, it is another word for an unset one.
                let is_absent = |absent: &Absent| text == absent.word || (text == "0" && *min > 0);
                if absent.as_ref().is_some_and(is_absent) {
                    set(options, None);
                    return Ok(());
                }
                // The stored name includes the unit, the shown one leaves it to the value.
                let plain = name == self.stored && name != self.name;
                let number = if plain { text.parse().ok() } else { unit.parse(text) };
                let number = number.ok_or_else(|| self.refused(name, text, &unit.needed()))?;
                self.in_range(number)?;
                set(options, Some(number));
                Ok(())
            }
            Access::Text { set, .. } => {
                set(options, text).map_err(|reason| self.refused(name, text, &reason))
            }
            Access::Flag { set, .. } => {
                let value = match text {
                    "yes" | "true" | "on" | "1" => true,
                    "no" | "false" | "off" | "0" => false,
                    _ => return Err(self.refused(name, text, "")),
                };
                set(options, value);
                Ok(())
            }
        }
    }

    fn refused(&self, name: &str, text: &str, reason: &str) -> Error {
        // A refused name has a reason with the choices.
        let says_all = matches!(self.access, Access::Text { .. }) && !reason.is_empty();
        let allowed = if says_all { String::new() } else { format!("; it may be {}", self.allowed()) };
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        Error::invalid(format!("{text:?} is no value of {name}{reason}{allowed}"))
    }

    /// Sets the value from its stored form. An error says what is wrong with it here.
    pub(super) fn set_field(&self, options: &mut O, field: &Field<'_>) -> Result<(), String> {
        match (&self.access, field) {
            (Access::Number { absent, set, .. }, Field::Number(number)) => {
                let is_absent = *number == self.absent_stored && absent.is_some();
                if !is_absent {
                    self.in_range(*number).map_err(|error| error.to_string())?;
                }
                set(options, (!is_absent).then_some(*number));
            }
            (Access::Text { set, .. }, Field::Text(text)) => set(options, text)?,
            (Access::Flag { set, .. }, Field::Number(number @ (0 | 1))) => set(options, *number == 1),
            _ => return Err("a value of another type".to_owned()),
        }
        Ok(())
    }

    /// An error unless the option's value is allowed, however it was set.
    pub(super) fn check(&self, options: &O) -> Result<()> {
        match &self.access {
            Access::Number { get, .. } => get(options).map_or(Ok(()), |number| self.in_range(number)),
            Access::Text { get, .. } => {
                // A value of the right type may still be outside of what can be written and read back.
                self.set_text(&mut options.clone(), self.name, &get(options))
            }
            Access::Flag { .. } => Ok(()),
        }
    }

    fn in_range(&self, number: u64) -> Result<()> {
        let Access::Number { range, .. } = &self.access else { return Ok(()) };
        if (range.min..=range.max).contains(&number) {
            return Ok(());
        }
        let (name, shown) = (self.name, range.unit.human(number));
        Err(Error::invalid(format!("{name} is {shown}, it must be {}", self.allowed())))
    }

    /// The allowed values, for users.
    pub(super) fn allowed(&self) -> String {
        match &self.access {
            Access::Number { range: NumberRange { unit, min, max }, absent, .. } => {
                let range = match *max {
                    u64::MAX if *min == 0 => unit.any().to_owned(),
                    u64::MAX => format!("at least {}", unit.human(*min)),
                    max => format!("from {} to {}", unit.human(*min), unit.human(max)),
                };
                absent.map_or(range.clone(), |absent| format!("{range}, or {}", absent.word))
            }
            Access::Text { choices, .. } => choices(),
            Access::Flag { .. } => "true or false".to_owned(),
        }
    }

    /// The value with its name and further facts.
    pub(super) fn value(&self, options: &O) -> OptionValue {
        let text = self.text_of(options);
        let number = match &self.access {
            Access::Number { range: NumberRange { unit: Unit::Bytes | Unit::Count, .. }, get, .. } => {
                get(options)
            }
            _ => None,
        };
        let is_default = text == self.text_of(&O::default());
        OptionValue { name: self.name, text, number, is_default }
    }

    /// The description of the option.
    pub(crate) fn info(&self) -> OptionInfo {
        let default = self.text_of(&O::default());
        let absent = match &self.access {
            Access::Number { absent, .. } => *absent,
            _ => None,
        };
        OptionInfo {
            scope: O::SCOPE,
            group: self.group,
            name: self.name,
            stored: self.stored,
            aliases: self.aliases,
            help: self.help,
            change: self.change,
            default_means: absent.filter(|absent| absent.word == default).map(|absent| absent.meaning),
            default,
            allowed: self.allowed(),
        }
    }
}
