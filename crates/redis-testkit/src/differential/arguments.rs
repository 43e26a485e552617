//! Arguments of a command from its documentation: choices, optional parts, repetitions, counts of keys.

use super::pools;
use crate::random::Random;
use esker_redis_commands::Command;
use esker_redis_commands::command::Argument;

/// A request of a command as its documentation describes it.
pub(super) fn documented(random: &mut Random, command: &Command) -> Vec<Vec<u8>> {
    let words = command.name().split('|');
    let mut writer = ArgumentWriter {
        random,
        group: command.docs().group,
        name: command.name(),
        request: words.map(|word| word.as_bytes().to_vec()).collect(),
        count_at: None,
        keys: 0,
    };
    writer.list(command.docs().arguments.as_deref().unwrap_or(&[]));
    writer.fill_count();
    writer.request
}

struct ArgumentWriter<'r> {
    random: &'r mut Random,
    group: &'static str,
    name: &'static str,
    request: Vec<Vec<u8>>,
    /// Where the number of keys stands, until they are known.
    count_at: Option<usize>,
    /// How many keys the last repetition had.
    keys: usize,
}

impl ArgumentWriter<'_> {
    fn list(&mut self, arguments: &[Argument]) {
        for argument in arguments {
            if !argument.optional || self.random.below(10) < 4 {
                self.argument(argument);
            }
        }
    }

    fn argument(&mut self, argument: &Argument) {
        let times = match argument.name {
            _ if !argument.multiple => 1,
            // As many as keys, mostly.
            "weight" | "id" if self.keys > 0 && !self.random.once_in(10) => self.keys,
            _ => 1 + self.random.below(3),
        };
        for time in 0..times {
            if let Some(token) = argument.token
                && (time == 0 || argument.multiple_token)
            {
                let token = if self.random.once_in(4) { token.to_lowercase() } else { token.to_owned() };
                self.request.push(token.into_bytes());
            }
            self.one(argument);
        }
        if argument.kind == "key" {
            self.keys = times;
            self.fill_count();
        }
    }

    fn one(&mut self, argument: &Argument) {
        match argument.kind {
            "pure-token" => {}
            "oneof" => {
                let choice = self.random.below(argument.arguments.len());
                self.argument(&argument.arguments[choice]);
            }
            "block" => self.list(&argument.arguments),
            "integer" if argument.name == "numkeys" => {
                self.count_at = Some(self.request.len());
                self.request.push(Vec::new());
            }
            kind => {
                let value = self.value(kind, argument.name);
                self.request.push(value);
            }
        }
    }

    /// Writes the number of keys where it belongs; sometimes a wrong one.
    fn fill_count(&mut self) {
        if let Some(at) = self.count_at.take() {
            let wrong = self.random.once_in(12);
            self.request[at] =
                if wrong { pools::integer(self.random) } else { self.keys.to_string().into_bytes() };
        }
    }

    fn value(&mut self, kind: &str, name: &str) -> Vec<u8> {
        let random = &mut *self.random;
        let stream = self.group == "stream";
        match (kind, name) {
            ("key", _) | (_, "newkey") => pools::key(random, self.group),
            ("pattern", _) => pools::pattern(random),
            ("unix-time", _) => pools::unix_time(random),
            (_, "timeout") => pools::waiting_time(random),
            (_, "seconds" | "ttl") => pools::time_to_live(random),
            (_, "milliseconds") if stream => random.pick(&["1", "1", "1", "-1", "a"]).as_bytes().to_vec(),
            (_, "milliseconds") => pools::time_to_live(random),
            (_, "min-idle-time" | "ms") => {
                random.pick(&["0", "0", "-1", "100000000", "a"]).as_bytes().to_vec()
            }
            (_, "longitude" | "latitude") => pools::coordinate(random),
            (_, "radius" | "width" | "height") => {
                random.pick(&["1", "100", "5000", "1000000", "-1", "nan", "0", "1e10"]).as_bytes().to_vec()
            }
            (_, "min" | "max") => pools::bound(random),
            (_, "start" | "stop") if self.name == "zrange" => pools::bound(random),
            (_, "id" | "start" | "end" | "last-id" | "max_deleted_entry_id" | "threshold") if stream => {
                pools::stream_id(random)
            }
            (_, "group" | "groupname") => random.pick(&["g1", "g2", "g1", "none", ""]).as_bytes().to_vec(),
            (_, "consumer" | "consumername") => random.pick(&["c1", "c2", "c3", ""]).as_bytes().to_vec(),
            (_, "index") if self.name == "select" => database(random),
            (_, "destination-db" | "index1" | "index2" | "db") => database(random),
            (_, "cursor") => random.pick(&["0", "0", "0", "0", "5", "-1", "a", ""]).as_bytes().to_vec(),
            (_, "encoding") => encoding(random),
            (_, "offset") if self.name == "setrange" || self.group == "bitmap" => offset(random),
            (_, "operation") => random.pick(&["AND", "OR", "XOR", "NOT", "not", "NAND"]).as_bytes().to_vec(),
            (_, "bit") => random.pick(&["0", "1", "1", "2", "-1", "a"]).as_bytes().to_vec(),
            (_, "type") => {
                random.pick(&["string", "list", "hash", "none", "x", "stream"]).as_bytes().to_vec()
            }
            ("integer", _) => pools::integer(random),
            ("double", _) => pools::double(random),
            _ => pools::element(random),
        }
    }
}

fn database(random: &mut Random) -> Vec<u8> {
    random.pick(&["0", "0", "1", "1", "15", "16", "-1", "a"]).as_bytes().to_vec()
}

fn encoding(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => random.pick(&["u64", "i65", "i0", "u0", "x8", "i", "", "i64", "u63"]).as_bytes().to_vec(),
        _ => format!("{}{}", random.pick(&["i", "u"]), 1 + random.below(63)).into_bytes(),
    }
}

/// An offset in bits or bytes: mostly small, sometimes beyond what one record holds, rarely beyond all
/// limits.
fn offset(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0 => pools::integer_edge(random),
        1 => random.pick(&["#0", "#1", "#7", "#-1", "#", "-1", "a"]).as_bytes().to_vec(),
        2 => (16_384 * 8 + random.below(200) - 100).to_string().into_bytes(),
        3 => (16_384 + random.below(200) - 100).to_string().into_bytes(),
        _ => random.below(200).to_string().into_bytes(),
    }
}
