use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use super::resolved::{Candidate, ConnectOptions, Identity, Kind, ResolvedOptions};
use super::system_user::{ActingAs, DEFAULT_PORT, SystemUser};
use crate::answer::{Columns as _, ask_one};
use crate::contained_socket::number_inside;
use crate::error::{INVALID_AUTHORIZATION, INVALID_PASSWORD};
use crate::{Address, Error, Result};

const OLDEST_VERSION_NUM: u32 = 130_000;

#[derive(Clone, Debug)]
pub struct Reached {
    resolved: ResolvedOptions,
    candidate: Candidate,
    identity: Identity,
    pub database: String,
}

impl Reached {
    pub async fn reach(options: &ConnectOptions) -> Result<(Reached, PgConnection)> {
        let resolved = ResolvedOptions::new(options)?;
        let mut failures = Vec::new();
        for wanted in &resolved.wanted {
            for candidate in &resolved.candidates {
                match reach_host(&resolved, candidate, wanted).await {
                    Ok((identity, database, connection)) => {
                        let candidate = candidate.clone();
                        return Ok((Reached { resolved, candidate, identity, database }, connection));
                    }
                    // Like libpq, tries no further host if one refuses.
                    Err(error) if error.is_refusal() => return Err(error),
                    Err(error) => failures.push(error),
                }
            }
        }
        match failures.len() {
            1 => Err(failures.remove(0)),
            _ => Err(Error::NoHost { failures }),
        }
    }

    pub async fn connect_to(&self, database: &str) -> Result<PgConnection> {
        connect_as(&self.resolved, &self.candidate, &self.identity, database).await
    }

    pub async fn within<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        within(self.resolved.timeout, &self.address(), asked).await?
    }

    pub fn address(&self) -> String {
        self.candidate.address()
    }

    pub fn is_local_socket(&self) -> bool {
        self.candidate.socket_file().is_some()
    }

    pub fn is_on_this_host(&self) -> bool {
        self.is_local_socket() || self.candidate.is_loopback()
    }

    pub fn acting_as(&self) -> Option<&SystemUser> {
        self.identity.system_user.as_ref()
    }

    pub fn socket_owner(&self) -> Option<SystemUser> {
        SystemUser::owner_of_socket(&self.candidate.socket_file()?)
    }

    /// Command for psql in the server's container, if it has the socket.
    pub fn psql_inside(&self, postmaster: u32) -> Option<String> {
        let directory = self.candidate.directory_in_container()?;
        let uid = number_inside(postmaster, "uid_map", self.socket_owner()?.uid);
        let group = std::fs::metadata(format!("/proc/{postmaster}")).ok()?.gid();
        let gid = number_inside(postmaster, "gid_map", group);
        let port = (self.candidate.port != DEFAULT_PORT).then_some(self.candidate.port);
        let (host, user) = (Some(directory.display().to_string()), Some(self.identity.role.clone()));
        // The container's psql could be any program.
        let inside = format!("setpriv --no-new-privs nsenter -t {postmaster} -a -S {uid} -G {gid}");
        Some(format!("{inside} psql{}", Address { host, port, user }))
    }

    /// Omits the role if it is psql's default.
    pub fn describe(&self) -> Address {
        let by_itself = match self.acting_as() {
            Some(user) => Some(user.name.clone()),
            None => SystemUser::current().ok().map(|user| user.name),
        };
        let role = &self.identity.role;
        self.candidate.describe((by_itself.as_ref() != Some(role)).then(|| role.clone()))
    }
}

