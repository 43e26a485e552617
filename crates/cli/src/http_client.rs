//! HTTP client of the commands that ask a server: one GET for one answer, bounded in bytes and time.
//!
//! It knows the server by the header that all answers of `esker serve --admin` have, so that another
//! program at that port is named as such.

use crate::args::ClientTlsArgs;
use crate::failure::Failure;
use crate::host;
use esker_admin::{MARK, Token};
use esker_tls::{ClientSettings, ConnectError, Connector};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How long connecting, asking and reading may take together. The server gives a report ten seconds.
const LIMIT: Duration = Duration::from_secs(15);

/// Most bytes of an answer: the tables of a tree take about 250 bytes each, and 100,000 of them are the trees
/// of some tens of terabytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The variable with the token.
const TOKEN_VARIABLE: &str = "ESKER_ADMIN_TOKEN";

/// A server that is asked.
#[derive(Clone)]
pub(crate) struct HttpClient {
    address: String,
    token: Option<String>,
    /// `None` without TLS.
    tls: Option<Connector>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("address", &self.address).finish_non_exhaustive()
    }
}

/// An answer before it is judged.
struct Answer {
    status: StatusCode,
    is_esker: bool,
    body: String,
}

/// Why there is no answer.
enum Missing {
    NotConnected(io::Error),
    Tls(ConnectError),
    NoHttp,
    TooLong,
    Late,
    Lost(String),
}

impl HttpClient {
    /// A server at HOST:PORT, asked with the token of the file, or else of the environment, and over TLS if
    /// the arguments say so.
    pub(crate) fn new(
        address: &str,
        token_file: Option<&Path>,
        tls: &ClientTlsArgs,
    ) -> Result<HttpClient, Failure> {
        let (place, content) = match token_file {
            Some(file) => (format!("--token-file {}", file.display()), Some(host::content_of(file)?)),
            None => {
                let given = host::variable(TOKEN_VARIABLE)?.filter(|text| !text.is_empty());
                (TOKEN_VARIABLE.to_owned(), given.map(String::into_bytes))
            }
        };
        let token = content.map(|content| {
            let refused = |reason: String| Failure::usage(format!("{place}: {reason}"));
            Token::new(&content).map_err(refused)?;
            let text = String::from_utf8(content).map_err(|_| refused("it is no text".to_owned()))?;
            Ok::<String, Failure>(text.trim_ascii_end().to_owned())
        });
        let tls = tls.tls.then(|| connector(tls)).transpose()?;
        Ok(HttpClient { address: address.to_owned(), token: token.transpose()?, tls })
    }

