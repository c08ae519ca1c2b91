use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use host::failure::quote_argument;

pub const NOT_KEPT: &str = "(not kept: it may hold a password)";

const SECRET_SETTINGS: &str = "primary_conninfo ssl_passphrase_command archive_command restore_command archive_cleanup_command \
     recovery_end_command";

/// Names that only look like secrets.
const HARMLESS_SETTINGS: [&str; 3] = ["password_encryption", "md5_password_warnings", "timescaledb.license"];

const SECRET_WORDS: &str = concat!(
    "passw(?:or)?d|passwd|pwd|(?:_|\\b)pw\\b|[_-]pass(?:in|out)?\\b|passphrase|conninfo|secret|token|credential|bearer|licen[cs]e|signature|",
    "[._]auth\\b|(?:api|access|private|encryption|master|signing|account|license)_?-?key"
);

/// Quoted value, also within a quoted shell word or SQL string, or without its closing quote.
const QUOTED: &str =
    r#"(?:'\\''[^']*'\\''|''[^']+''|'(?:[^'\\]|\\.|'')*'|'[^']*'?|\\"(?:[^"\\]|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|"[^"]*)"#;

/// Short options that take a password, their programs, and whether the value may be the next word.
const OPTIONS: [(&str, &str, bool); 4] = [
    ("-u --user", "curl", true),
    ("-p", "sshpass mongosh", true),
    ("-a -w", "redis-cli ldapsearch", true),
    ("-p", "mysql mysqldump mariadb", false),
];

/// Part of an unquoted value.
const BARE: &str = r#"(?:\\.|'[^'\s]*'|"[^"\s]*"|[^\s'",;&(){}\[\]\\])"#;

static NAMES: LazyLock<Regex> = LazyLock::new(|| compile(SECRET_WORDS));

