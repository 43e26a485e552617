//! Reads the arguments of a command's documentation: `key@0 count:integer=COUNT? order{asc=ASC desc=DESC}`.

use crate::command::Argument;

/// The arguments that a line lists.
pub(super) fn list(text: &'static str) -> Vec<Argument> {
    let mut reader = Reader { rest: text };
    let arguments = reader.arguments();
    assert!(reader.rest.is_empty(), "`{text}`: what is `{}`?", reader.rest);
    arguments
}

struct Reader {
    rest: &'static str,
}

impl Reader {
    /// Arguments up to the end or a closing bracket.
    fn arguments(&mut self) -> Vec<Argument> {
        let mut arguments = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() || self.rest.starts_with(['}', ')']) {
                return arguments;
            }
            arguments.push(self.argument());
        }
    }

    fn argument(&mut self) -> Argument {
        let mut argument = Argument { name: self.word(), ..Argument::default() };
        while let Some(mark) = self.rest.chars().next().filter(|mark| ":@=^!?*+{(".contains(*mark)) {
            self.rest = &self.rest[mark.len_utf8()..];
            match mark {
                ':' => argument.kind = self.word(),
                '@' => argument.key_spec_index = self.word().parse().ok(),
                '=' => argument.token = Some(self.word()),
                '^' => argument.since = Some(self.word()),
                '!' => argument.deprecated_since = Some(self.word()),
                '?' => argument.optional = true,
                '*' => argument.multiple = true,
                '+' => argument.multiple_token = true,
                _ => {
                    argument.kind = if mark == '{' { "oneof" } else { "block" };
                    argument.arguments = self.arguments();
                    self.rest = &self.rest[1..];
                }
            }
        }
        if argument.kind.is_empty() {
            argument.kind = match (argument.key_spec_index, argument.token) {
                (Some(_), _) => "key",
                (None, Some(_)) => "pure-token",
                (None, None) => "string",
            };
        }
        argument
    }

    /// A word up to a mark, or in quotes.
    fn word(&mut self) -> &'static str {
        let (word, rest) = match self.rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => {
                let end = self.rest.find([' ', ':', '@', '=', '^', '!', '?', '*', '+', '{', '}', '(', ')']);
                self.rest.split_at(end.unwrap_or(self.rest.len()))
            }
        };
        self.rest = rest;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_types_and_brackets_are_read() {
        let [key, count, order] =
            &list("key@2 count:integer=COUNT^6.2.0?*+ \"a b\"!2.8.1{asc=ASC x=\"*\"}")[..]
        else {
            panic!("three arguments")
        };
        assert_eq!((key.name, key.kind, key.key_spec_index), ("key", "key", Some(2)));
        assert_eq!((count.kind, count.token, count.since), ("integer", Some("COUNT"), Some("6.2.0")));
        assert!(count.optional && count.multiple && count.multiple_token);
        assert_eq!((order.name, order.kind, order.deprecated_since), ("a b", "oneof", Some("2.8.1")));
        assert_eq!(order.arguments[0].kind, "pure-token");
        assert_eq!(order.arguments[1].token, Some("*"));
    }
}
