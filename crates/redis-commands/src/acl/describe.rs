//! Writes selectors and users as rules that make them again.

use super::command_set::{CATEGORIES, Category, CommandSet};
use super::selector::{Access, Selector};
use super::sha256::hex;
use super::user::User;
use crate::command::Command;
use crate::table;

/// The rules about commands: `+@all` or `-@all`, then categories, then single commands.
///
/// From `-@all` categories and commands are added, from `+@all` they are taken away. Categories come best
/// first: the one with the fewest commands that are wrong for the selector, and of those the one with most
/// that are right, as long as more are right than wrong.
pub(super) fn command_rules(selector: &Selector) -> Vec<u8> {
    let adding = !selector.commands.future;
    let sign = if adding { '+' } else { '-' };
    let mut rules = format!("{}@all", if adding { '-' } else { '+' });
    let mut described = if adding { CommandSet::default() } else { CommandSet::ALL };
    // What the chosen categories do not describe yet.
    let mut left = selector.commands;
    let mut unused: Vec<&Category> = CATEGORIES.iter().collect();
    while let Some(at) = best_category(&unused, &left, adding) {
        let category = unused.remove(at);
        rules.push_str(&format!(" {sign}@{}", category.name));
        described.set_all(&category.reach, adding);
        left.set_all(&category.reach, !adding);
    }
    let mut rules = rules.into_bytes();
    for command in table::all() {
        single_command(selector, command, &mut described, &mut rules);
    }
    rules
}

fn best_category(unused: &[&Category], left: &CommandSet, adding: bool) -> Option<usize> {
    let judged = unused.iter().enumerate().map(|(at, category)| {
        let (inside, outside) = left.count_in(&category.of_redis);
        if adding { (at, inside, outside) } else { (at, outside, inside) }
    });
    let useful = judged.filter(|(_, right, wrong)| right > wrong);
    let best = useful.min_by_key(|(at, right, wrong)| (*wrong, u32::MAX - right, *at));
    best.map(|(at, ..)| at)
}

/// The rule for a command that the rules so far get wrong, and its first arguments.
fn single_command(selector: &Selector, command: &Command, described: &mut CommandSet, rules: &mut Vec<u8>) {
    let allowed = selector.commands.contains(command);
    if described.contains(command) != allowed {
        let sign = if allowed { '+' } else { '-' };
        rules.extend_from_slice(format!(" {sign}{}", command.name()).as_bytes());
        described.set_whole(command, allowed);
    }
    if allowed {
        return;
    }
    for (_, argument) in
        selector.first_arguments.get(&command.index()).into_iter().flat_map(|list| list.iter())
    {
        rules.extend_from_slice(format!(" +{}|", command.name()).as_bytes());
        rules.extend_from_slice(argument);
    }
}

/// The key patterns as rules, with spaces between them.
pub(super) fn key_rules(selector: &Selector) -> Vec<u8> {
    if selector.all_keys {
        return b"~*".to_vec();
    }
    let last = selector.keys.len().saturating_sub(1);
    let rules = selector.keys.iter().enumerate().map(|(at, (pattern, access))| {
        let sign: &[u8] = match access {
            // `~*` would refuse the patterns after it when it is read.
            _ if *access == Access::ALL && pattern == b"*" && at < last => b"%RW~",
            Access { read: true, write: true } => b"~",
            Access { read: true, .. } => b"%R~",
            Access { .. } => b"%W~",
        };
        [sign, pattern].concat()
    });
    rules.collect::<Vec<_>>().join(&b' ')
}

/// The channel patterns as rules, with spaces between them.
pub(super) fn channel_rules(selector: &Selector) -> Vec<u8> {
    if selector.all_channels {
        return b"&*".to_vec();
    }
    let rules = selector.channels.iter().map(|(pattern, ())| [b"&", &pattern[..]].concat());
    rules.collect::<Vec<_>>().join(&b' ')
}

/// All rules of a selector.
fn selector_rules(selector: &Selector) -> Vec<u8> {
    let mut parts = Vec::new();
    if selector.all_keys || !selector.keys.is_empty() {
        parts.push(key_rules(selector));
    }
    if !selector.all_channels {
        parts.push(b"resetchannels".to_vec());
    }
    if selector.all_channels || !selector.channels.is_empty() {
        parts.push(channel_rules(selector));
    }
    parts.push(command_rules(selector));
    parts.join(&b' ')
}

impl User {
    /// The user's rules in one line, as `ACL LIST` and the file write them after the name.
    pub fn rules(&self) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = self.flag_names().map(|name| name.as_bytes().to_vec()).collect();
        parts.extend(self.passwords.iter().map(|(digest, ())| format!("#{}", hex(digest)).into_bytes()));
        for (at, selector) in self.selectors.iter().enumerate() {
            let rules = selector_rules(selector);
            parts.push(if at == 0 { rules } else { [b"(", &rules[..], b")"].concat() });
        }
        parts.join(&b' ')
    }
}