/// Patterns of secrets. The output keeps only a match's first group.
static PARTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let value = format!("(?:{QUOTED}{BARE}*|{BARE}+)");
    let named = format!(r#"([a-z0-9_.-]*(?:{SECRET_WORDS})[a-z0-9_.-]*["']?\s*(?:=>|:=|=)\s*){value}"#);
    // No dot in the name: a file x.token is no secret.
    let listed = format!(r#"((?:^|[\s,{{(])["']?[a-z0-9_-]*(?:{SECRET_WORDS})[a-z0-9_-]*["']?\s*:\s*){value}"#);
    let command = format!(r#"((?:archive|restore|cleanup|recovery_end|passphrase)_command["']?\s*=\s*){value}"#);
    let option = format!(r#"((?:^|[\s'"])--?[a-z0-9-]*(?:{SECRET_WORDS})[a-z0-9-]*\s+){value}"#);
    let statement =
        format!(r"(\b(?:password|identified\s+by)\s+)(?:(?:e|u&)?{QUOTED}|\$[a-z0-9_]*\$[^$]*\$[a-z0-9_]*\$)");
    let adjacent = r"((?:^|[\s(,;])password)(?:e|u&)?'(?:[^'\\]|\\.|'')*'?".to_owned();
    let set = format!(r#"(\bset\s+[a-z0-9_. "]*(?:{SECRET_WORDS})[a-z0-9_."]*\s+to\s+){value}"#);
    let function = format!(r"(\bset_config\s*\(\s*'[^']*(?:{SECRET_WORDS})[^']*'\s*,\s*){value}");
    // Such as password=x, "api_key": "x", --password x, PASSWORD 'x', PASSWORD'x', SET x.password TO 'x'.
    let of_values = [named, listed, command, option, statement, adjacent, set, function];
    let others = [
        // postgres://user:x@host and user:x@host
        r#"([a-z][a-z0-9+.-]*://[^\s/?#:@'"]*:)[^\s'"]+(?:@)"#,
        r#"((?:^|[\s'"=])[a-z0-9_.%+-]+:)[^\s/@'":]+(?:@[a-z0-9\[])"#,
        // Password file.
        r"((?:^|\s)[^\s:#]+:(?:[0-9]{1,5}|\*):[^\s:]+:[^\s:]+:)[^\s:]+",
        r"(\b(?:bearer|authorization:\s*[a-z]+)\s+)[a-z0-9+/=._~-]{8,}",
        // Signed URLs and self-describing tokens.
        r"([?&](?:sig|signature|key|auth|code)=)[^\s&'\x22]+",
        // URL parameters with a percent-encoded name, which may be a secret's name.
        r"([?&][a-z0-9_]*%[a-z0-9_%]*=)[^\s&'\x22]+",
        // Access tokens of GitHub, GitLab, Slack and AWS. Length and case matter, as tables may have similar names.
        r"(\b(?-i:gh[pousr]_))[a-z0-9]{30,}",
        r"(\b(?-i:github_pat_|glpat-|xox[a-z]-))[a-z0-9_-]{20,}",
        r"(\b(?-i:AKIA|ASIA))(?-i:[A-Z0-9]{16})\b",
        // PostgreSQL's password hashes, and PEM keys.
        r"((?:scram-sha-256\$))[^\s']+",
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)[^-]*",
    ];
    of_values.iter().map(String::as_str).chain(others).map(compile).collect()
});

fn compile(pattern: &str) -> Regex {
    Regex::new(&format!("(?i-u){pattern}")).unwrap_or_else(|error| unreachable!("{error}"))
}

pub fn keep_setting(name: &str, value: String) -> String {
    match is_secret_setting(name) && !is_nothing(&value) {
        true => NOT_KEPT.to_owned(),
        false => keep_text(value),
    }
}

pub fn keep_text(text: String) -> String {
    let mut kept = text.into_bytes();
    for part in PARTS.iter() {
        if let Cow::Owned(changed) = part.replace_all(&kept, hide) {
            kept = changed;
        }
    }
    String::from_utf8(kept).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Hides secrets, also in nested shell commands and SQL.
pub fn keep_words(words: &[String]) -> Vec<String> {
    let (mut is_next_secret, mut is_rest_secret, mut program) = (false, false, None::<&(&str, &str, bool)>);
    let keep = |word: &String| {
        if is_rest_secret || std::mem::take(&mut is_next_secret) {
            return NOT_KEPT.to_owned();
        }
        let name = word.rsplit('/').next().unwrap_or_default();
        program = OPTIONS.iter().find(|(_, programs, _)| programs.split(' ').any(|one| one == name)).or(program);
        let option = program.and_then(|(options, ..)| options.split(' ').find(|option| word.starts_with(option)));
        if let Some(option) = option.filter(|option| word != option) {
            return format!("{option}{NOT_KEPT}");
        }
        // `-su` is `-s -u`.
        let is_short = word.starts_with('-') && !word.starts_with("--");
        let is_last = |option: &str| word == option || is_short && option.len() == 2 && word.ends_with(&option[1..]);
        let takes_next = program.is_some_and(|(options, _, takes_next)| *takes_next && options.split(' ').any(is_last));
        let is_before_secret = word.starts_with('-') && !word.contains('=') && is_secret_setting(word);
        is_next_secret = is_before_secret || takes_next;
        is_rest_secret = word.eq_ignore_ascii_case("password");
        keep_word(word)
    };
    words.iter().map(keep).collect()
}

fn keep_word(word: &str) -> String {
    if let Some((name, value)) = word.split_once('=')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && is_secret_setting(name)
        && !is_nothing(value)
    {
        return format!("{name}={NOT_KEPT}");
    }
    let inner = shlex::split(word).filter(|inner| inner.len() > 1).unwrap_or_default();
    let (text, mut kept) = (keep_text(word.to_owned()), keep_words(&inner));
    if kept == inner {
        return text;
    }
    // Ambiguous: SQL doubles a quote within a string, a shell drops both.
    if text != word && word.contains("''") {
        return NOT_KEPT.to_owned();
    }
    kept.dedup();
    keep_text(kept.iter().map(|word| quote_argument(word)).collect::<Vec<_>>().join(" "))
}

pub fn keep_record(record: &mut (impl Serialize + DeserializeOwned)) {
    let Ok(mut document) = serde_json::to_value(&*record) else { return };
    change_texts(&mut document, |text| *text = keep_text(std::mem::take(text)));
    if let Ok(kept) = serde_json::from_value(document) {
        *record = kept;
    }
}

pub fn keep_document(document: &mut Value) {
    match document {
        Value::String(text) => *text = keep_text(std::mem::take(text)),
        Value::Array(values) => keep_list(values),
        Value::Object(values) => {
            for (name, value) in values {
                match value {
                    Value::String(text) => *text = keep_setting(name, std::mem::take(text)),
                    value if is_secret_setting(name) => hide_all(value),
                    value => keep_document(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hide_all(value: &mut Value) {
    change_texts(value, |text| *text = NOT_KEPT.to_owned());
}

fn change_texts(value: &mut Value, change: fn(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| change_texts(value, change)),
        Value::Object(values) => values.values_mut().for_each(|value| change_texts(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A list may be a name and its value, or the words of a command.
fn keep_list(values: &mut [Value]) {
    if let [Value::String(name), value] = values
        && is_secret_setting(name)
    {
        return hide_all(value);
    }
    let words: Vec<String> = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut kept = keep_words(&words).into_iter();
    for value in values {
        match value {
            Value::String(text) => *text = kept.next().unwrap_or_default(),
            value => keep_document(value),
        }
    }
}

fn is_secret_setting(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_file = ["_file", "-file", "passfile"].iter().any(|end| name.ends_with(end));
    let is_named = SECRET_SETTINGS.split(' ').any(|one| one == name) || NAMES.is_match(name.as_bytes());
    is_named && !is_file && !HARMLESS_SETTINGS.contains(&&*name)
}

fn is_nothing(value: &str) -> bool {
    matches!(value, "" | "on" | "off" | "true" | "false" | "(disabled)")
}

fn hide(found: &Captures<'_>) -> Vec<u8> {
    let (whole, stays) = (&found[0], &found[1]);
    let name = String::from_utf8_lossy(stays);
    let name = name.trim_end_matches(|c: char| c.is_whitespace() || "=:>\"'".contains(c));
    let value = whole[stays.len()..].trim_ascii();
    let unquoted = value.iter().position(|byte| !b"'\"\\".contains(byte)).map_or(value, |at| &value[at..]);
    let is_harmless = [b"".as_slice(), b"''", b"\"\"", b"on", b"off", b"true", b"false"].contains(&value)
        || unquoted.starts_with(b"(not")
        // PWD is a working directory.
        || (name.ends_with("PWD") && value.starts_with(b"/"))
        || HARMLESS_SETTINGS.iter().any(|setting| name.ends_with(setting))
        || name.ends_with("file");
    if is_harmless {
        return whole.to_vec();
    }
    // Keeps the host of an address.
    let host: &[u8] = match whole.iter().rposition(|byte| *byte == b'@') {
        Some(at) if stays.ends_with(b":") && at + 2 >= whole.len() => &whole[at..],
        _ => b"",
    };
    [stays, NOT_KEPT.as_bytes(), host].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_in_texts_are_not_kept() {
        for text in [
            "host=h password=geheim dbname=d",
            "host=h password = 'ge heim' dbname=d",
            "PGPASSWORD=geheim psql",
            "export MY_API_KEY=\"geheim\"",
            "{\"secret_token\": \"geheim\", \"x\": 1}",
            "curl --password geheim https://x",
            "curl -H 'Authorization: Bearer geheim123'",
            "postgres://lab:geheim@db.example/x",
            "postgresql://lab:ge@heim@db.example/x",
            "psql -d lab:geheim@db.example",
            "CREATE ROLE x LOGIN PASSWORD 'geheim'",
            "alter user x with encrypted password E'geheim';",
            "ALTER ROLE x PASSWORD $$geheim$$",
            "-- db.example:5432:shop:lab:geheim",
            "STATEMENT:  SET my.api_key = 'geheim'",
            "CREATE ROLE x PASSWORD'geheim'",
            "ALTER ROLE x SET app.password TO 'geheim'",
            "SET LOCAL app.secret TO geheim",
            "SELECT set_config('app.password', 'geheim', false)",
            "postgres://db.example/x?user=u&pass%77ord=geheim",
            "parameter \"primary_conninfo\" changed to \"user=x password=geheim\"",
            "primary_conninfo = 'host=x password=''geheim'''",
            "archive_command = 'aws --key geheim'",
            "\\set password geheim\npassword=geheim",
            "hash SCRAM-SHA-256$4096:geheim",
            "-----BEGIN PRIVATE KEY-----\ngeheim\n-----END PRIVATE KEY-----",
        ] {
            let kept = keep_text(text.to_owned());
            let is_hidden = !kept.contains("geheim") || text.starts_with("\\set");
            assert!(is_hidden && !kept.contains("heim@") && kept.contains(NOT_KEPT), "{text}: {kept}");
            assert_eq!(keep_text(kept.clone()), kept, "once is enough");
        }
        let shown = keep_text("postgres://lab:geheim@db.example/x and more".into());
        assert_eq!(shown, format!("postgres://lab:{NOT_KEPT}@db.example/x and more"));
        assert_eq!(keep_text("PASSWORD=a b ünö".into()), format!("PASSWORD={NOT_KEPT} b ünö"));
    }

    #[test]
    fn a_commands_words_are_kept_without_secrets() {
        let kept =
            |words: &[&str]| keep_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).join(" ");
        let statement = "ALTER ROLE x PASSWORD 'ge heim'";
        let nested = |word: &str| format!("exec psql -c {}", quote_argument(word));
        let deep = [nested(statement), nested(&nested(statement)), nested(&nested(&nested(statement)))];
        for words in [
            &["psql", "postgresql://u:geheim@h/d"][..],
            &["psql", "-dpostgres://u:ge@heim@h/d"],
            &["psql", "postgresql:///d?user=u&password=geheim"],
            &["psql", "host=h password=geheim"],
            &["psql", "--dbname=host=h password='ge heim'"],
            &["psql", r"host=h password=ge\ heim dbname=d"],
            &["env", "PGPASSWORD=ge heim", "psql"],
            &["env", "PGPASSWORD='ge heim", "psql"],
            &["load", "--password", "geheim"],
            &["load", "--password=ge heim"],
            &["openssl", "-passin", "pass:geheim"],
            &["load", "--api-key", "geheim", "-v", "pw=geheim"],
            &["psql", "-c", statement],
            &["psql", "-c", r"ALTER ROLE x PASSWORD E'ge\'heim'"],
            &["psql", "-c", r"ALTER ROLE x PASSWORD 'geheim\'; SELECT 1"],
            &["psql", "-c", "ALTER ROLE x PASSWORD $a$ge heim$a$"],
            &["psql", "-c", "CREATE SUBSCRIPTION s CONNECTION 'host=h password=''ge heim''' PUBLICATION p"],
            &["psql", "-c", "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'u', password 'ge heim')"],
            &["curl", "-u", "lab:geheim", "https://x"],
            &["/usr/bin/curl", "-s", "-u", "lab:geheim"],
            &["curl", "-ulab:geheim"],
            &["curl", "-su", "lab:geheim"],
            &["curl", "--user", "lab:geheim"],
            &["mysql", "-pgeheim", "shop"],
            &["nice", "sshpass", "-p", "geheim", "ssh", "x"],
            &["sh", "-c", "sshpass -p geheim ssh x"],
            &["sh", "-c", "PGPASSWORD='ge heim' psql -c 'SELECT 1'"],
            &["sh", "-c", r"PGPASSWORD=ge\ heim psql"],
            &["sh", "-c", "PGPASSWORD=ge'he im'x psql"],
            &["sh", "-c", r#"psql "host=h password='ge heim'""#],
            &["sh", "-c", &deep[0]],
            &["sh", "-c", &deep[1]],
            &["sh", "-c", &deep[2]],
        ] {
            let kept = kept(words);
            assert!(!kept.contains("heim") && !kept.contains("he im") && kept.contains(NOT_KEPT), "{words:?}: {kept}");
        }
        for words in [
            &["psql", "-X", "-d", "shop", "-c", "SELECT 'a b', \"C\" FROM t -- it's"][..],
            &["sh", "-c", "pgbench -T 5  -f 'my file.sql' && echo done"],
            &["psql", "-p", "5433", "postgresql://u@h/d", "--pset=pager=off"],
            &["curl", "--url", "https://x", "-s"],
            &["mysql", "-p", "shop", "--protocol=tcp"],
        ] {
            assert_eq!(kept(words), words.join(" "));
        }
    }

    #[test]
    fn secrets_are_known_by_their_shape_or_by_words_that_others_use() {
        for text in [
            "Driver=x;Pwd=geheim",
            "db_pwd=geheim",
            "DB_PW='geheim'",
            "pgsodium.encryption_key = 'geheim'",
            "MASTER-KEY: geheim",
            "signing_key=geheim",
            "accountkey=geheim",
            "license_key = geheim",
            "x.auth = 'geheim'",
            "curl https://store/x?se=1&sig=geheim",
            "https://store/x?X-Amz-Signature=geheim&y=1",
            "https://store/x?key=geheim",
            "https://store/x?code=geheim",
            "git clone ghp_geheim0123456789geheim0123456789",
            "github_pat_11AGEHEIM0123456789_abc",
            "glpat-geheim0123456789gehe",
            "xoxb-geheim-0123456789-01",
            "AKIAGEHEIM0123456789",
        ] {
            let kept = keep_text(text.to_owned());
            assert!(!kept.to_lowercase().contains("geheim") && kept.contains(NOT_KEPT), "{text}: {kept}");
            assert_eq!(keep_text(kept.clone()), kept, "once is enough");
        }
        assert_eq!(keep_text("https://x?sig=geheim&y=1".into()), format!("https://x?sig={NOT_KEPT}&y=1"));
    }

    #[test]
    fn what_is_nearly_called_like_a_secret_stays_as_it_is() {
        for text in [
            "SELECT count(*) FROM gho_history_of_2020 JOIN ghs_statistics USING (id)",
            "akiambience0123456789 AKIA-short xoxo-kisses",
            "PWD=/var/lib/postgresql OLDPWD=/",
            "timescaledb.license = 'timescale'",
            "CREATE TABLE authors (author_key int, key text, code text)",
            "SELECT a FROM t WHERE key = 'x' AND code = 'y'",
            "https://x/y?monkey=1&barcode=2&author=3",
            "foreign key (a) references b",
            "cwd: /tmp, pwdless",
        ] {
            assert_eq!(keep_text(text.to_owned()), text);
        }
        assert_eq!(keep_setting("timescaledb.license", "apache".into()), "apache");
        for name in ["x.pwd", "x.encryption_key", "y.license_key", "z.auth", "db_pw"] {
            assert_eq!(keep_setting(name, "geheim".into()), NOT_KEPT, "{name}");
        }
    }

    #[test]
    fn what_is_harmless_stays_as_it_is() {
        for text in [
            "",
            "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
            "pgbench --client=4 -T 30 -f /tmp/select.sql postgres",
            "2026-11-23 01:02:03.123 UTC [7] LOG:  checkpoint starting: time",
            "FATAL:  password authentication failed for user \"x\"",
            "postgres://lab@db.example:5433/results",
            "password_encryption = scram-sha-256",
            "--token-file=/etc/token ssl_key_file = '/etc/key'",
            "user@bench2:22 a:b:c",
            "tokens per second: ",
            "ünïcode = öne",
        ] {
            assert_eq!(keep_text(text.to_owned()), text);
        }
    }

    #[test]
    fn settings_are_known_by_their_names_too() {
        for name in ["primary_conninfo", "archive_command", "myext.api_key", "my.Password", "a.secret_1", "x.token"] {
            assert_eq!(keep_setting(name, "geheim".into()), NOT_KEPT, "{name}");
            assert_eq!(keep_setting(name, String::new()), "", "{name}");
        }
        for (name, value) in [
            ("password_encryption", "scram-sha-256"),
            ("md5_password_warnings", "on"),
            ("ssl_key_file", "server.key"),
            ("shared_buffers", "128MB"),
            ("archive_command", "(disabled)"),
            ("work_mem", "4MB"),
        ] {
            assert_eq!(keep_setting(name, value.into()), value, "{name}");
        }
        assert_eq!(keep_setting("my.url", "http://a:geheim@b".into()), format!("http://a:{NOT_KEPT}@b"));
    }

    #[test]
    fn documents_are_gone_through() {
        let mut study = json!({
            "settings": {"x.api_key": "geheim", "work_mem": "4MB", "tokens": ["geheim"]},
            "pairs": [["x.api_key", ["geheim"]], ["y.token", "geheim"]],
            "command": ["sh", "-c", "PGPASSWORD=geheim psql", "--password", "geheim", "--clients", "4"],
            "login": ["curl", "-u", "me:geheim", "ftp://host"],
            "mixed": ["--password", "geheim", 4],
            "seed": 7,
        });
        keep_document(&mut study);
        assert!(!study.to_string().contains("geheim"), "{study}");
        assert_eq!(
            (&study["settings"]["work_mem"], &study["command"][6], &study["seed"]),
            (&json!("4MB"), &json!("4"), &json!(7))
        );
    }
}