async fn reach_host(
    resolved: &ResolvedOptions,
    candidate: &Candidate,
    wanted: &Kind,
) -> Result<(Identity, String, PgConnection)> {
    let mut refused = None;
    'identities: for identity in resolved.identities(candidate)? {
        for database in resolved.databases() {
            match connect_as(resolved, candidate, &identity, &database).await {
                Ok(mut connection) => {
                    let kind = require_kind(&mut connection, wanted, candidate);
                    within(resolved.timeout, &candidate.address(), kind).await??;
                    return Ok((identity, database, connection));
                }
                Err(error) if resolved.only_prefers(&database) && error.may_spare_another_database() => {}
                Err(error) if error.has_state(&[INVALID_AUTHORIZATION]) => {
                    refused = refused.or(Some(error));
                    continue 'identities;
                }
                Err(error) if error.is_about_database() => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        break;
    }
    Err(refused.unwrap_or_else(|| Error::Option { what: "database", value: String::new() }))
}

async fn connect_as(
    resolved: &ResolvedOptions,
    candidate: &Candidate,
    identity: &Identity,
    database: &str,
) -> Result<PgConnection> {
    // The startup packet overrides settings of databases and roles. A session that does not return the random value
    // belongs to a pooler.
    let mark = rand::random::<u64>().to_string();
    let options = candidate.options(resolved, &identity.role, database)?;
    let options = options.options([("search_path", ""), ("pgthaw.session", &mark)]);
    let address = candidate.address();
    let attempt = async {
        resolved.check_peer(candidate, &identity.role, database).await?;
        let failed = |source| Error::Connect { address: address.clone(), source };
        let mut connection = open(&options, identity).await.map_err(failed)?;
        check_version(&connection)?;
        // A prepared statement would remain in a pooler's session.
        let asked = sqlx::raw_sql(include_str!("../sql/session_path_13.sql")).fetch_one(&mut connection).await;
        let path = asked.and_then(|row| Ok((row.try_get::<String, _>(0)?, row.try_get::<Option<String>, _>(1)?)));
        Ok::<_, Error>((connection, path.map_err(failed)?))
    };
    match within(resolved.timeout, &address, attempt).await? {
        Ok((connection, (path, found))) if path.is_empty() && found.as_ref() == Some(&mark) => Ok(connection),
        Ok((_, (path, _))) => Err(Error::ForeignPath { address, path }),
        Err(error) if error.has_state(&[INVALID_PASSWORD]) => {
            match resolved.password(candidate, &identity.role, database)? {
                Some(_) => Err(error),
                None if resolved.withholds_password(candidate) => Err(Error::PasswordWithheld { address }),
                None => Err(Error::PasswordMissing { address, user: identity.role.clone() }),
            }
        }
        Err(error) => Err(error),
    }
}

async fn within<T>(limit: Duration, address: &str, asked: impl Future<Output = T>) -> Result<T> {
    let answer = tokio::time::timeout(limit, asked).await;
    answer.map_err(|_| Error::ConnectTimeout { address: address.to_owned(), seconds: limit.as_secs() })
}

async fn open(options: &PgConnectOptions, identity: &Identity) -> Result<PgConnection, sqlx::Error> {
    match &identity.system_user {
        Some(user) => ActingAs::new(user, PgConnection::connect_with(options)).await,
        None => PgConnection::connect_with(options).await,
    }
}

/// An unknown version passes.
fn check_version(connection: &PgConnection) -> Result<()> {
    let too_old = connection.server_version_num().filter(|number| *number < OLDEST_VERSION_NUM);
    too_old.map_or(Ok(()), |number| Err(Error::Version(format!("{}.{}", number / 10_000, number % 10_000))))
}

async fn require_kind(connection: &mut PgConnection, wanted: &Kind, candidate: &Candidate) -> Result<()> {
    if wanted.name == "any" {
        return Ok(());
    }
    let question = "SELECT pg_catalog.pg_is_in_recovery(), \
                    pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool";
    let (in_recovery, is_read_only): (bool, bool) =
        ask_one(connection, "check target_session_attrs", sqlx::query(question)).await?;
    match (wanted.fits)(in_recovery, is_read_only) {
        true => Ok(()),
        false => Err(Error::OtherKindOfServer { address: candidate.address(), wanted: wanted.described }),
    }
}

// ---- plain server ----
//
// The results store connects to the first host as this process's user, without retries.

#[derive(Clone, Debug)]
pub struct PlainServer {
    pub options: PgConnectOptions,
    /// `postgres://USER@HOST:PORT/DATABASE`, without secrets.
    pub shown: String,
    resolved: ResolvedOptions,
    candidate: Candidate,
    role: String,
    database: String,
}

impl PlainServer {
    pub fn new(options: &ConnectOptions) -> Result<PlainServer> {
        let resolved = ResolvedOptions::new(options)?;
        let candidate = resolved.candidates[0].clone();
        let identities = resolved.identities(&candidate)?;
        let oneself = identities.iter().find(|identity| identity.system_user.is_none()).unwrap_or(&identities[0]);
        let role = oneself.role.clone();
        let database = resolved.database.clone().unwrap_or_else(|| role.clone());
        let options = candidate.options(&resolved, &role, &database)?;
        let shown = format!("postgres://{role}@{}/{database}", candidate.address());
        Ok(PlainServer { options, shown, resolved, candidate, role, database })
    }

    /// Call this before sending any data.
    pub async fn check_peer(&self) -> Result<()> {
        self.resolved.check_peer(&self.candidate, &self.role, &self.database).await
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::super::parse_connection_string;
    use super::*;

    fn refuse(mut client: TcpStream, state: Option<&str>, asked: &Sender<String>) -> std::io::Result<()> {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut packet = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut packet)?;
        let text = String::from_utf8_lossy(&packet[4..]).into_owned();
        let mut words = text.split('\0').skip_while(|word| *word != "database");
        _ = asked.send(words.nth(1).unwrap_or_default().to_owned());
        let Some(state) = state else { return client.read_exact(&mut [0]) };
        let fields = format!("SFATAL\0VFATAL\0C{state}\0Mno\0\0");
        client.write_all(b"E")?;
        client.write_all(&(fields.len() as u32 + 4).to_be_bytes())?;
        client.write_all(fields.as_bytes())
    }

    async fn tried(state: Option<&'static str>) -> Vec<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, databases) = channel();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let asked = asked.clone();
                thread::spawn(move || refuse(client, state, &asked));
            }
        });
        let text = format!("host=127.0.0.1 port={port} user=ann sslmode=disable connect_timeout=1");
        let parameters = parse_connection_string(&text).unwrap().unwrap();
        let preferred_database = Some("shop".to_owned());
        let options = ConnectOptions { parameters, preferred_database, ..ConnectOptions::default() };
        assert!(Reached::reach(&options).await.is_err());
        databases.try_iter().collect()
    }

    #[tokio::test]
    async fn only_what_stands_against_a_database_that_nobody_named_leads_to_another() {
        let all = ["shop", "postgres", "template1"];
        for state in ["3D000", "42501"] {
            assert_eq!(tried(Some(state)).await, all, "{state}");
        }
        for state in ["55000", "28000"] {
            assert_eq!(tried(Some(state)).await, all[..2], "{state}");
        }
        for state in [Some("28P01"), Some("57P03"), None] {
            assert_eq!(tried(state).await, all[..1], "{state:?}");
        }
    }
}
