//! Answers: their bodies, and the headers that all of them have.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

pub(crate) type Answer = Response<Full<Bytes>>;

/// What a browser may do with an answer: nothing, but run the page's own script and style and fetch from
/// here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The header by which a client knows this server, and its value, the version of the paths.
pub const MARK: (&str, &str) = ("esker-admin", "1");

/// Headers of every answer. Figures are of the moment, and belong to no other site.
const HEADERS: [(HeaderName, &str); 7] = [
    (HeaderName::from_static(MARK.0), MARK.1),
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, POLICY),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(crate) const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(crate) const JSON_TYPE: &str = "application/json";
pub(crate) const TEXT_TYPE: &str = "text/plain; charset=utf-8";
pub(crate) const HTML_TYPE: &str = "text/html; charset=utf-8";
pub(crate) const STYLE_TYPE: &str = "text/css; charset=utf-8";
pub(crate) const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";

/// An answer with a body of this type.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

pub(crate) fn json(status: StatusCode, value: &Value) -> Answer {
    answer(status, JSON_TYPE, format!("{value}\n"))
}

/// An error with a sentence that says what to do.
pub(crate) fn error(status: StatusCode, sentence: &str) -> Answer {
    let mut answer = json(status, &json!({ "error": sentence }));
    let header = match status {
        // A browser asks for a password then.
        StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Basic realm=\"esker\", charset=\"UTF-8\"")),
        StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, HEAD")),
        _ => None,
    };
    if let Some((name, value)) = header {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
