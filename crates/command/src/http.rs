//! HTTP answers: access control, connection limits and the metrics page.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue,
    LOCATION, SET_COOKIE,
};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{HeaderMap, Method, Request, Response};
pub use hyper::{StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use host::failure::{ErrorKind, Explain, quote_argument};
use host::files::{SMALL_FILE_BYTES_MAX, open_regular_or_pipe, read_open_at_most};
use host::linux::threads::lock;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is reachable from other machines, and no token is set")]
    NoToken(SocketAddr),
    #[error("the number of metric series, one per query or process, would grow without limit")]
    TooManySeries,
    #[error("a token needs at least {fewest} characters")]
    WeakToken { fewest: usize },
    #[error("cannot read the token in {}: {source}", path.display())]
    TokenFile { path: PathBuf, source: std::io::Error },
    #[error("other users can read the token in {} (its mode is {mode:04o})", path.display())]
    TokenIsShown { path: PathBuf, mode: u32 },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot serve: {0}")]
    Serve(std::io::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::NoToken(_) | Error::TooManySeries | Error::WeakToken { .. } | Error::TokenIsShown { .. } => {
                ErrorKind::Usage
            }
            Error::Listen { source, .. } | Error::TokenFile { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                ErrorKind::Privilege
            }
            Error::TokenFile { .. } => ErrorKind::Usage,
            Error::Listen { .. } | Error::Serve(_) => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::NoToken(_) | Error::WeakToken { .. } | Error::TokenFile { .. } => Some(
                "create a file that only you can read: `(umask 077; openssl rand -hex 16 > token)`, then use --token-file token"
                    .into(),
            ),
            Error::TokenIsShown { path, .. } => {
                let file = quote_argument(&path.display().to_string());
                Some(format!("`chmod 600 {file}`, and use a new token if somebody may have read this one"))
            }
            Error::TooManySeries => Some("use --by kind, user or database".into()),
            Error::Listen { .. } => Some("use another port; 0 selects any free one".into()),
            Error::Serve(_) => None,
        }
    }
}

// Clients need the token. Without a token, pgthaw answers only requests for loopback names.

const TOKEN_MIN: usize = 16;

const COOKIE_NAME: &str = "pgthaw_token";

const FORM: &str = r#"<!doctype html><html lang="en"><meta charset="utf-8"><title>pgthaw</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<h1>pgthaw</h1><form method="get" action="/"><label>Token <input name="token" type="password" autofocus></label>
<button>Open</button></form></html>"#;

const FORM_POLICY: &str = "default-src 'none'; form-action 'self'; frame-ancestors 'none'";

const HEADERS: [(&str, &str); 4] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
];

/// Digest of a secret: the time of a comparison reveals nothing about the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    pub fn new(secret: &str) -> Result<Token, Error> {
        match secret.chars().count() {
            TOKEN_MIN.. => Ok(Token::digest(secret)),
            _ => Err(Error::WeakToken { fewest: TOKEN_MIN }),
        }
    }

    /// Reads the token from the first line of a file, or of standard input (`-`).
    ///
    /// # Errors
    /// If other users can read the file, or it is too short.
    pub fn read(path: &Path) -> Result<Token, Error> {
        let failed = |source| Error::TokenFile { path: path.to_owned(), source };
        let file = match path.as_os_str() == "-" {
            true => File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?),
            false => open_regular_or_pipe(path).map_err(failed)?,
        };
        let facts = file.metadata().map_err(failed)?;
        // Anonymous pipes need no check: no other user can open them.
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

/// Refusal of a request; `None` admits it.
pub fn refuse(token: Option<Token>, uri: &Uri, headers: &HeaderMap) -> Option<Response<String>> {
    let host = match find_host(uri, headers) {
        Ok(host) => host,
        Err(status) => return Some(respond(status, PLAIN, "the request must name exactly one host")),
    };
    let Some(token) = token else {
        // The host name may be another site's (DNS rebinding).
        let is_own = host.is_some_and(is_loopback);
        return (!is_own).then(|| respond(StatusCode::FORBIDDEN, PLAIN, "the host is not a loopback name"));
    };
    let is_right = |secret: &String| Token::digest(secret) == token;
    if let Some(secret) = find_in_pairs(uri.query().unwrap_or_default(), "token").filter(is_right) {
        // Moves the token from the URL to a cookie. Prometheus keeps no cookie.
        return (uri.path() != "/metrics").then(|| remember(&secret));
    }
    let is_given = find_in_cookies(headers).iter().chain(&find_in_authorization(headers)).any(is_right);
    (!is_given).then(|| {
        let mut form = respond(StatusCode::UNAUTHORIZED, "text/html; charset=utf-8", FORM);
        form.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(FORM_POLICY));
        form
    })
}

