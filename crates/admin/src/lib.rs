//! Observing a server over HTTP: metrics for Prometheus, health for supervisors and load balancers.
//!
//! A [`Listener`] is bound before the database is opened, and serves [`Sources`] until its [`Stop`] is set.
//! Figures come from the public reports of the database and from
//! [`esker_redis_server::figures`]; nothing is counted here, but for samples of the last minutes.
//!
//! # What holds
//! * HA1. Without a token a listener binds to loopback only. With one, a request without the token is
//!   answered by an error, except for health, which tells no more than a word for each reason.
//! * HA2. A request whose `Host` is a name that was not allowed is refused: a page of another site, whose
//!   name leads to this machine, reads nothing (DNS rebinding). Addresses cannot be such names.
//! * HA3. No request changes anything: GET and HEAD are answered, bodies are not read, and what makes texts
//!   only reads.
//! * HA4. What clients can hold is bounded: connections, handshakes, bytes of a request's head, the time for
//!   it, the life of a connection, and reports that are made at a time.
//! * HA5. Reports are made by threads of their own, so `/health/live` answers while one waits for a lock.
//!
//! # Map
//! [`config`] address, token and names; `access` which requests are answered; `texts` reports as the command
//! prints them; `sources` what is observed; `history` samples of the last minutes; `readiness` whether
//! clients are to be sent here; [`json`] reports as JSON, which the command prints as well; [`metrics`] the
//! catalogue of metrics and their text; `response` answers with their headers; `page` the status page;
//! `shared` what requests share; `query` the parameters of a request; `explanations` and `reports` what is
//! under `/api/v1`; `observer` the same without a listener; `routes` what a path answers; `connection` one
//! client; [`listener`] accepts and stops, `stop` tells it to.

#![forbid(unsafe_code)]

mod access;
pub mod config;
mod connection;
mod explanations;
mod history;
pub mod json;
pub mod listener;
pub mod metrics;
mod observer;
mod page;
mod query;
mod readiness;
mod reports;
mod response;
mod routes;
mod shared;
mod sources;
mod stop;
mod texts;

pub use config::{Config, Token};
pub use listener::Listener;
pub use observer::Observer;
pub use response::MARK;
pub use sources::Sources;
pub use stop::Stop;
pub use texts::{Refusal, Texts};
