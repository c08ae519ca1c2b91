//! Who blocks whom, and who writes temporary files, for people.

use console::truncate_str;
use host::units::counted;
use observe::time::{Blocker, SeenBlocker, TemporaryFiles};
use postgres::Session;
use terminal::{Column, printable, render_columns, render_ns, wrap_text};

/// So many roots are shown, and so many processes behind one; `--json` has more.
const ROOTS_SHOWN: usize = 5;
const BEHIND_SHOWN: usize = 8;

/// So many processes with temporary files are shown.
const WRITERS_SHOWN: usize = 5;

/// The signs of a tree: before one of several, before the last one, and below each of them.
struct Signs([&'static str; 4]);

const UNICODE: Signs = Signs(["├─ ", "└─ ", "│  ", "   "]);
const ASCII: Signs = Signs(["|- ", "`- ", "|  ", "   "]);

/// `4711 app@shop psql`.
pub fn name_session(session: &Session) -> String {
    if session.pid == 0 {
        return "a prepared transaction (pg_prepared_xacts)".to_owned();
    }
    let mut name = session.pid.to_string();
    let backend = session.backend.as_deref().filter(|backend| *backend != "client backend");
    backend.iter().for_each(|backend| name += &format!(" {backend}"));
    let at = session.database.as_ref().map(|database| format!("@{database}")).unwrap_or_default();
    session.user.iter().for_each(|user| name += &format!(" {user}{at}"));
    let application = session.application_name.as_deref().filter(|application| !application.is_empty());
    application.iter().for_each(|application| name += &format!(" {application}"));
    printable(&name).into_owned()
}

/// `idle in transaction for 12.3 s`.
pub fn describe_state(session: &Session) -> String {
    let state = session.state.as_deref().unwrap_or("at work");
    let length = session.state_ms.map(|ms| format!(" for {}", render_length(ms))).unwrap_or_default();
    let event = session.event_type.as_deref().zip(session.event.as_deref()).filter(|_| state == "active");
    let event = event.map(|(class, event)| format!(" in {class}:{event}")).unwrap_or_default();
    printable(&format!("{state}{length}{event}")).into_owned()
}

/// What the processes behind it wait for: `accounts`.
pub fn held_relation(blocker: &Blocker) -> Option<String> {
    let relation = blocker.behind.iter().find_map(|one| one.process.relation.as_deref());
    relation.map(|relation| printable(relation).into_owned())
}

fn render_length(ms: u64) -> String {
    render_ns(ms.saturating_mul(1_000_000))
}

/// The trees, with the roots that others waited for longest first; nothing where nobody held anybody up.
pub fn render_seen_blockers(blockers: &[SeenBlocker], width: Option<usize>) -> Vec<String> {
    if blockers.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["WHO BLOCKS WHOM".to_owned()];
    for seen in blockers.iter().take(ROOTS_SHOWN) {
        let waited = format!(", {} in all", render_ns(seen.waited_ns));
        lines.extend(render_blocker(&seen.blocker, &waited, width, true));
    }
    if blockers.len() > ROOTS_SHOWN {
        lines.push(format!("{} more: --json has them", blockers.len() - ROOTS_SHOWN));
    }
    lines
}

/// The tree of one root: who it is and what it does, its query, and a line for each process behind it.
pub fn render_blocker(root: &Blocker, waited: &str, width: Option<usize>, unicode: bool) -> Vec<String> {
    let session = &root.process.session;
    let (name, state) = (name_session(session), describe_state(session));
    let holds = held_relation(root).map(|relation| format!(", holds {relation}")).unwrap_or_default();
    let behind = match root.count() {
        0 => "; nobody waits for it".to_owned(),
        1 => format!(": 1 waits behind it{waited}"),
        count => format!(": {count} wait behind it{waited}"),
    };
    let doing = if session.pid == 0 { String::new() } else { format!(", {state}") };
    let mut lines: Vec<String> =
        wrap_text(&format!("{name}{doing}{holds}{behind}"), width).lines().map(str::to_owned).collect();
    if let Some(query) = query_of(session) {
        let title = if session.state.as_deref() == Some("active") { "query" } else { "last query" };
        lines.push(format!("  {title}: {query}"));
    }
    add_behind(root, "", if unicode { &UNICODE } else { &ASCII }, &mut lines);
    let mark = if unicode { "…" } else { "..." };
    let cut = |line: String| width.map_or(line.clone(), |width| truncate_str(&line, width, mark).into_owned());
    lines.into_iter().map(cut).collect()
}

fn add_behind(blocker: &Blocker, before: &str, signs: &Signs, lines: &mut Vec<String>) {
    let Signs([one, last, below_one, below_last]) = signs;
    let hidden: usize = blocker.behind.iter().skip(BEHIND_SHOWN).map(|hidden| 1 + hidden.count()).sum();
    let shown = &blocker.behind[..blocker.behind.len().min(BEHIND_SHOWN)];
    for (place, waiter) in shown.iter().enumerate() {
        let is_last = place + 1 == shown.len() && hidden == 0;
        let process = &waiter.process;
        let length = process.waited_ms.map(|ms| format!(" {}", render_length(ms))).unwrap_or_default();
        let what = process.relation.as_deref().unwrap_or("a lock");
        let mode = process.mode.as_ref().map(|mode| format!(" ({mode})")).unwrap_or_default();
        let query = query_of(&process.session).map(|query| format!(": {query}")).unwrap_or_default();
        let text = printable(&format!("waits{length} for {what}{mode}")).into_owned();
        let name = name_session(&process.session);
        lines.push(format!("{before}{}{name} {text}{query}", if is_last { last } else { one }));
        add_behind(waiter, &format!("{before}{}", if is_last { below_last } else { below_one }), signs, lines);
    }
    if hidden > 0 {
        lines.push(format!("{before}{last}{hidden} more"));
    }
}

fn query_of(session: &Session) -> Option<String> {
    session.query.as_deref().filter(|query| !query.is_empty()).map(|query| printable(query).into_owned())
}

/// The processes with the most bytes in temporary files; nothing where nobody wrote any.
pub fn render_temporary_files(files: &[TemporaryFiles], width: Option<usize>) -> Vec<String> {
    if files.is_empty() {
        return Vec::new();
    }
    let shown = &files[..files.len().min(WRITERS_SHOWN)];
    let cells = |cell: &dyn Fn(&TemporaryFiles) -> String| shown.iter().map(cell).collect::<Vec<String>>();
    let columns = vec![
        Column::text("TEMPORARY FILES OF", 24, cells(&|one| name_session(&one.session))),
        Column::number("FILES", 1, cells(&|one| one.files.to_string())),
        Column::number("AT MOST", 0, cells(&|one| one.bytes.to_string())),
        Column::text("QUERY", 20, cells(&|one| query_of(&one.session).unwrap_or_default())),
    ];
    let mut lines = render_columns(columns, width, "…");
    if files.len() > WRITERS_SHOWN {
        lines.push(format!("{} more: --json has them", counted(files.len() - WRITERS_SHOWN, "process")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::Bytes;
    use postgres::LockProcess;

    fn session(pid: u32, state: &str, query: &str) -> Session {
        Session {
            pid,
            backend: Some("client backend".into()),
            user: Some("app".into()),
            database: Some("shop".into()),
            application_name: Some("psql".into()),
            state: Some(state.into()),
            state_ms: Some(12_300),
            query: Some(query.into()),
            ..Session::default()
        }
    }

    fn waiter(pid: u32, behind: Vec<Blocker>) -> Blocker {
        let process = LockProcess {
            session: session(pid, "active", "UPDATE accounts SET balance = ? WHERE id = ?"),
            mode: Some("ShareLock".into()),
            relation: Some("accounts".into()),
            waited_ms: Some(2800),
            ..LockProcess::default()
        };
        Blocker { process, behind }
    }

    #[test]
    fn the_culprit_stands_first_and_each_line_fits() {
        let root = session(4711, "idle in transaction", "UPDATE accounts SET balance = ?");
        let root = LockProcess { session: root, waiters: 2, ..LockProcess::default() };
        let behind = vec![waiter(4712, vec![waiter(4713, Vec::new())]), waiter(4714, Vec::new())];
        let tree = Blocker { process: root, behind };
        let seen = SeenBlocker { at_ms: 0, waited_ns: 8_400_000_000, blocker: tree.clone() };
        let lines = render_seen_blockers(&[seen], Some(80));
        assert_eq!(
            lines,
            [
                "WHO BLOCKS WHOM",
                "4711 app@shop psql, idle in transaction for 12.3 s, holds accounts: 3 wait",
                "behind it, 8.40 s in all",
                "  last query: UPDATE accounts SET balance = ?",
                "├─ 4712 app@shop psql waits 2.80 s for accounts (ShareLock): UPDATE accounts SE…",
                "│  └─ 4713 app@shop psql waits 2.80 s for accounts (ShareLock): UPDATE accounts…",
                "└─ 4714 app@shop psql waits 2.80 s for accounts (ShareLock): UPDATE accounts SE…",
            ]
        );
        assert!(render_blocker(&tree, "", Some(80), false).iter().all(|line| line.is_ascii() && line.len() <= 80));
        let crowd = Blocker { behind: (1..=20).map(|pid| waiter(pid, Vec::new())).collect(), ..tree };
        assert_eq!(render_blocker(&crowd, "", None, true).last().unwrap(), "└─ 12 more");
        let idle = Blocker { behind: Vec::new(), ..crowd };
        let lines = render_blocker(&idle, "", None, true);
        assert_eq!(lines[0], "4711 app@shop psql, idle in transaction for 12.3 s; nobody waits for it");
        assert!(render_seen_blockers(&[], None).is_empty() && render_temporary_files(&[], None).is_empty());
    }

    #[test]
    fn temporary_files_have_their_writer() {
        let file = TemporaryFiles {
            session: session(4711, "active", "SELECT * FROM orders ORDER BY amount"),
            files: 1,
            bytes: Bytes(312 << 20),
        };
        let lines = render_temporary_files(&vec![file; 7], Some(80));
        assert_eq!(lines[0], "TEMPORARY FILES OF  FILES  AT MOST  QUERY");
        assert_eq!(lines[1], "4711 app@shop psql      1   312 MB  SELECT * FROM orders ORDER BY amount");
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (7, "2 processes more: --json has them"));
    }
}