pub const PLAIN: &str = "text/plain; charset=utf-8";

pub fn respond(status: StatusCode, kind: &'static str, body: impl Into<String>) -> Response<String> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub fn add_headers<B>(response: &mut Response<B>) {
    // Frees the connection of a refused client.
    if response.status().is_client_error() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// Host from the `Host` header or the request line (as sent to a proxy), which must agree. HTTP/1.0 needs neither.
///
/// # Errors
/// If the request names two hosts, or an unreadable one. A proxy may have used a different host.
fn find_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<&'a str>, StatusCode> {
    let mut named = headers.get_all(HOST).iter();
    let host = named.next().map(|host| host.to_str().map_err(|_| StatusCode::BAD_REQUEST)).transpose()?;
    match (host, uri.authority().map(Authority::as_str)) {
        _ if named.next().is_some() => Err(StatusCode::BAD_REQUEST),
        (Some(host), Some(other)) if !host.eq_ignore_ascii_case(other) => Err(StatusCode::BAD_REQUEST),
        (host, other) => Ok(host.or(other)),
    }
}

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

pub fn is_loopback_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

pub fn find_in_pairs(text: &str, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs.find(|(one, _)| one == name).map(|(_, value)| value.into_owned())
}

fn find_in_cookies(headers: &HeaderMap) -> Vec<String> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
    pairs.filter_map(|pair| find_in_pairs(pair, COOKIE_NAME)).collect()
}

fn find_in_authorization(headers: &HeaderMap) -> Option<String> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    // RFC 9110: scheme names are case-insensitive.
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start().to_owned())
}

fn remember(secret: &str) -> Response<String> {
    // A secret may contain characters that a cookie may not.
    let secret: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let cookie = format!("{COOKIE_NAME}={secret}; HttpOnly; SameSite=Strict; Path=/");
    let mut response = respond(StatusCode::SEE_OTHER, PLAIN, "");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    response.headers_mut().extend(HeaderValue::try_from(cookie).ok().map(|cookie| (SET_COOKIE, cookie)));
    response
}

#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Timeout for a request's head, which browsers send within milliseconds. Also ends idle connections.
    pub head: Duration,
    /// Timeout for the client to accept the next byte.
    pub stall: Duration,
    /// Timeout for the whole connection, long enough for a 100 MB report over a slow line.
    pub lifetime: Duration,
}

pub const PATIENCE: Patience =
    Patience { head: Duration::from_secs(10), stall: Duration::from_secs(20), lifetime: Duration::from_secs(600) };

/// Limit of a request's head: a cookie has at most 4 kB. Requests have no body.
const REQUEST_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

pub async fn answer<S, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    moved: LastMoved,
    service: S,
    mut ending: watch::Receiver<bool>,
    patience: Patience,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let asked = moved.clone();
    let service = service_fn(move |request| {
        asked.set(None);
        service.call(request)
    });
    let stream = TokioIo::new(Patient { stream, moved, stall: patience.stall, stalled: None });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(REQUEST_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let talk = async {
        tokio::select! {
            // The client caused this error; it needs no action.
            _ = connection.as_mut() => return,
            _ = ending.wait_for(|is_ending| *is_ending) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    };
    let _ = timeout(patience.lifetime, talk).await;
}

/// Time of the last transfer; `None` while pgthaw prepares an answer. Clones share it.
#[derive(Clone, Debug)]
pub struct LastMoved(Arc<Mutex<Option<Instant>>>);

impl LastMoved {
    pub fn now() -> LastMoved {
        LastMoved(Arc::new(Mutex::new(Some(Instant::now()))))
    }

    /// Last transfer, or now while pgthaw prepares an answer: that delay is not the client's.
    fn at(&self) -> Instant {
        lock(&self.0).unwrap_or_else(Instant::now)
    }

    fn set(&self, at: Option<Instant>) {
        *lock(&self.0) = at;
    }
}

/// Stream whose writes fail if the client accepts no byte for `stall`.
struct Patient<S> {
    stream: S,
    moved: LastMoved,
    stall: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn check<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall)));
        ready!(stalled.as_mut().poll(context));
        stalled.as_mut().reset(Instant::now() + stall);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if into.filled().len() > before {
            self.moved.set(Some(Instant::now()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.moved.set(Some(Instant::now()));
        }
        self.check(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(context, closed)
    }
}

/// Maximum connections; a browser opens six.
const CONNECTIONS_MAX: usize = 64;

/// Idle time after which a new connection may replace an old one, if `CONNECTIONS_MAX` are open.
const STILL_MIN: Duration = Duration::from_secs(1);

/// Time limit for pending answers at shutdown.
const GRACE: Duration = Duration::from_millis(500);

pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Pause after a failed accept; file descriptors may be free by then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    pub token: Option<Token>,
}

