//! The connection, the role, and how the server reads.

use crate::{Error, Psql, Server, ServerFacts};
use host::failure::Capability;

pub const GROUP: &str = "server";

/// What needs an answering server.
pub const NAMES: [&str; 2] = [ROLE, BUFFERED_IO];

const ROLE: &str = "role";
const BUFFERED_IO: &str = "buffered-io";

/// Does a server answer, and is it one that pgthaw knows?
pub fn check_connection(connection: &Result<Server, Error>) -> Capability {
    const NAME: &str = "server";
    match connection {
        Ok(server) => {
            let facts = &server.facts;
            let state = if facts.in_recovery { "standby" } else { "primary" };
            let buffers = facts.shared_buffers_bytes.0 / u64::from(facts.block_size);
            let mut detail = format!(
                "PostgreSQL {} at {}, {state}, block size {}, shared_buffers {buffers} blocks ({})",
                facts.version, server.address, facts.block_size, facts.shared_buffers_bytes
            );
            if let Some(remark) = server.version_remark() {
                detail = format!("{detail}; {remark}");
            }
            Capability::yes(GROUP, NAME, detail)
        }
        Err(error) => Capability::failed(GROUP, NAME, error),
    }
}

/// May the role see what pgthaw asks for?
pub async fn check_role(server: &Server) -> Capability {
    let role = &server.facts.role;
    match is_monitor(server).await {
        Err(error) => Capability::failed(GROUP, ROLE, &error),
        Ok(_) if server.facts.is_superuser => Capability::yes(GROUP, ROLE, format!("{role} is a superuser")),
        Ok(true) => Capability::yes(GROUP, ROLE, format!("{role} has the privileges of pg_monitor")),
        Ok(false) => Capability::no(
            GROUP,
            ROLE,
            format!("{role} has not the privileges of pg_monitor"),
            Psql::anywhere().grant(&server.database, "pg_monitor", role),
        ),
    }
}

async fn is_monitor(server: &Server) -> Result<bool, Error> {
    let mut connection = server.connect_to(&server.database).await?;
    sqlx::query_scalar(include_str!("../sql/monitor_role_13.sql"))
        .fetch_one(&mut connection)
        .await
        .map_err(|source| Error::Query { action: "ask for the role's privileges", source })
}

/// Does the server read through the page cache? What is loaded there is of no use to it otherwise.
pub fn check_io(facts: &ServerFacts) -> Capability {
    if facts.io_direct {
        let detail = "debug_io_direct has data: the server reads past the page cache, only the buffers tier helps it";
        return Capability::no(
            GROUP,
            BUFFERED_IO,
            detail,
            "`psql -c 'ALTER SYSTEM RESET debug_io_direct'`, then restart it",
        );
    }
    let method = facts.io_method.as_deref().map_or(String::new(), |method| format!(" (io_method {method})"));
    Capability::yes(GROUP, BUFFERED_IO, format!("the server reads through the page cache{method}"))
}
