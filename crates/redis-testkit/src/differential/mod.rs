//! Differential test: the same random requests to two servers, and every reply compared byte for byte.
//!
//! Requests come from the documentation of arguments of the whole command table and from shapes by hand, over
//! few keys, so that commands meet. What Redis itself does not answer the same twice is compared by a rule of
//! its own ([`rules`]). The state of both is compared now and then ([`state`]). A list of requests that
//! disagrees is made short ([`shrink`]).

mod arguments;
mod effects;
mod error_number;
mod excluded;
mod generator;
mod lockstep;
mod pair;
mod pools;
mod request;
mod rules;
mod shapes;
mod shrink;
mod standing_alone;
mod state;

pub use effects::{same_state, timeless_requests};
pub use pair::Disagreement;
pub use request::Request;

use crate::random::Random;
use crate::server::Server;
use error_number::with_error_number_cleared;
use generator::Generator;
use lockstep::{Lockstep, PUSHES};
use pair::{PATIENCE, Pair, SHRINKING_PATIENCE, ended};
use request::{full_name, line};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Requests between two comparisons of the state.
const PER_STATE: usize = 1_000;
/// A command that has failed so often is left out, so that others are reached.
const FAILURES_PER_COMMAND: usize = 2;
/// Requests shown before and behind the one at which a server ended: such a list cannot be shortened.
const REQUESTS_SHOWN: usize = 60;
/// Lists that are tried to make one failure short.
const TRIALS: usize = 400;
const TRIALS_IN_SILENCE: usize = 24;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Each seed is a list of requests on empty databases; every second one in RESP3.
    pub seeds: std::ops::Range<u64>,
    /// Requests of a seed.
    pub requests: usize,
    /// Only commands of these groups, as the table names them; empty for all.
    pub groups: Vec<String>,
    /// The run ends with so many failures.
    pub failures: usize,
}

impl Plan {
    /// `commands` requests, or `ESKER_COMMANDS`; from `ESKER_SEED`, and only of `ESKER_GROUPS`, such as
    /// `hash,set`, where they are set.
    pub fn from_environment(commands: u64) -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let commands = number("ESKER_COMMANDS").unwrap_or(commands);
        let first = number("ESKER_SEED").unwrap_or(1);
        let groups = std::env::var("ESKER_GROUPS").unwrap_or_default();
        let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
        let requests = 2_000;
        Self {
            seeds: first..first + commands.div_ceil(requests),
            requests: requests as usize,
            groups,
            failures: 40,
        }
    }
}

/// A short list of requests to which the servers do not answer the same.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that found it.
    pub seed: u64,
    /// 2 or 3.
    pub protocol: u8,
    /// The requests, on empty databases.
    pub requests: Vec<Request>,
    /// The replies.
    pub disagreement: Disagreement,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// Requests sent, those of shrinking not counted.
    pub requests: usize,
    /// All failures, at most two for each command.
    pub failures: Vec<Failure>,
    /// Commands that the second server says it does not have. They were left out.
    pub missing: BTreeSet<String>,
    /// Of each command, how often the first server answered with a value and how often with an error.
    pub replies: BTreeMap<String, (usize, usize)>,
}

/// Compares two servers. Both lose what they hold. Prints failures as they are found.
#[expect(clippy::print_stdout, reason = "a run that is ended early has shown what it had found")]
pub fn compare(left: &Server, right: &Server, plan: &Plan) -> Report {
    let generator = Generator::new(&plan.groups);
    let mut report = Report { missing: missing_commands(right), ..Report::default() };
    let mut without = report.missing.clone();
    for seed in plan.seeds.clone() {
        if report.failures.len() >= plan.failures {
            break;
        }
        let with_hello = !report.missing.contains("hello");
        let protocol = if seed % 2 == 0 && with_hello { 3 } else { 2 };
        let requests = generator.requests(&mut Random::of(seed), plan.requests, &without);
        let requests = with_error_number_cleared(requests);
        report.requests += requests.len();
        let with_state = !state::COMMANDS.iter().any(|command| report.missing.contains(*command));
        let trial = Trial { left, right, protocol, with_hello, with_state, patience: PATIENCE };
        let Err(disagreement) = trial.run(&requests, &mut report.replies) else { continue };
        let failure = trial.shrunk(seed, requests, disagreement);
        let command = failure.disagreement.command.clone();
        let same = report.failures.iter().filter(|other| other.disagreement.command == command).count();
        if same + 1 >= FAILURES_PER_COMMAND {
            without.insert(command);
        }
        println!("{failure}");
        let ended = failure.disagreement.command.ends_with("(a server ended)");
        report.failures.push(failure);
        if ended {
            break;
        }
    }
    report
}

/// The commands to which a server answers that it has none of this name.
fn missing_commands(server: &Server) -> BTreeSet<String> {
    let unknown = |request: &Request| {
        let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        // A connection for each: some change its state.
        let mut client = server.connect();
        client.set_patience(PATIENCE);
        client.try_send(&crate::client::encode(&arguments)).unwrap_or_default();
        let error = client.try_read().ok().and_then(|reply| reply.error().map(<[u8]>::to_vec));
        let text = String::from_utf8_lossy(&error.unwrap_or_default()).into_owned();
        text.starts_with("ERR unknown command") || text.starts_with("ERR this server has no command")
    };
    let requests = generator::of_each_command(&mut Random::of(0));
    requests.iter().filter(|request| unknown(request)).map(|request| full_name(request)).collect()
}

