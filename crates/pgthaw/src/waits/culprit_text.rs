use console::truncate_str;
use observe::stall::render_span;
use observe::time::{Blocker, TemporaryFiles};
use postgres::{LockProcess, Session};
use terminal::{Column, printable, render_columns, render_ns, wrap_text};

/// Maximum root blockers, or sessions with temporary files, shown; `--json` has all.
const ROOTS_SHOWN: usize = 5;
/// Maximum waiters shown behind a process.
const BEHIND_SHOWN: usize = 8;

pub fn name_session(session: &Session) -> String {
    if session.pid == 0 {
        return "a prepared transaction (pg_prepared_xacts)".to_owned();
    }
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty() && text != "client backend");
    let at = text(&session.database).map(|database| format!("@{database}")).unwrap_or_default();
    let user = text(&session.user).map(|user| user + &at);
    let parts = [Some(session.pid.to_string()), text(&session.backend), user, text(&session.application_name)];
    printable(&parts.into_iter().flatten().collect::<Vec<_>>().join(" ")).into_owned()
}

/// `idle in transaction for 12.3 s`; `None` for a prepared transaction.
pub fn describe_state(session: &Session) -> Option<String> {
    let works = session.backend.as_deref().is_some_and(|backend| backend != "client backend");
    let hidden = is_hidden(session).then_some("in a state hidden from this role (GRANT pg_monitor)");
    let state = session.state.as_deref().or(works.then_some("at work")).or(hidden)?;
    let length = session.state_ms.map(|ms| format!(" for {}", render_length(ms))).unwrap_or_default();
    let event = session.event_type.as_deref().zip(session.event.as_deref()).filter(|_| state == "active");
    let event = event.map(|(class, event)| format!(" in {class}:{event}")).unwrap_or_default();
    Some(printable(&format!("{state}{length}{event}")).into_owned())
}

pub fn held_relation(blocker: &Blocker) -> Option<String> {
    let relation = blocker.behind.iter().find_map(|one| one.process.relation.as_deref())?;
    Some(printable(relation).into_owned())
}

fn render_length(ms: u64) -> String {
    render_ns(ms.saturating_mul(1_000_000))
}

pub fn render_blockers(blockers: &[Blocker], width: Option<usize>) -> Vec<String> {
    let title = (!blockers.is_empty()).then(|| "WHO BLOCKS WHOM".to_owned());
    let trees = blockers.iter().take(ROOTS_SHOWN).flat_map(|blocker| render_blocker(blocker, width, "…"));
    title.into_iter().chain(trees).chain(tell_more(blockers.len())).collect()
}

fn tell_more(all: usize) -> Option<String> {
    (all > ROOTS_SHOWN).then(|| format!("{} more: --json has them", all - ROOTS_SHOWN))
}

/// `mark` replaces text that is cut off.
pub fn render_blocker(root: &Blocker, width: Option<usize>, mark: &str) -> Vec<String> {
    let session = &root.process.session;
    let state = describe_state(session).map(|state| format!(", {state}")).unwrap_or_default();
    let holds = held_relation(root).map(|relation| format!(", holds {relation}")).unwrap_or_default();
    let waited = render_ns(root.held_up_ns);
    let mut behind = match root.count() {
        0 => String::new(),
        1 => format!(": 1 process waits behind it, for at least {waited}"),
        count => format!(": {count} processes wait behind it, for at least {waited} in total"),
    };
    if !root.process.blocked_by.is_empty() {
        behind.push_str("; it also waits for one of these processes");
    }
    let seen = root.seen_ms.map(|(begin_ms, end_ms)| render_span(begin_ms, Some(end_ms)) + ": ").unwrap_or_default();
    let first = wrap_text(&format!("{seen}{}{state}{holds}{behind}", name_session(session)), width);
    let mut lines: Vec<String> = first.lines().map(str::to_owned).collect();
    let title = if session.state.as_deref() == Some("active") { "query" } else { "last query" };
    lines.extend(query_of(session).map(|query| format!("  {title}: {query}")));
    add_behind(root, 1, &mut lines);
    let cut = |line: String| width.map_or(line.clone(), |width| truncate_str(&line, width, mark).into_owned());
    lines.into_iter().map(cut).collect()
}