impl Listener {
    /// # Errors
    /// If there is no token and `address` is not loopback, if the token is unusable, or if the address is in use.
    pub async fn bind(address: SocketAddr, token_file: Option<&Path>) -> Result<Listener, Error> {
        let token = token_file.map(Token::read).transpose()?;
        if token.is_none() && !is_loopback_address(address.ip()) {
            return Err(Error::NoToken(address));
        }
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        Ok(Listener { listener, token })
    }

    /// Listening address, with the actual port for port 0.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(Error::Serve)
    }

    /// Answers GET and HEAD. `open` is a path that needs no token: load balancers can send none.
    pub async fn run_pages(
        self,
        open: Option<&'static str>,
        pages: impl Fn(&Uri) -> Option<Response<String>> + Clone + Send + Sync + 'static,
        end: impl Future<Output = ()>,
    ) {
        let token = self.token;
        let answer = move |request: Request<Incoming>| {
            let answer = answer_page(&pages, open, token, &request);
            async { Ok(answer) }
        };
        self.answer_all(service_fn(answer), end).await;
    }

    pub async fn answer_all<S, B>(self, service: S, end: impl Future<Output = ()>)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (tell_end, ending) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::select! {
            () = end => {}
            () = accept(&self.listener, &mut connections, |stream, moved| answer(stream, moved, service.clone(), ending.clone(), PATIENCE)) => {}
        }
        drop((self.listener, service));
        let _ = tell_end.send(true);
        let closing = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(GRACE, closing).await;
        connections.shutdown().await;
    }
}

