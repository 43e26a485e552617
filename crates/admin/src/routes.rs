//! What a path answers, and to which requests.

use crate::access::{is_authorized, is_called_rightly};
use crate::explanations::Question;
use crate::page;
use crate::readiness::reasons;
use crate::reports;

use crate::response::{Answer, METRICS_TYPE, TEXT_TYPE, answer, error, json};
use crate::shared::Shared;
use crate::texts::{Refusal, options};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long a report may take. It reads counters, and waits for locks that writers hold for microseconds.
const REPORT_LIMIT: Duration = Duration::from_secs(10);

/// Where the texts of reports are.
const TEXTS: &str = "/api/v1/text/";

/// Answers a request.
pub(crate) async fn respond(shared: &Arc<Shared>, request: &Parts) -> Answer {
    let (uri, headers) = (&request.uri, &request.headers);
    if !is_called_rightly(uri, headers, &shared.config) {
        let sentence = "the request's Host is no name of this server: call it by its address or by localhost, \
                        or allow the name with --admin-host";
        return error(StatusCode::MISDIRECTED_REQUEST, sentence);
    }
    let is_health = uri.path().starts_with("/health/");
    if !is_health && !is_authorized(headers, shared.config.token.as_ref()) {
        return error(StatusCode::UNAUTHORIZED, "send the token: Authorization: Bearer TOKEN");
    }
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return error(
            StatusCode::METHOD_NOT_ALLOWED,
            "nothing can be changed here: only GET and HEAD are answered",
        );
    }
    match uri.path() {
        "/health/live" => json(StatusCode::OK, &json!({ "status": "live" })),
        "/health/ready" => report(shared, readiness).await,
        "/metrics" => report(shared, metrics).await,
        path if path.starts_with("/api/v1/explain/") => explanation(shared, path, uri.query()).await,
        path if let Some(words) = path.strip_prefix(TEXTS) => {
            let is_explanation = words.starts_with("explain/");
            let (words, query) = (words.to_owned(), uri.query().unwrap_or_default().to_owned());
            let made = move |shared: &Shared| text(shared, &words, &query);
            if is_explanation { only_explanation(shared, made).await } else { report(shared, made).await }
        }
        path => match (page::file(path), path.strip_prefix("/api/v1").and_then(reports::named)) {
            (Some((content_type, text)), _) => answer(StatusCode::OK, content_type, text),
            (None, Some(made)) => report(shared, move |shared| json(StatusCode::OK, &made(shared))).await,
            (None, None) => error(StatusCode::NOT_FOUND, "there is no such page; /api/v1 lists the reports"),
        },
    }
}

/// Makes an answer on a thread that may wait (HA5).
async fn report(shared: &Arc<Shared>, made: impl FnOnce(&Shared) -> Answer + Send + 'static) -> Answer {
    let shared = Arc::clone(shared);
    let made = tokio::task::spawn_blocking(move || made(&shared));
    match tokio::time::timeout(REPORT_LIMIT, made).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => {
            tracing::error!(%failure, "a report failed");
            error(StatusCode::INTERNAL_SERVER_ERROR, "making the report failed; the log says how")
        }
        Err(_) => error(StatusCode::SERVICE_UNAVAILABLE, "the report took longer than ten seconds"),
    }
}

/// Explains what a path asks for.
async fn explanation(shared: &Arc<Shared>, path: &str, query: Option<&str>) -> Answer {
    let question = path.strip_prefix("/api/v1").and_then(|path| Question::asked(path, query));
    match question {
        None => error(StatusCode::NOT_FOUND, "there is no such explanation; /api/v1 lists them"),
        Some(Err(sentence)) => error(StatusCode::BAD_REQUEST, &sentence),
        Some(Ok(question)) => only_explanation(shared, move |shared| question.answered(shared)).await,
    }
}

/// Makes an explanation, as JSON or as text, unless another one is being made: it may hold a thread for long.
async fn only_explanation(
    shared: &Arc<Shared>,
    made: impl FnOnce(&Shared) -> Answer + Send + 'static,
) -> Answer {
    let Ok(permit) = Arc::clone(&shared.explaining).try_acquire_owned() else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "another explanation is being made; ask again");
    };
    let made = move |shared: &Shared| {
        // It is given back when the work ends, also where the client waits no longer.
        let _permit = permit;
        made(shared)
    };
    report(shared, made).await
}

