//! Which requests are answered: those that name this server as a browser cannot be made to (HA2), and that
//! carry the token (HA1).

use crate::config::{Config, Token};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri};
use std::net::IpAddr;

/// Whether the request calls the server by an address, by `localhost`, or by an allowed name. A request
/// whose target has a host of its own must be right in both.
pub(crate) fn is_called_rightly(uri: &Uri, headers: &HeaderMap, config: &Config) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let is_right = |authority: &Authority| is_allowed(authority, config);
    host.as_ref().is_some_and(is_right) && uri.authority().is_none_or(is_right)
}

fn is_allowed(authority: &Authority, config: &Config) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    literal.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || config.host_names.iter().any(|name| host.eq_ignore_ascii_case(name))
}

/// Whether the request carries the token, if there is one: as a bearer's, or as the password of any user,
/// which browsers ask for.
pub(crate) fn is_authorized(headers: &HeaderMap, token: Option<&Token>) -> bool {
    let Some(token) = token else { return true };
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return false };
    let Some((scheme, credentials)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
        return false;
    };
    let is_token = |given: &[u8]| token.is(given);
    if scheme.eq_ignore_ascii_case("bearer") {
        return is_token(credentials.trim_ascii().as_bytes());
    }
    let decoded =
        scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(credentials.trim_ascii()));
    let Some(Ok(pair)) = decoded else { return false };
    let colon = pair.iter().position(|byte| *byte == b':');
    colon.is_some_and(|colon| is_token(&pair[colon + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn called(target: &str, hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        let config = Config { host_names: vec!["db.example".to_owned()], ..Config::default() };
        is_called_rightly(&target.parse().unwrap(), &headers, &config)
    }

    #[test]
    fn names_that_were_not_allowed_are_refused() {
        for host in ["127.0.0.1:8081", "localhost", "LOCALHOST:1", "[::1]:8081", "10.1.2.3", "DB.example:80"]
        {
            assert!(called("/", &[host]), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "a@127.0.0.1", "", "x y"]
        {
            assert!(!called("/", &[host]), "{host}");
        }
        assert!(!called("/", &[]));
        assert!(!called("/", &["localhost", "localhost"]));
        assert!(called("http://localhost/", &["localhost"]));
        assert!(!called("http://evil.example/", &["localhost"]));
    }

    #[test]
    fn the_token_comes_as_a_bearer_or_as_a_password() {
        let token = Token::new(b"0123456789abcdef").unwrap();
        let asked = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            is_authorized(&headers, Some(&token))
        };
        assert!(asked("Bearer 0123456789abcdef") && asked("bearer  0123456789abcdef"));
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        assert!(asked(&basic("anyone:0123456789abcdef")) && asked(&basic(":0123456789abcdef")));
        for value in [
            "Bearer 0123456789abcdeX",
            "Bearer 0123456789abcde",
            "Bearer",
            "Digest 0123456789abcdef",
            "Basic !!!",
            &basic("0123456789abcdef"),
            &basic("anyone:wrong"),
        ] {
            assert!(!asked(value), "{value}");
        }
        assert!(!is_authorized(&HeaderMap::new(), Some(&token)));
        assert!(is_authorized(&HeaderMap::new(), None));
    }
}
