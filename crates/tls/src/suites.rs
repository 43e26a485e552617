//! Versions and cipher suites, by the names that OpenSSL and redis.conf have for them.
//!
//! A word that this server cannot follow is an error: a server that left it out would offer less, or more,
//! than its configuration says. Words that only take away what is never offered here are followed by that.

use crate::error::TlsError;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// Suites of TLS 1.2 by their names in OpenSSL.
static TLS12_NAMES: [(&str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Suites of TLS 1.3 by their names in OpenSSL, which are those of the standard.
static TLS13_NAMES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Words of OpenSSL for sets of suites that are all there are here.
const EVERYTHING: [&str; 6] = ["DEFAULT", "ALL", "HIGH", "ECDHE", "EECDH", "AEAD"];

/// Words for suites that are never offered here, so that taking them away is nothing to do.
const NEVER_OFFERED: [&str; 24] = [
    "MEDIUM", "LOW", "EXPORT", "EXP", "NULL", "ANULL", "ENULL", "ADH", "AECDH", "DES", "3DES", "RC2", "RC4",
    "MD5", "SHA1", "SHA", "PSK", "SRP", "DSS", "ADSS", "SEED", "IDEA", "CAMELLIA", "KRSA",
];

/// The versions of a list such as `TLSv1.2 TLSv1.3`; both if it is empty.
///
/// # Errors
/// A version that this server does not have.
pub(crate) fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let mut versions = Vec::new();
    for word in list.split_ascii_whitespace() {
        versions.push(match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => &version::TLS12,
            "tlsv1.3" => &version::TLS13,
            "tlsv1" | "tlsv1.1" => {
                return Err(TlsError::of_rule(format!(
                    "{word} is not supported because it is not safe any more; TLSv1.2 and TLSv1.3 are"
                )));
            }
            _ => {
                return Err(TlsError::of_rule(format!(
                    "'{word}' is no version of TLS; TLSv1.2 and TLSv1.3 are supported"
                )));
            }
        });
    }
    if versions.is_empty() {
        versions = vec![&version::TLS12, &version::TLS13];
    }
    Ok(versions)
}

/// The cryptography with the suites of two lists: for TLS 1.2 and for TLS 1.3. An empty list is all suites.
///
/// # Errors
/// A word that is no suite of this server, or a list of which nothing remains.
pub(crate) fn provider(ciphers: &str, ciphersuites: &str) -> Result<CryptoProvider, TlsError> {
    let mut cipher_suites = Vec::new();
    // The order of OpenSSL: TLS 1.3 first.
    cipher_suites.extend(chosen(ciphersuites, &TLS13_NAMES, "of TLS 1.3")?);
    cipher_suites.extend(chosen(ciphers, &TLS12_NAMES, "of TLS 1.2")?);
    Ok(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

fn chosen(
    list: &str,
    known: &[(&str, SupportedCipherSuite)],
    what: &str,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    if list.is_empty() {
        return Ok(known.iter().map(|(_, suite)| *suite).collect());
    }
    let find = |word: &str| known.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    let is_one = |word: &str, set: &[&str]| set.iter().any(|one| one.eq_ignore_ascii_case(word));
    let (mut suites, mut removed) = (Vec::new(), Vec::new());
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        let (name, takes_away) = word.strip_prefix(['!', '-']).map_or((word, false), |name| (name, true));
        match find(name) {
            Some((_, suite)) if takes_away => removed.push(*suite),
            Some((_, suite)) => suites.push(*suite),
            None if takes_away && is_one(name, &NEVER_OFFERED) => {}
            None if !takes_away && is_one(name, &EVERYTHING) => {
                suites.extend(known.iter().map(|(_, suite)| *suite));
            }
            None => {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                return Err(TlsError::of_rule(format!(
                    "'{word}' is no cipher suite {what} of this server; it has {}",
                    names.join(", ")
                )));
            }
        }
    }
    let mut left: Vec<SupportedCipherSuite> = Vec::new();
    for suite in suites {
        if !removed.contains(&suite) && !left.contains(&suite) {
            left.push(suite);
        }
    }
    if left.is_empty() {
        return Err(TlsError::of_rule(format!("'{list}' leaves no cipher suite {what}")));
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ciphers: &str, ciphersuites: &str) -> Result<Vec<String>, String> {
        let provider = provider(ciphers, ciphersuites).map_err(|error| error.to_string())?;
        Ok(provider.cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect())
    }

    #[test]
    fn lists_of_openssl_choose_and_order_suites() {
        assert_eq!(names("", "").expect("all").len(), 9);
        assert_eq!(names("DEFAULT:!MEDIUM:!aNULL", "").expect("all").len(), 9);
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"),
            Ok(vec![
                "TLS13_AES_128_GCM_SHA256".to_owned(),
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned(),
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned(),
            ])
        );
        let without = names("HIGH:!ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256").expect("some");
        assert!(without.len() == 6 && !without.iter().any(|name| name.contains("RSA_WITH_AES_128")));
    }

    #[test]
    fn what_cannot_be_followed_is_an_error_that_names_the_word() {
        for (ciphers, ciphersuites, word) in [
            ("AES128-SHA", "", "'AES128-SHA' is no cipher suite of TLS 1.2"),
            ("DEFAULT:!ECDSA", "", "'!ECDSA' is no cipher suite"),
            ("", "TLS_AES_128_CCM_SHA256", "'TLS_AES_128_CCM_SHA256' is no cipher suite of TLS 1.3"),
            ("!MEDIUM", "", "'!MEDIUM' leaves no cipher suite of TLS 1.2"),
        ] {
            let error = names(ciphers, ciphersuites).expect_err(word);
            assert!(error.starts_with(word), "{error}");
        }
    }

    #[test]
    fn versions_are_those_of_the_list() {
        let count = |list: &str| versions(list).map(|versions| versions.len());
        assert_eq!((count(""), count("tlsv1.3"), count("TLSv1.2 TLSv1.3")), (Ok(2), Ok(1), Ok(2)));
        assert!(
            count("TLSv1.1 TLSv1.2").expect_err("old").to_string().starts_with("TLSv1.1 is not supported")
        );
        assert!(count("SSLv3").expect_err("older").to_string().starts_with("'SSLv3' is no version"));
    }
}
