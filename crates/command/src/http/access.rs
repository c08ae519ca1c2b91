//! Who may ask: those who know the token; without one those who reach the loopback address, by its own names.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, LOCATION,
    SET_COOKIE,
};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Response, StatusCode, Uri};
use sha2::{Digest as _, Sha256};

use super::Error;
use host::files::{SMALL_FILE_BYTES_MAX, open_regular_or_pipe, read_open_at_most};

/// Fewest characters of a token: it must not be guessed.
const TOKEN_MIN: usize = 16;

const COOKIE_NAME: &str = "pgthaw_token";

/// What is asked of those who do not know the token; it runs nothing.
const FORM: &str = r#"<!doctype html><html lang="en"><meta charset="utf-8"><title>pgthaw</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<h1>pgthaw</h1><form method="get" action="/"><label>Token <input name="token" type="password" autofocus></label>
<button>Open</button></form></html>"#;

const FORM_POLICY: &str = "default-src 'none'; form-action 'self'; frame-ancestors 'none'";

/// Headers of every answer: nothing is kept, framed, guessed or told to other pages.
const HEADERS: [(&str, &str); 4] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
];

/// A secret, of which only its digest is kept. Comparing digests takes the same time whatever is guessed right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// # Errors
    /// When it is too short.
    pub fn new(secret: &str) -> Result<Token, Error> {
        match secret.chars().count() {
            TOKEN_MIN.. => Ok(Token::digest(secret)),
            _ => Err(Error::WeakToken { fewest: TOKEN_MIN }),
        }
    }

    /// Reads the token from the first line of a file that nobody else can read.
    ///
    /// # Errors
    /// When others can read it, when it cannot be read, or when what it holds is too short.
    pub fn read(path: &Path) -> Result<Token, Error> {
        let failed = |source| Error::TokenFile { path: path.to_owned(), source };
        let file = match path.as_os_str() == "-" {
            true => File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?),
            false => open_regular_or_pipe(path).map_err(failed)?,
        };
        let facts = file.metadata().map_err(failed)?;
        // A pipe is of those who hold its ends.
        if facts.is_file() && facts.mode() & 0o077 != 0 {
            return Err(Error::TokenIsShown { path: path.to_owned(), mode: facts.mode() & 0o777 });
        }
        let text = read_open_at_most(file, SMALL_FILE_BYTES_MAX).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        Token::new(text.lines().next().unwrap_or_default().trim())
    }

    fn digest(secret: &str) -> Token {
        Token(Sha256::digest(secret.as_bytes()).into())
    }
}

/// The answer to a request that is not admitted; `None` for one that is.
pub fn refuse(token: Option<Token>, uri: &Uri, headers: &HeaderMap) -> Option<Response<String>> {
    let verdict = match find_host(uri, headers) {
        Ok(host) => judge(token, host, headers, uri),
        Err(Ambiguous) => Verdict::Reject,
    };
    let text = |status: StatusCode, kind: &'static str, body: &str| {
        let mut response = Response::new(body.to_owned());
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    };
    const PLAIN: &str = "text/plain; charset=utf-8";
    match verdict {
        Verdict::Pass => None,
        Verdict::Remember(secret) => Some(remember(&secret)),
        Verdict::Ask => {
            let mut form = text(StatusCode::UNAUTHORIZED, "text/html; charset=utf-8", FORM);
            form.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(FORM_POLICY));
            Some(form)
        }
        Verdict::Reject => Some(text(StatusCode::BAD_REQUEST, PLAIN, "the request does not say one host")),
        Verdict::Refuse => Some(text(StatusCode::FORBIDDEN, PLAIN, "this name is not one of the loopback address")),
    }
}

/// Adds the headers that every answer has.
pub fn add_headers<B>(response: &mut Response<B>) {
    // Whoever is not let in gives his seat to others.
    if response.status().is_client_error() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// The right token stood in the address: the browser shall keep it, and the address lose it.
    Remember(String),
    Ask,
    /// A page of somebody else's has a name that leads here (DNS rebinding).
    Refuse,
    /// The request names two hosts, or none that is text: whoever passed it on may have understood another one.
    Reject,
}

/// The request names several hosts, or something that is none.
struct Ambiguous;

/// The host that is asked for. A request to a proxy names it in its first line too, and then both must be the same. One of
/// HTTP/1.0 may name none.
fn find_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<&'a str>, Ambiguous> {
    let mut named = headers.get_all(HOST).iter();
    let host = named.next().map(|host| host.to_str().map_err(|_| Ambiguous)).transpose()?;
    match (host, uri.authority().map(Authority::as_str)) {
        _ if named.next().is_some() => Err(Ambiguous),
        (Some(host), Some(other)) if !host.eq_ignore_ascii_case(other) => Err(Ambiguous),
        (host, other) => Ok(host.or(other)),
    }
}