fn add_behind(blocker: &Blocker, level: usize, lines: &mut Vec<String>) {
    let before = "  ".repeat(level);
    for waiter in blocker.behind.iter().take(BEHIND_SHOWN) {
        let LockProcess { session, waited_ms, relation, mode, .. } = &waiter.process;
        let length = waited_ms.map(|ms| format!(" {}", render_length(ms))).unwrap_or_default();
        let what = relation.as_deref().unwrap_or("a lock");
        let mode = mode.as_ref().map(|mode| format!(" ({mode})")).unwrap_or_default();
        let query = query_of(session).map(|query| format!(": {query}")).unwrap_or_default();
        let text = format!("waits{length} for {what}{mode}{query}");
        lines.push(format!("{before}- {} {}", name_session(session), printable(&text)));
        add_behind(waiter, level + 1, lines);
    }
    let hidden: usize = blocker.behind.iter().skip(BEHIND_SHOWN).map(|hidden| 1 + hidden.count()).sum();
    lines.extend((hidden > 0).then(|| format!("{before}- {hidden} more")));
}

fn query_of(session: &Session) -> Option<String> {
    session
        .query
        .as_deref()
        .filter(|query| !query.is_empty() && !is_hidden(session))
        .map(|query| printable(query).into_owned())
}

/// PostgreSQL shows this text to roles without the privilege.
fn is_hidden(session: &Session) -> bool {
    session.query.as_deref() == Some("<insufficient privilege>")
}

pub fn render_temporary_files(files: &[TemporaryFiles], width: Option<usize>) -> Vec<String> {
    if files.is_empty() {
        return Vec::new();
    }
    let cells = |cell: fn(&TemporaryFiles) -> String| files.iter().take(ROOTS_SHOWN).map(cell).collect::<Vec<String>>();
    let seen = |one: &TemporaryFiles| one.seen_ms.map_or_else(String::new, |seen| render_span(seen.0, Some(seen.1)));
    let is_seen = files.iter().any(|one| one.seen_ms.is_some());
    let mut columns = vec![
        Column::text("TEMPORARY FILES OF", 24, cells(|one| name_session(&one.session))),
        Column::number("FILES", 1, cells(|one| one.files.to_string())),
        Column::number("AT MOST", 0, cells(|one| one.bytes.to_string())),
        Column::text("QUERY", 20, cells(|one| query_of(&one.session).unwrap_or_default())),
    ];
    if is_seen {
        columns.insert(1, Column::text("SEEN", 22, cells(seen)));
    }
    render_columns(columns, width, "…").into_iter().chain(tell_more(files.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::Bytes;

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
        Blocker { process, behind, ..Blocker::default() }
    }

    #[test]
    fn the_culprit_stands_first_and_each_line_fits() {
        let root = session(4711, "idle in transaction", "UPDATE accounts SET balance = ?");
        let root = LockProcess { session: root, waiters: 2, ..LockProcess::default() };
        let behind = vec![waiter(4712, vec![waiter(4713, Vec::new())]), waiter(4714, Vec::new())];
        let tree = Blocker { process: root, behind, held_up_ns: 8_400_000_000, seen_ms: None };
        let lines = render_blockers(std::slice::from_ref(&tree), Some(80));
        assert_eq!(
            lines,
            [
                "WHO BLOCKS WHOM",
                "4711 app@shop psql, idle in transaction for 12.3 s, holds accounts: 3 processes",
                "  wait behind it, for at least 8.40 s in total",
                "  last query: UPDATE accounts SET balance = ?",
                "  - 4712 app@shop psql waits 2.80 s for accounts (ShareLock): UPDATE accounts S…",
                "    - 4713 app@shop psql waits 2.80 s for accounts (ShareLock): UPDATE accounts…",
                "  - 4714 app@shop psql waits 2.80 s for accounts (ShareLock): UPDATE accounts S…",
            ]
        );
        assert!(render_blocker(&tree, Some(80), "...").iter().all(|line| line.is_ascii() && line.len() <= 80));
        let crowd = Blocker { behind: (1..=20).map(|pid| waiter(pid, Vec::new())).collect(), ..tree };
        assert_eq!(render_blocker(&crowd, None, "…").last().unwrap(), "  - 12 more");
        let idle = Blocker { behind: Vec::new(), ..crowd };
        let lines = render_blocker(&idle, None, "…");
        assert_eq!(lines[0], "4711 app@shop psql, idle in transaction for 12.3 s");
        assert!(render_blockers(&[], None).is_empty() && render_temporary_files(&[], None).is_empty());
    }

    #[test]
    fn temporary_files_have_their_writer() {
        let file = TemporaryFiles {
            session: session(4711, "active", "SELECT * FROM orders ORDER BY amount"),
            files: 1,
            bytes: Bytes(312 << 20),
            seen_ms: None,
        };
        let lines = render_temporary_files(&vec![file; 7], Some(80));
        assert_eq!(lines[0], "TEMPORARY FILES OF  FILES  AT MOST  QUERY");
        assert_eq!(lines[1], "4711 app@shop psql      1   312 MB  SELECT * FROM orders ORDER BY amount");
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (7, "2 more: --json has them"));
    }
}
