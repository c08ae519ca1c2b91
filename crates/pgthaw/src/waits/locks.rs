//! Lock waits counted in pg_stat_lock (PostgreSQL 19 on).

use sqlx::postgres::PgConnection;

use host::units::{counted, group_digits};
use postgres::{RowDelta, Server, ServerStatistics, StatisticsDelta, read_server_statistics};

const VIEW: &str = "pg_stat_lock";

/// `None` before version 19.
pub async fn read(server: &Server, connection: &mut PgConnection) -> Option<ServerStatistics> {
    let version_num = server.facts.version_num;
    if version_num < 190_000 {
        return None;
    }
    read_server_statistics(connection, version_num, &server.database).await.ok()
}

pub async fn tell_since(server: &Server, before: Option<ServerStatistics>) -> Vec<String> {
    let Some(before) = before else { return Vec::new() };
    let Ok(mut connection) = server.connect_to(&server.database).await else { return Vec::new() };
    read(server, &mut connection).await.map(|now| tell(&now.since(&before))).unwrap_or_default()
}

fn tell(added: &StatisticsDelta) -> Vec<String> {
    let rows = added.0.get(VIEW).map_or(&[][..], Vec::as_slice);
    let kind = |row: &RowDelta| row.key.get("locktype").cloned().unwrap_or_default();
    // A statistics reset makes counts smaller.
    let grown = |row: &RowDelta, column: &str| row.added.get(column).copied().filter(|more| *more > 0.0);
    let waits = rows.iter().filter_map(|row| {
        let (waits, ms) = (grown(row, "waits")?, grown(row, "wait_time")?);
        Some(format!("{} for {} ({:.2} s)", group_digits(waits as u64), kind(row), ms / 1e3))
    });
    let waits: Vec<String> = waits.collect();
    let waits = (!waits.is_empty())
        .then(|| format!("{VIEW} counted lock waits of deadlock_timeout or longer: {}", waits.join(", ")));
    let beyond = rows.iter().filter_map(|row| {
        let locks = counted(grown(row, "fastpath_exceeded")? as u64, &format!("{} lock", kind(row)));
        Some(format!(
            "{VIEW} counted {locks} without a fast-path slot, which were taken in shared memory instead; a larger max_locks_per_transaction gives more slots"
        ))
    });
    waits.into_iter().chain(beyond).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_counts_are_told_by_type_of_lock() {
        let of = |waits: u32, ms: f64, beyond: u32| {
            let row = |kind: &str| serde_json::json!({"locktype": kind, "waits": waits, "wait_time": ms, "fastpath_exceeded": beyond});
            let rows = ["relation", "tuple"].map(|kind| (VIEW.to_owned(), row(kind).to_string()));
            ServerStatistics::of(rows.to_vec()).unwrap()
        };
        let told = tell(&of(3, 4200.0, 0).since(&of(1, 1100.0, 0)));
        let expected = "pg_stat_lock counted lock waits of deadlock_timeout or longer: 2 for relation (3.10 s), 2 for tuple (3.10 s)";
        assert_eq!(told, [expected]);
        assert!(tell(&of(1, 5.0, 7).since(&of(1, 5.0, 0)))[0].contains("7 relation locks without a fast-path slot"));
        assert!(tell(&of(0, 0.0, 0).since(&of(1, 5.0, 7))).is_empty(), "it was reset");
    }
}
