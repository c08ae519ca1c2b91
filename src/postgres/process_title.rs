//! What a process of the server says of itself in its title: `src/backend/utils/misc/ps_status.c`.

/// What background processes call themselves.
const KINDS: [&str; 17] = [
    "checkpointer",
    "background writer",
    "walwriter",
    "autovacuum launcher",
    "autovacuum worker",
    "io worker",
    PARALLEL_WORKER,
    WALSENDER,
    "walreceiver",
    "archiver",
    "startup",
    "logger",
    "logical replication launcher",
    "logical replication apply worker",
    "slotsync worker",
    "walsummarizer",
    "stats collector",
];

const PARALLEL_WORKER: &str = "parallel worker";

/// Serves a client too, whose address is in its title.
pub const WALSENDER: &str = "walsender";

/// The kind of a background process, by a title such as `postgres: 15/main: checkpointer`. `None` where somebody's session is told, as
/// in `postgres: 15/main: app shop [local] startup`, whatever its role and its database are called.
pub fn background_kind(title: &str) -> Option<&'static str> {
    let told = title.strip_prefix("postgres: ")?;
    // The name of the cluster stands before, where it has one.
    let named = told.split_once(": ").map(|(_, told)| told);
    [Some(told), named].into_iter().flatten().find_map(kind_of)
}

/// The pid of the leader of a parallel worker, by the worker's title: `postgres: main: parallel worker for PID 4711`.
pub fn leader_of(title: &str) -> Option<u32> {
    background_kind(title).filter(|kind| *kind == PARALLEL_WORKER)?;
    let (_, leader) = title.split_once(PARALLEL_WORKER)?;
    leader.strip_prefix(" for PID ")?.split_whitespace().next()?.parse().ok()
}

fn kind_of(told: &str) -> Option<&'static str> {
    let begins = |kind: &&str| told.strip_prefix(*kind).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let kind = KINDS.into_iter().find(begins)?;
    (kind == WALSENDER || !told.split(' ').any(is_client)).then_some(kind)
}

/// Is a word where a client is: `[local]`, or `host(port)`?
fn is_client(word: &str) -> bool {
    let port = || word.strip_suffix(')')?.rsplit_once('(').map(|(_, port)| port);
    word == "[local]" || port().is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_for_the_server_says_so() {
        for (title, kind) in [
            ("postgres: checkpointer ", "checkpointer"),
            ("postgres: 15/main: background writer", "background writer"),
            ("postgres: archiver last was 000000010000000000000007", "archiver"),
            ("postgres: startup recovering 000000010000000000000007", "startup"),
            ("postgres: a: io worker 2", "io worker"),
            ("postgres: parallel worker for PID 4711", "parallel worker"),
            ("postgres: walsender rep 10.0.0.7(51234) streaming 0/3000060", "walsender"),
        ] {
            assert_eq!(background_kind(title), Some(kind), "{title}");
        }
    }

    #[test]
    fn a_parallel_worker_names_its_leader() {
        assert_eq!(leader_of("postgres: main: parallel worker for PID 4711 "), Some(4711));
        assert_eq!(leader_of("postgres: 15/main: parallel worker for PID 4711   "), Some(4711));
        assert_eq!(leader_of("postgres: parallel worker for PID 17"), Some(17));
        assert_eq!(leader_of("postgres: main: joe db [local] SELECT"), None);
        assert_eq!(leader_of("postgres: app db [local] SELECT"), None);
        assert_eq!(leader_of("tail -f parallel worker for PID 17"), None);
    }

    #[test]
    fn a_session_is_one_whatever_its_names_are() {
        for title in [
            "postgres: app shop [local] startup",
            "postgres: 15/main: app shop 10.0.0.7(51234) authentication",
            "postgres: archiver: app shop [local] idle",
            "postgres: checkpointer logger [local] idle",
            "postgres: main: app archiver ::1(51234) SELECT",
            "postgres",
            "psql checkpointer",
        ] {
            assert_eq!(background_kind(title), None, "{title}");
        }
    }
}