/// A list of requests on empty databases of both servers.
struct Trial<'s> {
    left: &'s Server,
    right: &'s Server,
    protocol: u8,
    /// Whether both can be asked for a version of the protocol.
    with_hello: bool,
    with_state: bool,
    /// How long a reply or a push is awaited.
    patience: Duration,
}

impl Trial<'_> {
    fn run(
        &self,
        requests: &[Request],
        replies: &mut BTreeMap<String, (usize, usize)>,
    ) -> Result<(), Disagreement> {
        let connect =
            || Pair::connect(self.left, self.right, self.patience).map_err(|error| ended(0, &error));
        let mut pair = connect()?;
        for cleaning in CLEANINGS {
            // A server that knows less refuses some; that is found by requests that need them.
            pair.call(&request::words(cleaning));
        }
        let mut inspectors = connect()?;
        if self.with_hello {
            pair.call(&request::words(&format!("HELLO {}", self.protocol)));
            inspectors.call(&request::words("HELLO 3"));
        }
        let mut lockstep = Lockstep::new(pair);
        for (number, part) in requests.chunks(PER_STATE).enumerate() {
            let start = number * PER_STATE;
            let mut count = |request: &Request, value: &esker_resp::value::Value| {
                let counts = replies.entry(full_name(request)).or_default();
                if value.error().is_some() { counts.1 += 1 } else { counts.0 += 1 }
            };
            lockstep.run(part, &mut count).map_err(|wrong| Disagreement { at: wrong.at + start, ..wrong })?;
            if self.with_state {
                state::compare_state(&mut inspectors, start + part.len())?;
            }
        }
        Ok(())
    }

    /// The failure with as few requests as show it.
    fn shrunk(&self, seed: u64, mut requests: Vec<Request>, found: Disagreement) -> Failure {
        if Pair::connect(self.left, self.right, self.patience).is_err() {
            // A server has ended, and nothing can be tried any more. It had got all of the pipeline.
            requests.truncate(found.at + REQUESTS_SHOWN);
            let requests = requests.split_off(found.at.saturating_sub(REQUESTS_SHOWN));
            let command = format!("{} (a server ended)", found.command);
            let disagreement = Disagreement { command, ..found };
            return Failure { seed, protocol: self.protocol, requests, disagreement };
        }
        requests.truncate(found.at + 1);
        let (protocol, command) = (self.protocol, found.command.clone());
        // Each trial takes as long as a reply or a push is awaited, if none comes.
        let shown = [&found.left, &found.right, &found.question];
        let is_silent = shown.iter().any(|text| text.contains("(no reply") || text.contains(PUSHES));
        let trials = if is_silent { TRIALS_IN_SILENCE } else { TRIALS };
        let quick = Trial { patience: SHRINKING_PATIENCE, ..*self };
        let mut last = found;
        let requests = shrink::shrink(requests, trials, |shorter| {
            let shorter = with_error_number_cleared(shorter.to_vec());
            match quick.run(&shorter, &mut BTreeMap::new()) {
                Err(wrong) if wrong.command == command => {
                    last = wrong;
                    true
                }
                _ => false,
            }
        });
        Failure { seed, protocol, requests, disagreement: last }
    }
}

/// What makes both servers empty and brings their parameters back.
const CLEANINGS: [&str; 14] = [
    "FLUSHALL",
    "SCRIPT FLUSH",
    "FUNCTION FLUSH",
    "ACL DELUSER u1 u2 u3",
    "CONFIG SET proto-max-bulk-len 1mb",
    "CONFIG SET hash-max-listpack-entries 128",
    "CONFIG SET hash-max-listpack-value 64",
    "CONFIG SET set-max-intset-entries 512",
    "CONFIG SET zset-max-listpack-entries 128",
    "CONFIG SET zset-max-listpack-value 64",
    "CONFIG SET hll-sparse-max-bytes 3000",
    "CONFIG SET slowlog-max-len 128",
    "CONFIG SET slowlog-log-slower-than 10000",
    "CONFIG SET timeout 0",
];

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "--- {} (ESKER_SEED={}, RESP{})", self.disagreement.command, self.seed, self.protocol)?;
        for request in &self.requests {
            writeln!(f, "    {}", line(request))?;
        }
        writeln!(f, "  asked:  {}", self.disagreement.question)?;
        writeln!(f, "  first:  {}", self.disagreement.left)?;
        writeln!(f, "  second: {}", self.disagreement.right)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} requests, {} failures", self.requests, self.failures.len())?;
        if !self.missing.is_empty() {
            writeln!(f, "no such command: {}", self.missing.iter().cloned().collect::<Vec<_>>().join(" "))?;
        }
        self.failures.iter().try_for_each(|failure| write!(f, "{failure}"))
    }
}