    /// HOST:PORT.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The body of what the server answers to this path.
    ///
    /// # Errors
    /// A sentence that says what is at the address, or what the server refused; with the exit code of the
    /// command that the server would have executed, if it names one.
    pub(crate) fn get(&self, path: &str) -> Result<String, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::system("cannot wait for an answer", &error))?;
        let asked = runtime.block_on(async {
            tokio::time::timeout(LIMIT, self.ask(path)).await.unwrap_or(Err(Missing::Late))
        });
        // A name may still be looked up.
        runtime.shutdown_background();
        match asked {
            Ok(answer) => self.judge(answer),
            Err(missing) => Err(self.missing(&missing)),
        }
    }

    async fn ask(&self, path: &str) -> Result<Answer, Missing> {
        let stream = TcpStream::connect(&self.address).await.map_err(Missing::NotConnected)?;
        match &self.tls {
            None => self.ask_on(stream, path).await,
            Some(connector) => {
                let stream = connector.connect(stream, self.host()).await.map_err(Missing::Tls)?;
                self.ask_on(stream, path).await
            }
        }
    }

    /// The host without its port, and without the brackets of an address.
    fn host(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Why a request failed. What the server minds about a certificate comes behind the handshake.
    fn judged(&self, error: &hyper::Error) -> Missing {
        let of_stream = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let of_tls = self.tls.as_ref().zip(of_stream).and_then(|(connector, error)| connector.reason(error));
        if let Some(reason) = of_tls {
            return Missing::Tls(reason);
        }
        match error.is_parse() || error.is_incomplete_message() {
            true => Missing::NoHttp,
            false => Missing::Lost(error.to_string()),
        }
    }

    async fn ask_on(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &str,
    ) -> Result<Answer, Missing> {
        let judged = |error: hyper::Error| self.judged(&error);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(judged)?;
        // It ends with the request; what it ends with, the request tells as well.
        let _driver = tokio::spawn(async { drop(connection.await) });
        let request = Request::get(path).header(HOST, &self.address);
        let request = match &self.token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let request =
            request.body(Empty::<Bytes>::new()).map_err(|error| Missing::Lost(error.to_string()))?;
        let answer = sender.send_request(request).await.map_err(judged)?;
        let (status, is_esker) = (answer.status(), answer.headers().contains_key(MARK.0));
        // What is announced is refused before it is read.
        if answer.body().size_hint().lower() > MAX_ANSWER_BYTES as u64 {
            return Err(Missing::TooLong);
        }
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
            true => Missing::TooLong,
            false => Missing::Lost(error.to_string()),
        })?;
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Answer { status, is_esker, body })
    }

    fn judge(&self, answer: Answer) -> Result<String, Failure> {
        let Answer { status, is_esker, body } = answer;
        if is_esker && status == StatusCode::OK {
            return Ok(body);
        }
        let told: Value = serde_json::from_str(&body).unwrap_or_default();
        let sentence = told["error"].as_str().unwrap_or_default();
        let address = &self.address;
        // Servers before the header refuse paths and tokens by these sentences.
        let is_older = !is_esker && (sentence.contains("/api/v1") || sentence.starts_with("send the token"));
        if self.tls.is_none() && sentence.contains(TLS_ONLY) {
            return Err(Failure::unreachable(format!("{address} takes clients with TLS only"))
                .advise("ask it with --tls, and name the authority of its certificate with --tls-ca FILE"));
        }
        if !is_esker && !is_older {
            return Err(Failure::unreachable(format!(
                "{address} answers HTTP ({status}), but is no admin address of esker"
            ))
            .advise(ADDRESS_ADVICE));
        }
        let failure = match status {
            StatusCode::UNAUTHORIZED if self.token.is_none() => {
                Failure::unreachable(format!("{address} wants a token"))
                    .advise(format!("name its file with --token-file FILE, or set {TOKEN_VARIABLE}"))
            }
            StatusCode::UNAUTHORIZED => Failure::unreachable(format!("{address} does not accept the token"))
                .advise("it is the content of the file that `esker serve --admin-token-file` names there"),
            StatusCode::NOT_FOUND if is_older => {
                Failure::unreachable(format!("the server at {address} is older than this command"))
                    .advise("ask it over its control socket: --connect with the directory of the database")
            }
            _ => match told["exit_code"].as_u64().and_then(|code| u8::try_from(code).ok()) {
                Some(code) => Failure::told(code, sentence),
                None => Failure::unreachable(format!("{address}: {status}: {sentence}")),
            },
        };
        Err(failure)
    }

    fn missing(&self, missing: &Missing) -> Failure {
        let address = &self.address;
        let failure = match missing {
            Missing::NotConnected(error) => Failure::system(format!("cannot connect to {address}"), error),
            Missing::Tls(error) => {
                let failure = Failure::unreachable(format!("cannot use TLS with {address}: {error}"));
                return match advice_on(error) {
                    Some(advice) => failure.advise(advice),
                    None => failure,
                };
            }
            Missing::NoHttp => Failure::unreachable(format!("what listens on {address} does not speak HTTP")),
            Missing::TooLong => {
                return Failure::unreachable(format!(
                    "the answer of {address} is longer than {MAX_ANSWER_BYTES} bytes"
                ))
                .advise("name one keyspace with --keyspace NAME");
            }
            Missing::Late => {
                Failure::unreachable(format!("{address} has not answered for {} s", LIMIT.as_secs()))
            }
            Missing::Lost(reason) => {
                Failure::unreachable(format!("the answer of {address} broke off: {reason}"))
            }
        };
        failure.advise(ADDRESS_ADVICE)
    }
}

const ADDRESS_ADVICE: &str =
    "--connect HOST:PORT names the address of `esker serve --admin`, by default 127.0.0.1:8081";

/// What a server with TLS says to a client without.
const TLS_ONLY: &str = "takes clients with TLS only";

/// Reads the files that the arguments name.
fn connector(tls: &ClientTlsArgs) -> Result<Connector, Failure> {
    let certificate = tls.tls_cert.clone().zip(tls.tls_key.clone());
    let settings = ClientSettings { ca_file: tls.tls_ca.clone(), certificate };
    Connector::new(&settings)
        .map_err(|error| Failure::usage(format!("TLS: {error}")).advise("--tls-ca FILE names authorities"))
}

/// What may help against a failed handshake.
fn advice_on(error: &ConnectError) -> Option<&'static str> {
    match error {
        ConnectError::NoTls => Some("leave --tls out if the server has no --admin-tls"),
        ConnectError::UnknownAuthority(_) => {
            Some("name the file of the authority that signed it with --tls-ca FILE")
        }
        ConnectError::OtherName(_) => Some("connect by a name that the certificate has"),
        ConnectError::IsAuthority => Some(
            "make one for the server: `openssl req -x509` does with `-addext basicConstraints=critical,CA:FALSE`",
        ),
        ConnectError::BadCertificate(_) => None,
        ConnectError::WantsCertificate => {
            Some("show one with --tls-cert FILE and --tls-key FILE, or serve with tls-auth-clients no")
        }
        ConnectError::CertificateRefused => {
            Some("it must be of an authority in the server's tls-ca-cert-file")
        }
        ConnectError::NoName | ConnectError::Failed(_) => None,
    }
}
