//! Dispatch: from the request of a connection to the service that it names, under the caller's rights and
//! deadline.

use crate::access::{Caller, Right};
use crate::admin::AdminService;
use crate::call::{Call, Hangup};
use crate::deadline::Deadline;
use crate::held_bytes::{CountedBody, Hold, HoldingBody};
use crate::key_value::KeyValueService;
use crate::proto::DESCRIPTORS;
use crate::proto::admin_server::AdminServer;
use crate::proto::key_value_server::KeyValueServer;
use crate::shared::Shared;
use crate::status::deadline_passed;
use http::{Request, Response};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::{Status, server::NamedService};
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};

/// Bytes that a client must take in a second, on average, of an answer that is counted.
const SLOWEST_BYTES_A_SECOND: usize = 1 << 20;

/// A service that answers requests with any body that is counted.
type Answered = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
type Handler = dyn Fn(Request<CountedBody<Incoming>>) -> Answered + Send + Sync;

/// The services, and what their calls share.
#[derive(Clone)]
pub(crate) struct Dispatch {
    shared: Arc<Shared>,
    key_value: KeyValueServer<KeyValueService>,
    admin: AdminServer<AdminService>,
    health: Arc<Handler>,
    reflection: Arc<Handler>,
    older_reflection: Arc<Handler>,
    reporter: HealthReporter,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    KeyValue,
    Admin,
    Health,
    Reflection,
    OlderReflection,
}

impl Dispatch {
    pub(crate) fn new(shared: &Arc<Shared>) -> Dispatch {
        let limit = shared.config.max_message_bytes;
        let (reporter, health) = health_reporter();
        let reflection = || {
            // Health as well: clients such as grpcurl call what they find described.
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let broken = "the descriptors are made with the code";
        Dispatch {
            key_value: KeyValueServer::new(KeyValueService(Arc::clone(shared)))
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            admin: AdminServer::new(AdminService(Arc::clone(shared)))
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            health: handler(health),
            reflection: handler(reflection().build_v1().expect(broken)),
            older_reflection: handler(reflection().build_v1alpha().expect(broken)),
            reporter,
            shared: Arc::clone(shared),
        }
    }

    /// Tells clients that ask for it whether the services are there.
    pub(crate) async fn report(&self, status: ServingStatus) {
        let names = ["", KeyValueServer::<KeyValueService>::NAME, AdminServer::<AdminService>::NAME];
        for name in names {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Answers a request of a connection.
    pub(crate) async fn answer(&self, request: Request<Incoming>, hangup: Hangup) -> Response<Body> {
        match self.call(request, &hangup).await {
            Ok(mut response) => match response.extensions_mut().remove::<Arc<Hold>>() {
                None => response,
                Some(hold) => response.map(|body| Body::new(watched(body, hold, hangup, &self.shared))),
            },
            Err(status) => status.into_http(),
        }
    }

    async fn call(&self, request: Request<Incoming>, hangup: &Hangup) -> Result<Response<Body>, Status> {
        let (target, right) = target_of(request.uri().path()).ok_or_else(|| {
            let path = request.uri().path();
            Status::unimplemented(format!("there is no method {path}"))
        })?;
        let caller = Caller::new(&self.shared.access, request.headers(), right)?;
        caller.check()?;
        let deadline = Deadline::of(request.headers())?;
        let hold = Arc::new(self.shared.held.none());
        // Requests of reflection are a stream, which may be open for long.
        let is_stream = matches!(target, Target::Reflection | Target::OlderReflection);
        let arrives_within = (!is_stream).then_some(self.shared.config.client_timeout);
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(Call { caller, deadline, hangup: hangup.clone() });
        let body = CountedBody::new(body, Arc::clone(&hold), arrives_within);
        let answered = deadline.limit(self.handle(target, Request::from_parts(parts, body))).await;
        // The request was held while it was processed.
        drop(hold);
        answered.ok_or_else(deadline_passed)
    }

    async fn handle(&self, target: Target, request: Request<CountedBody<Incoming>>) -> Response<Body> {
        let answered = match target {
            Target::KeyValue => self.key_value.clone().call(request).await,
            Target::Admin => self.admin.clone().call(request).await,
            Target::Health => (self.health)(request).await,
            Target::Reflection => (self.reflection)(request).await,
            Target::OlderReflection => (self.older_reflection)(request).await,
        };
        answered.unwrap_or_else(|never| match never {})
    }
}

fn handler<S>(service: S) -> Arc<Handler>
where
    S: Service<Request<CountedBody<Incoming>>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Arc::new(move |request| Box::pin(service.clone().call(request)))
}

/// The body of a counted answer. A client that takes too long over it is disconnected.
fn watched(body: Body, hold: Arc<Hold>, hangup: Hangup, shared: &Shared) -> HoldingBody {
    let seconds = hold.bytes() / SLOWEST_BYTES_A_SECOND;
    let limit = shared.config.client_timeout + Duration::from_secs(seconds as u64);
    let (body, sent) = HoldingBody::new(body, hold);
    tokio::spawn(async move {
        if tokio::time::timeout(limit, sent).await.is_err() {
            hangup.hang_up();
        }
    });
    body
}

/// What a path names, and the right that it needs.
fn target_of(path: &str) -> Option<(Target, Right)> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    match service {
        "esker.v1.KeyValue" => {
            let right = match method {
                "Get" | "MultiGet" | "Scan" | "Changes" | "OpenSnapshot" | "RenewSnapshot"
                | "CloseSnapshot" => Right::Read,
                "Put" | "Delete" | "DeleteRange" | "Batch" | "AcknowledgeChanges" => Right::Write,
                _ => return None,
            };
            Some((Target::KeyValue, right))
        }
        "esker.v1.Admin" => Some((Target::Admin, Right::Admin)),
        "grpc.health.v1.Health" => Some((Target::Health, Right::Nothing)),
        "grpc.reflection.v1.ServerReflection" => Some((Target::Reflection, Right::Known)),
        "grpc.reflection.v1alpha.ServerReflection" => Some((Target::OlderReflection, Right::Known)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every method of the service has its right: one that is added and not listed would be refused.
    #[test]
    fn every_method_needs_the_right_of_what_it_does() {
        let proto = include_str!("../proto/esker/v1/esker.proto");
        let mut service = "";
        let mut rights = Vec::new();
        for line in proto.lines() {
            if let Some(rest) = line.strip_prefix("service ") {
                service = rest.split(' ').next().unwrap_or_default();
            }
            if let Some(rest) = line.trim().strip_prefix("rpc ") {
                let method = rest.split('(').next().unwrap_or_default();
                let (_, right) = target_of(&format!("/esker.v1.{service}/{method}")).expect(method);
                rights.push((method, right));
            }
        }
        assert!(rights.len() > 20, "{rights:?}");
        for (method, right) in rights {
            let writes = ["Put", "Delete", "DeleteRange", "Batch", "AcknowledgeChanges"];
            assert!(!writes.contains(&method) || right == Right::Write, "{method}");
            assert_ne!(right, Right::Nothing, "{method}");
        }
        assert_eq!(target_of("/esker.v1.Other/Get"), None);
        assert_eq!(target_of("Get"), None);
    }
}