fn metrics(shared: &Shared) -> Answer {
    answer(StatusCode::OK, METRICS_TYPE, crate::metrics::scrape(&shared.sources))
}

/// The text for the words of a path and its query, or why there is none.
fn text(shared: &Shared, words: &str, query: &str) -> Answer {
    let Some(options) = options(query) else {
        return error(StatusCode::BAD_REQUEST, "the query is no percent-encoded UTF-8");
    };
    let Some(texts) = shared.sources.texts() else {
        return error(StatusCode::NOT_FOUND, "this process makes no texts of reports");
    };
    let words: Vec<&str> = words.split('/').collect();
    match texts.text(shared.sources.database(), &words, &options) {
        Ok(text) => answer(StatusCode::OK, TEXT_TYPE, text),
        Err(Refusal { sentence, exit_code: None }) => error(StatusCode::NOT_FOUND, &sentence),
        Err(Refusal { sentence, exit_code }) => {
            json(StatusCode::BAD_REQUEST, &json!({ "error": sentence, "exit_code": exit_code }))
        }
    }
}

fn readiness(shared: &Shared) -> Answer {
    let metrics = shared.sources.database().metrics();
    let stopped_for = shared.history.stopped_for(shared.sources.uptime());
    let reasons = reasons(shared.stop.is_draining(), &metrics, stopped_for);
    if reasons.is_empty() {
        return json(StatusCode::OK, &json!({ "status": "ready" }));
    }
    let told = reasons.iter().map(|reason| json!({ "reason": reason.word(), "text": reason.sentence() }));
    let told = json!({ "status": "not ready", "reasons": told.collect::<Vec<_>>() });
    json(StatusCode::SERVICE_UNAVAILABLE, &told)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::sources::Sources;
    use crate::stop::Stop;
    use hyper::Request;
    use std::sync::mpsc;

    #[test]
    fn health_answers_while_reports_wait() {
        let dir = std::env::temp_dir().join(format!("esker-admin-waiting-{}", std::process::id()));
        let database = esker::Database::open(&dir).unwrap();
        let sources = Sources::new(database.clone(), &dir);
        let shared = Shared::new(Config::default(), sources, Stop::default());
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build();
        let (end, ended) = mpsc::channel::<()>();
        runtime.unwrap().block_on(async {
            let of_report = Arc::clone(&shared);
            let waiting = tokio::spawn(async move {
                let made = move |_: &Shared| {
                    let _closed = ended.recv();
                    answer(StatusCode::OK, METRICS_TYPE, "late")
                };
                report(&of_report, made).await
            });
            tokio::task::yield_now().await;
            let request =
                Request::get("/health/live").header("host", "localhost").body(()).unwrap().into_parts().0;
            assert_eq!(respond(&shared, &request).await.status(), StatusCode::OK);
            assert!(!waiting.is_finished());
            drop(end);
            assert_eq!(waiting.await.unwrap().status(), StatusCode::OK);
        });
        database.close().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn one_explanation_is_made_at_a_time_as_json_or_as_text() {
        let dir = std::env::temp_dir().join(format!("esker-admin-explaining-{}", std::process::id()));
        let database = esker::Database::open(&dir).unwrap();
        let sources = Sources::new(database.clone(), &dir);
        let shared = Shared::new(Config::default(), sources, Stop::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let status = async |path: &str| {
                let request = Request::get(path).header("host", "localhost").body(()).unwrap();
                respond(&shared, &request.into_parts().0).await.status()
            };
            let (json, text) = ("/api/v1/explain/memory", "/api/v1/text/explain/memory");
            let made = Arc::clone(&shared.explaining).try_acquire_owned().unwrap();
            assert_eq!(status(json).await, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(status(text).await, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(status("/api/v1/memory").await, StatusCode::OK);
            drop(made);
            assert_eq!(status(json).await, StatusCode::OK);
            // No texts are made here, which is told after the permit was had.
            assert_eq!(status(text).await, StatusCode::NOT_FOUND);
        });
        database.close().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
