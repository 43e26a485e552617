//! Explanations under `/api/v1/explain`: one at a time, each bounded in what it walks over and in its length.

use crate::query::Query;
use crate::response::{Answer, JSON_TYPE, answer, error};
use crate::shared::Shared;
use esker::explain::{Explanation, ScanOptions};
use esker::{Error, Keyspace};
use hyper::StatusCode;
use std::ops::Bound;

/// Paths below `/api/v1/`, with the parameters that must be given.
pub(crate) const LISTED: [&str; 6] =
    ["explain/get?key=", "explain/scan", "explain/put", "explain/space", "explain/memory", "explain/stall"];

/// Entries that a scan walks over unless it says otherwise, and at most.
const DEFAULT_LIMIT: u64 = 1_000;
const MAX_LIMIT: u64 = 100_000;

/// Steps within a step. Of thousands of keyspaces the smallest become one step.
const MAX_STEPS: usize = 256;

/// A question that was asked rightly.
#[derive(Debug)]
pub(crate) struct Question {
    subject: Subject,
    query: Query,
}

#[derive(Clone, Copy, Debug)]
enum Subject {
    Get,
    Scan,
    Put,
    Space,
    Memory,
    Stall,
}

impl Question {
    /// The question of a path behind `/api/v1`; `None` if that is no explanation.
    pub(crate) fn asked(path: &str, query: Option<&str>) -> Option<Result<Question, String>> {
        let (subject, names): (Subject, &[&str]) = match path.strip_prefix("/explain/")? {
            "get" => (Subject::Get, &["keyspace", "key"]),
            "scan" => (Subject::Scan, &["keyspace", "prefix", "start", "end", "limit", "reverse"]),
            "put" => (Subject::Put, &["keyspace"]),
            "space" => (Subject::Space, &[]),
            "memory" => (Subject::Memory, &[]),
            "stall" => (Subject::Stall, &[]),
            _ => return None,
        };
        Some(Query::parse(query.unwrap_or_default(), names).map(|query| Question { subject, query }))
    }

    /// Finds the answer, which may read files.
    pub(crate) fn answered(&self, shared: &Shared) -> Answer {
        match self.explained(shared) {
            Ok(explanation) => {
                let json = explanation.shortened(MAX_STEPS).to_json();
                answer(StatusCode::OK, JSON_TYPE, json + "\n")
            }
            Err(Refused(status, sentence)) => error(status, &sentence),
        }
    }

    fn explained(&self, shared: &Shared) -> Result<Explanation, Refused> {
        let database = shared.sources.database();
        Ok(match self.subject {
            Subject::Get => {
                let key =
                    self.query.bytes("key").ok_or_else(|| wrong("the parameter key is missing".into()))?;
                self.keyspace(shared)?.explain_get(key)?.1
            }
            Subject::Scan => self.scan(&self.keyspace(shared)?)?,
            Subject::Put => self.keyspace(shared)?.explain_put()?,
            Subject::Space => database.explain_space()?,
            Subject::Memory => database.explain_memory(),
            Subject::Stall => database.explain_stall(),
        })
    }

    fn keyspace(&self, shared: &Shared) -> Result<Keyspace, Refused> {
        let name = self.query.text("keyspace").map_err(wrong)?.unwrap_or("default");
        Ok(shared.sources.database().open_keyspace(name)?)
    }

    fn scan(&self, keyspace: &Keyspace) -> Result<Explanation, Refused> {
        let limit = self.query.number("limit", MAX_LIMIT).map_err(wrong)?.unwrap_or(DEFAULT_LIMIT);
        let is_reverse = self.query.flag("reverse").map_err(wrong)?;
        let options = ScanOptions::default().limit(limit).reverse(is_reverse);
        let [prefix, start, end] = ["prefix", "start", "end"].map(|name| self.query.bytes(name));
        let (start, end) = match (prefix, start, end) {
            (Some(prefix), None, None) => (prefix.to_vec(), behind(prefix)),
            (Some(_), ..) => return Err(wrong("prefix stands for start and end".into())),
            (None, start, end) => (start.unwrap_or_default().to_vec(), end.map(<[u8]>::to_vec)),
        };
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(keyspace.explain_scan((Bound::Included(start), end), options, |_, _| ())?)
    }
}

/// The least key that is greater than all that begin with these bytes; `None` if there is none.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut bytes = prefix[..=last].to_vec();
    bytes[last] += 1;
    Some(bytes)
}

/// Why there is no explanation.
struct Refused(StatusCode, String);

fn wrong(sentence: String) -> Refused {
    Refused(StatusCode::BAD_REQUEST, sentence)
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::NotFound(_) => StatusCode::NOT_FOUND,
            Error::InvalidArgument(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refused(status, error.to_string())
    }
}