fn answer_page(
    pages: impl Fn(&Uri) -> Option<Response<String>>,
    open: Option<&str>,
    token: Option<Token>,
    request: &Request<Incoming>,
) -> Response<String> {
    let answer = || match (pages(request.uri()), request.method()) {
        (Some(page), &Method::GET | &Method::HEAD) => page,
        (Some(_), _) => {
            let mut refusal = respond(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
            refusal
        }
        (None, _) => respond(StatusCode::NOT_FOUND, PLAIN, ""),
    };
    let refused =
        if open == Some(request.uri().path()) { None } else { refuse(token, request.uri(), request.headers()) };
    let mut response = refused.unwrap_or_else(answer);
    add_headers(&mut response);
    response
}

async fn accept<F>(listener: &TcpListener, connections: &mut JoinSet<()>, talk: impl Fn(TcpStream, LastMoved) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut open: Vec<(LastMoved, AbortHandle)> = Vec::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                make_room(&mut open, connections).await;
                let moved = LastMoved::now();
                open.push((moved.clone(), connections.spawn(talk(stream, moved))));
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn make_room(open: &mut Vec<(LastMoved, AbortHandle)>, connections: &mut JoinSet<()>) {
    loop {
        while connections.try_join_next().is_some() {}
        open.retain(|(_, connection)| !connection.is_finished());
        let stillest = (0..open.len()).min_by_key(|place| open[*place].0.at());
        let Some(place) = stillest.filter(|_| open.len() >= CONNECTIONS_MAX) else { return };
        let until = open[place].0.at() + STILL_MIN;
        if until <= Instant::now() {
            open.swap_remove(place).1.abort();
            return;
        }
        tokio::select! {
            _ = connections.join_next() => {}
            () = sleep_until(until) => {}
        }
    }
}

#[cfg(test)]
mod access_tests {
    use super::*;

    const SECRET: &str = "a secret; of öne who knows";

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    fn status(token: Option<Token>, uri: &Uri, headers: &HeaderMap) -> Option<StatusCode> {
        refuse(token, uri, headers).map(|refusal| refusal.status())
    }

    #[test]
    fn without_a_token_the_loopback_address_has_its_own_names_alone() {
        let verdict = |host: &str| status(None, &Uri::default(), &headers(HOST, host));
        for host in
            ["localhost:8432", "127.0.0.1:8432", "[::1]:8432", "localhost", "127.0.0.1", "[::1]", "127.1.2.3:80"]
        {
            assert_eq!(verdict(host), None, "{host}");
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
            assert_eq!(verdict(host), Some(StatusCode::FORBIDDEN), "{host}");
        }
        assert_eq!(status(None, &Uri::default(), &HeaderMap::new()), Some(StatusCode::FORBIDDEN));
    }

    #[test]
    fn a_token_is_asked_for_kept_and_never_half_right() {
        let token = Some(Token::new(SECRET).unwrap());
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", SECRET).finish();
        let uri = |path: &str, query: &str| format!("{path}?{query}").parse::<Uri>().unwrap();
        assert_eq!(status(token, &uri("/metrics", &query), &HeaderMap::new()), None);
        let response = refuse(token, &uri("/", &query), &HeaderMap::new()).unwrap();
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        assert_eq!(status(token, &Uri::default(), &headers(COOKIE, &format!("other=1; {cookie}"))), None);
        let bearer = |secret: &str| headers(AUTHORIZATION, &format!("bearer {secret}"));
        let plain = Some(Token::new("0123456789abcdef").unwrap());
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let given = headers(AUTHORIZATION, &format!("{scheme} 0123456789abcdef"));
            assert_eq!(status(plain, &Uri::default(), &given), None, "{scheme}");
        }
        for wrong in ["0123456789abcde", "0123456789abcdef0", ""] {
            let asked = Some(StatusCode::UNAUTHORIZED);
            assert_eq!(status(plain, &Uri::default(), &bearer(wrong)), asked, "{wrong}");
            let uri = uri("/", &format!("token={wrong}"));
            assert_eq!(status(plain, &uri, &HeaderMap::new()), asked, "{wrong}");
        }
        assert!(matches!(Token::new("short"), Err(Error::WeakToken { .. })));
        assert_eq!(format!("{token:?}"), "Some(Token(…))");
    }
}

#[cfg(test)]
mod connection_tests {
    use hyper::service::service_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(600);
    const PATIENT: Patience = Patience { head: LONG, stall: LONG, lifetime: LONG };

    fn connect(patience: Patience) -> (DuplexStream, watch::Sender<bool>, JoinHandle<()>) {
        let (browser, server) = duplex(1024);
        let (tell_end, ending) = watch::channel(false);
        let page = service_fn(|_: Request<Incoming>| async { Ok(Response::new("x".repeat(10_000_000))) });
        (browser, tell_end, tokio::spawn(answer(server, LastMoved::now(), page, ending, patience)))
    }

    async fn read(mut browser: DuplexStream) -> String {
        let mut text = Vec::new();
        let _ = browser.read_to_end(&mut text).await;
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_ends_the_connection() {
        let (mut browser, _tell_end, talk) = connect(Patience { head: SHORT, ..PATIENT });
        browser.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
        talk.await.unwrap();
        assert!(!read(browser).await.contains("200"));
        connect(Patience { head: SHORT, ..PATIENT }).2.await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_ends_the_connection() {
        for patience in [Patience { stall: SHORT, ..PATIENT }, Patience { lifetime: SHORT, ..PATIENT }] {
            let (mut browser, _tell_end, talk) = connect(patience);
            browser.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            talk.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_body_is_not_waited_for() {
        let (mut browser, _tell_end, talk) = connect(PATIENT);
        browser.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx").await.unwrap();
        let answered = read(browser).await;
        assert!(answered.starts_with("HTTP/1.1 200") && answered.len() > 10_000_000);
        talk.await.unwrap();
    }

    #[tokio::test]
    async fn a_head_has_a_size() {
        for long in [format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)), {
            let headers: String = (0..100).map(|number| format!("h{number}: x\r\n")).collect();
            format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
        }] {
            let (browser, _tell_end, talk) = connect(PATIENT);
            let (reader, mut writer) = tokio::io::split(browser);
            let written = tokio::spawn(async move { writer.write_all(long.as_bytes()).await });
            let mut answered = [0; 12];
            let mut reader = reader;
            reader.read_exact(&mut answered).await.unwrap();
            assert_eq!(&answered, b"HTTP/1.1 431");
            drop(reader);
            let _ = written.await;
            talk.await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_waits_for_an_answer_keeps_his_place() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
        let address = listener.address().unwrap();
        let service = service_fn(async |_: Request<Incoming>| {
            sleep(STILL_MIN + SHORT).await;
            Ok(respond(StatusCode::OK, PLAIN, ""))
        });
        tokio::spawn(listener.answer_all(service, std::future::pending()));
        let mut asked = Vec::new();
        for _ in 0..=CONNECTIONS_MAX {
            let mut browser = TcpStream::connect(address).await.unwrap();
            browser.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
            asked.push(browser);
        }
        for mut browser in asked {
            let mut answered = String::new();
            browser.read_to_string(&mut answered).await.unwrap();
            assert!(answered.starts_with("HTTP/1.0 200"), "{answered}");
        }
    }

    #[tokio::test]
    async fn the_end_closes_what_is_idle() {
        let (browser, tell_end, talk) = connect(PATIENT);
        tell_end.send(true).unwrap();
        talk.await.unwrap();
        drop(browser);
    }
}