fn judge(token: Option<Token>, host: Option<&str>, headers: &HeaderMap, uri: &Uri) -> Verdict {
    let Some(token) = token else {
        return if host.is_some_and(is_loopback) { Verdict::Pass } else { Verdict::Refuse };
    };
    let is_right = |secret: &String| Token::digest(secret) == token;
    if let Some(secret) = find_in_query(uri.query()).filter(is_right) {
        // A browser opens a page; Prometheus, which reads this one, keeps no cookie.
        return if uri.path() == "/metrics" { Verdict::Pass } else { Verdict::Remember(secret) };
    }
    let given = find_in_cookies(headers).into_iter().chain(find_in_authorization(headers)).any(|one| is_right(&one));
    if given { Verdict::Pass } else { Verdict::Ask }
}

/// `localhost:8432`, `127.0.0.1`, `[::1]:8432`: a name, or an address that is one of loopback.
fn is_loopback(host: &str) -> bool {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let address = match v6 {
        Some(v6) => v6.parse().map(IpAddr::V6),
        None => name.parse().map(IpAddr::V4),
    };
    name == "localhost" || address.is_ok_and(is_loopback_address)
}

/// All of 127.0.0.0/8, and ::1: nobody on another machine reaches them.
pub fn is_loopback_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn find_in_query(query: Option<&str>) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, value)| value.into_owned())
}

fn find_in_cookies(headers: &HeaderMap) -> Vec<String> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let named = pairs.filter(|(name, _)| *name == COOKIE_NAME);
    // As it was written: a secret may have characters that a cookie may not.
    named.filter_map(|(_, value)| decode_hex(value)).collect()
}

fn find_in_authorization(headers: &HeaderMap) -> Option<String> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    // RFC 9110: the name of a scheme has no case.
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start().to_owned())
}

fn remember(secret: &str) -> Response<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let cookie = format!("{COOKIE_NAME}={hex}; HttpOnly; SameSite=Strict; Path=/");
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    // Hexadecimal digits: every header takes them.
    response.headers_mut().extend(HeaderValue::try_from(cookie).ok().map(|cookie| (SET_COOKIE, cookie)));
    response
}

fn decode_hex(text: &str) -> Option<String> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let bytes = digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit)).collect();
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "a secret; of öne who knows";

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn without_a_token_the_loopback_address_has_its_own_names_alone() {
        let verdict = |host: &str| judge(None, Some(host), &HeaderMap::new(), &Uri::default());
        for host in
            ["localhost:8432", "127.0.0.1:8432", "[::1]:8432", "localhost", "127.0.0.1", "[::1]", "127.1.2.3:80"]
        {
            assert_eq!(verdict(host), Verdict::Pass, "{host}");
        }
        for host in [
            "evil.example:8432",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:",
            "128.0.0.1",
            "::1",
            "[127.0.0.1]",
            "",
        ] {
            assert_eq!(verdict(host), Verdict::Refuse, "{host}");
        }
        assert_eq!(judge(None, None, &HeaderMap::new(), &Uri::default()), Verdict::Refuse);
    }

    #[test]
    fn a_token_is_asked_for_kept_and_never_half_right() {
        let token = Some(Token::new(SECRET).unwrap());
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", SECRET).finish();
        let uri = |path: &str, query: &str| format!("{path}?{query}").parse::<Uri>().unwrap();
        assert_eq!(judge(token, None, &HeaderMap::new(), &uri("/", &query)), Verdict::Remember(SECRET.into()));
        assert_eq!(judge(token, None, &HeaderMap::new(), &uri("/metrics", &query)), Verdict::Pass);
        let response = remember(SECRET);
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        assert_eq!(judge(token, None, &headers(COOKIE, &format!("other=1; {cookie}")), &Uri::default()), Verdict::Pass);
        let bearer = |secret: &str| headers(AUTHORIZATION, &format!("bearer {secret}"));
        let plain = Some(Token::new("0123456789abcdef").unwrap());
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let given = headers(AUTHORIZATION, &format!("{scheme} 0123456789abcdef"));
            assert_eq!(judge(plain, None, &given, &Uri::default()), Verdict::Pass, "{scheme}");
        }
        for wrong in ["0123456789abcde", "0123456789abcdef0", ""] {
            assert_eq!(judge(plain, None, &bearer(wrong), &Uri::default()), Verdict::Ask, "{wrong}");
            let uri = uri("/", &format!("token={wrong}"));
            assert_eq!(judge(plain, None, &HeaderMap::new(), &uri), Verdict::Ask, "{wrong}");
        }
        assert!(matches!(Token::new("short"), Err(Error::WeakToken { .. })));
        assert_eq!(format!("{token:?}"), "Some(Token(…))");
    }
}
