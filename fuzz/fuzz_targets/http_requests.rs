//! What strangers send to `serve`: the bytes of a connection, to one with a token and to one without.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pgthaw_lab::results::Store;
use command::http::Token;
use pgthaw_lab::serve::fuzzing::Answers;
use tokio::runtime::Runtime;

struct Fixture {
    runtime: Runtime,
    open: Answers,
    closed: Answers,
}

const SECRET: &str = "the secret of those who know";

// One runtime and one store for all that is sent.
static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let path = std::env::temp_dir().join(format!("pgthaw-fuzz-{}.db", std::process::id()));
    let open = || runtime.block_on(Store::open(&path)).unwrap();
    // The file stays: a connection that was given up in the midst of a question is made anew.
    let closed = Answers::new(open(), Some(Token::new(SECRET).unwrap()));
    let open = Answers::new(open(), None);
    Fixture { runtime, open, closed }
});

fuzz_target!(|bytes: &[u8]| {
    let fixture = &*FIXTURE;
    let Some((which, sent)) = bytes.split_first() else { return };
    let is_closed = which % 2 == 1;
    let answers = if is_closed { &fixture.closed } else { &fixture.open };
    let answered = fixture.runtime.block_on(answers.to(sent));
    let knows = |secret: &[u8]| sent.windows(secret.len()).any(|window| window == secret);
    if answered.starts_with(b"HTTP/1.1 200") {
        let text = String::from_utf8_lossy(sent).to_ascii_lowercase();
        assert!(is_closed || ["localhost", "127.", "[::"].iter().any(|name| text.contains(name)), "{text}");
        // In clear, escaped, or as the cookie has it.
        assert!(!is_closed || knows(b"secret") || knows(b"%") || knows(b"pgthaw_token"), "{text}");
    }
    assert!(!answered.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&answered));
});
