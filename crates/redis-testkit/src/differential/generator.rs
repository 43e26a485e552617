//! Chooses what to send next: a command by its documentation, sometimes damaged, or a shape.

use super::excluded::{is_excluded, is_safe};
use super::request::{self, Request, full_name};
use super::shapes::{self, Shape};
use super::{arguments, pools};
use crate::random::Random;
use esker_redis_commands::{Command, table};
use std::collections::BTreeSet;

/// Requests that create keys, before all others.
const FIRST_CREATIONS: usize = 30;

/// Generates requests over the whole table.
#[derive(Debug)]
pub(super) struct Generator {
    commands: Vec<&'static Command>,
    shapes: Vec<Shape>,
}

impl Generator {
    /// Of the commands and shapes of some groups, or of all if none is named.
    pub(super) fn new(groups: &[String]) -> Self {
        let in_groups =
            |command: &Command| groups.is_empty() || groups.iter().any(|group| group == command.docs().group);
        let commands = table::all().iter().filter(|command| may_be_sent(command) && in_groups(command));
        Self { commands: commands.collect(), shapes: shapes::of_groups(groups) }
    }

    /// Of the commands of some groups and what makes keys for them.
    pub(super) fn of_commands(groups: &[String]) -> Self {
        Self { shapes: vec![shapes::creations], ..Self::new(groups) }
    }

    /// Requests until there are `count`, none of the commands in `without`.
    pub(super) fn requests(
        &self,
        random: &mut Random,
        count: usize,
        without: &BTreeSet<String>,
    ) -> Vec<Request> {
        let mut requests: Vec<Request> = Vec::new();
        let mut chosen = 0;
        while requests.len() < count {
            chosen += 1;
            let next = if chosen < FIRST_CREATIONS {
                shapes::creations(random)
            } else if random.below(10) < 3 {
                let shape = *random.pick(&self.shapes);
                shape(random)
            } else {
                vec![self.one(random)]
            };
            if next.iter().all(|request| is_safe(request) && !without.contains(&full_name(request))) {
                requests.extend(next);
            }
        }
        requests
    }

    /// A command of the table; most groups have few commands, so data commands come three times as often.
    fn one(&self, random: &mut Random) -> Request {
        let mut command = *random.pick(&self.commands);
        if command.key_specs().is_empty() && !random.once_in(4) {
            command = *random.pick(&self.commands);
        }
        let mut request = arguments::documented(random, command);
        if random.once_in(7) {
            damage(random, &mut request);
        }
        request
    }
}

/// Whether requests of the command can be compared with Redis.
fn may_be_sent(command: &Command) -> bool {
    command.subcommands().is_empty() && !command.is_extension() && !is_excluded(command.name())
}

/// Some requests of each command of the table that may be sent, by the documentation or by shapes.
pub(super) fn of_each_command(random: &mut Random) -> Vec<Request> {
    let by_hand = [
        "CONFIG SET nosuch 1",
        "CONFIG GET nosuch",
        "ACL SETUSER u1",
        "ACL DELUSER u1",
        "LCS a b",
        "MULTI",
        "COMMAND",
        "COMMAND GETKEYS GET a",
        "COMMAND GETKEYSANDFLAGS GET a",
    ];
    let commands = table::all().iter().filter(|command| may_be_sent(command));
    let requests = commands.flat_map(|command| {
        let requests = (0..20).map(|_| arguments::documented(random, command));
        requests.filter(|request| is_safe(request)).collect::<Vec<_>>()
    });
    requests.chain(by_hand.map(request::words)).collect()
}

/// Removes, repeats, exchanges or replaces arguments behind the name.
fn damage(random: &mut Random, request: &mut Request) {
    let at = 1 + random.below(request.len());
    match random.below(6) {
        0 if at < request.len() => drop(request.remove(at)),
        1 if at < request.len() => request.insert(at, request[at].clone()),
        2 if at < request.len() => request.swap(1, at),
        3 if at < request.len() => request[at] = pools::integer_edge(random),
        4 => request.truncate(at),
        _ => request.push(pools::element(random)),
    }
}
