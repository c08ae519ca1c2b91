//! Options that select the server and its databases.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::Args;

use postgres::{
    Address, ConnectOptions, DataDirectory, Error, Parameters, Server, SystemUser, grant, hide_password,
    parse_connection_string, psql_as, quote_argument,
};
use terminal::PastedCommands;

/// Options that select the server and its databases, as in psql
///
/// docs/connecting.md describes passwords, peer authentication and TLS.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection (as in psql; PG* variables and ~/.pgpass apply)")]
pub struct ConnectionArguments {
    /// Server's host, or the directory of its socket
    ///
    /// With several (a,b), pgthaw tries each in turn.
    #[arg(short = 'h', long, value_name = "HOST")]
    pub host: Option<String>,

    /// Server's port
    #[arg(short, long)]
    pub port: Option<String>,

    /// User to connect as
    ///
    /// Default: the operating system user. On a socket, root connects as the socket's owner.
    #[arg(short = 'U', long, value_name = "USER")]
    pub username: Option<String>,

    /// Only this database, or a connection string
    ///
    /// The shared catalogs are included. May be repeated. Default: every database of the cluster. A connection string or URI also
    /// works: 'host=db user=app', postgresql://app@db/shop
    #[arg(short = 'd', long = "dbname", value_name = "DATABASE")]
    pub databases: Vec<String>,

    /// Ask for a password before connecting
    ///
    /// Default: only if the server requires one.
    #[arg(short = 'W', long = "password", hide_short_help = true)]
    pub ask_password: bool,

    /// Never ask for a password
    #[arg(short = 'w', long, conflicts_with = "ask_password", hide_short_help = true)]
    pub no_password: bool,

    /// Connect as this system user (needs root)
    ///
    /// For peer authentication.
    #[arg(long = "as", value_name = "USER", hide_short_help = true)]
    pub system_user: Option<String>,

    /// Data directory of a stopped server
    ///
    /// Also for a running server that reports a different path.
    #[arg(short = 'D', long, value_name = "DIRECTORY", env = "PGTHAW_DATA_DIR", hide_short_help = true)]
    pub data_dir: Option<PathBuf>,

    /// Server in this container (needs root)
    ///
    /// Name or identifier of the container, or the number of a process in it. pgthaw asks docker, podman or crictl, else searches the
    /// cgroups. Connects through the server's socket in the container unless -h or -p is given.
    #[arg(long, value_name = "CONTAINER", conflicts_with = "data_dir", hide_short_help = true)]
    pub container: Option<String>,

    /// Data directory of `container`, once found.
    #[arg(skip)]
    pub found: Arc<OnceLock<DataDirectory>>,

    /// The password that the user entered. pgthaw prompts once in a run.
    #[arg(skip)]
    pub asked: Arc<OnceLock<String>>,

    /// As [`ConnectOptions::preferred_database`].
    #[arg(skip)]
    pub preferred_database: Option<String>,

    /// As [`ConnectOptions::keeps_first`].
    #[arg(skip)]
    pub keeps_first: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub struct PositionalArguments {
    /// Database, as -d
    #[arg(value_name = "DBNAME", hide_short_help = true)]
    database: Option<String>,

    /// User, as -U
    #[arg(value_name = "USERNAME", hide_short_help = true)]
    user: Option<String>,
}

impl PositionalArguments {
    pub fn of(mut words: impl Iterator<Item = String>) -> PositionalArguments {
        PositionalArguments { database: words.next(), user: words.next() }
    }
}

impl ConnectionArguments {
    /// Adds positional arguments as psql does: with `-d`, the first argument is the user.
    pub fn with(mut self, positional: PositionalArguments) -> ConnectionArguments {
        let mut words = [positional.database, positional.user].into_iter().flatten();
        if self.databases.is_empty() {
            self.databases.extend(words.next());
        }
        self.username = self.username.or(words.next());
        self
    }

    /// False for `--data-dir` alone, which needs no running server.
    pub fn names_server(&self) -> bool {
        let is_in_string =
            |parameters: Parameters| ["host", "hostaddr", "port"].iter().any(|key| parameters.get(key).is_some());
        self.host.is_some() || self.port.is_some() || self.connection_string().ok().flatten().is_some_and(is_in_string)
    }

    pub fn names_cluster(&self) -> bool {
        self.names_server() || self.names_directory()
    }

    pub fn names_directory(&self) -> bool {
        self.data_dir.is_some() || self.container.is_some()
    }

    pub fn open_directory(&self) -> Result<Option<DataDirectory>, Error> {
        let Some(container) = &self.container else {
            let found = self.data_dir.as_deref().map(DataDirectory::open).transpose()?;
            return Ok(found.map(DataDirectory::as_seen_by_its_server));
        };
        if self.found.get().is_none() {
            let _ = self.found.set(DataDirectory::of_container(container)?);
        }
        Ok(self.found.get().cloned())
    }

    pub fn says_anything(&self) -> bool {
        self.host.is_some() || self.port.is_some() || self.username.is_some() || !self.databases.is_empty()
    }

    /// Databases in the command line's order; empty means all.
    pub fn databases(&self) -> Result<Vec<String>, Error> {
        self.parse_databases().map(|(names, _)| names)
    }

    /// Connection string in `-d`; `None` if all values are database names.
    fn connection_string(&self) -> Result<Option<Parameters>, Error> {
        self.parse_databases().map(|(_, string)| string)
    }

    fn parse_databases(&self) -> Result<(Vec<String>, Option<Parameters>), Error> {
        let (mut names, mut string) = (Vec::new(), None);
        for text in &self.databases {
            match parse_connection_string(text)? {
                Some(_) if string.is_some() => {
                    let reason = "only one is allowed".into();
                    return Err(Error::ConnectionString { reason });
                }
                Some(parameters) => {
                    names.extend(parameters.get("dbname").map(str::to_owned));
                    string = Some(parameters);
                }
                None => names.push(text.clone()),
            }
        }
        Ok((names, string))
    }

    pub fn connect_options(&self) -> Result<ConnectOptions, Error> {
        let mut parameters = self.connection_string()?.unwrap_or_default();
        if let Some(password) = self.asked.get() {
            parameters.set("password", password.clone());
        }
        let port = self.port.as_ref().filter(|port| !port.is_empty() && parameters.get("port").is_none());
        if let Some(port) = port {
            parameters.set("port", port.clone());
        }
        Ok(ConnectOptions {
            host: self.host.clone(),
            user: self.username.clone(),
            database: self.databases()?.first().cloned(),
            parameters,
            system_user: self.system_user.clone(),
            preferred_database: self.preferred_database.clone(),
            keeps_first: self.keeps_first,
            ..ConnectOptions::default()
        })
    }

    /// Asks for a missing password if there is a terminal.
    pub async fn connect(&self, to: impl Fn(ConnectOptions) -> ConnectOptions) -> Result<Server, Error> {
        if self.ask_password && self.asked.get().is_none() {
            let options = to(self.connect_options()?);
            match options.withheld_from()? {
                Some(address) => terminal::print_remark(&format!(
                    "-W has no effect: pgthaw sends no password to {address}, which it read from a data directory (if you trust that server, give its address with -h and -p)"
                )),
                None => {
                    let who = options.describe()?.user.or(SystemUser::current().ok().map(|user| user.name));
                    self.ask(&who.unwrap_or_default()).await?;
                }
            }
        }
        let server = match Server::connect(&to(self.connect_options()?)).await {
            Err(Error::PasswordMissing { address, user }) if !self.no_password && self.asked.get().is_none() => {
                if !self.ask(&user).await? {
                    return Err(Error::PasswordMissing { address, user });
                }
                Server::connect(&to(self.connect_options()?)).await?
            }
            outcome => outcome?,
        };
        let monitor = grant(&server.database, "pg_monitor", &server.facts.role);
        let monitor = Some(monitor.trim_matches('`').to_owned());
        let pasted = self.pasted_commands(&server.describe(), server.psql());
        let writing_psql = server.writing_psql();
        terminal::complete_commands_with(PastedCommands { monitor, writing_psql, ..pasted });
        Ok(server)
    }

    /// Returns false without a terminal.
    async fn ask(&self, user: &str) -> Result<bool, Error> {
        let answer = terminal::ask_password(&format!("Password for user {user}: ")).await;
        let answer = answer.map_err(|source| Error::file("ask for a password on", "/dev/tty".as_ref(), source))?;
        Ok(answer.is_some_and(|password| self.asked.set(password).is_ok()))
    }

    pub fn complete_printed_commands(&self) {
        // Ignores invalid options: connecting reports them.
        let options = self.connect_options();
        let address = options.as_ref().ok().and_then(|options| options.describe().ok()).unwrap_or_default();
        let address = self.told_address(address);
        // Root usually has no database role, so psql runs as the socket's owner.
        let socket = options.ok().and_then(|options| options.socket_file()).filter(|_| SystemUser::is_root());
        let psql = match socket.and_then(|file| SystemUser::owner_of_socket(&file)) {
            Some(owner) if address.user.is_none() => psql_as(&owner, &address),
            _ => format!("psql{address}"),
        };
        terminal::complete_commands_with(self.pasted_commands(&address, psql));
    }

    /// The server of `--data-dir` may listen at another address than PG* variables say.
    fn told_address(&self, address: Address) -> Address {
        if self.names_directory() && !self.names_server() {
            return Address { user: address.user, ..Address::default() };
        }
        address
    }

    fn pasted_commands(&self, address: &Address, psql: String) -> PastedCommands {
        let render = |option: &str, value: &str| format!(" {option} {}", quote_argument(value));
        let directory =
            self.data_dir.as_ref().map(|path| render("-D", &path.display().to_string())).unwrap_or_default();
        let container = self.container.as_ref().map(|name| render("--container", name)).unwrap_or_default();
        let system_user = self.system_user.as_ref().map(|user| render("--as", user)).unwrap_or_default();
        let databases: String = match self.connection_string() {
            // The connection string overrides host, port and role, and may contain more.
            Ok(Some(string)) => render("-d", &string.render_without_password()),
            _ => self.databases.iter().map(|database| render("-d", database)).collect(),
        };
        // sudo drops PG* variables, so commands need their values, unless options name the cluster.
        let unnamed = if self.names_cluster() { Address::default() } else { Address { user: None, ..address.clone() } };
        let typed = typed_words();
        PastedCommands {
            options_without_user: format!(
                "{}{directory}{container}{databases}",
                Address { user: None, ..address.clone() }
            ),
            options: format!("{address}{directory}{container}{system_user}{databases}"),
            writing_psql: psql.clone(),
            psql,
            typed: render_typed(&typed),
            typed_without_user: render_typed(&without_user(&typed)),
            untyped: unnamed.to_string(),
            monitor: None,
        }
    }
}

fn typed_words() -> Vec<String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().trim_end().to_owned());
    words.filter(|word| !matches!(&**word, "-w" | "--no-password" | "-W" | "--password")).collect()
}

fn without_user(words: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match &**word {
            "-U" | "--username" | "--as" => drop(words.next()),
            "--" => {
                left.push(word.clone());
                left.extend(words.by_ref().cloned());
            }
            joined if ["-U", "--username=", "--as="].iter().any(|option| joined.starts_with(option)) => {}
            _ => left.push(word.clone()),
        }
    }
    left
}

/// Hides passwords.
fn render_typed(words: &[String]) -> Vec<String> {
    let shown = words.iter().map(|word| quote_argument(&hide_password(word).unwrap_or_else(|| word.clone())));
    ["pgthaw".to_owned()].into_iter().chain(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(databases: &[&str]) -> ConnectionArguments {
        let databases = databases.iter().map(|name| (*name).to_owned()).collect();
        ConnectionArguments { databases, ..ConnectionArguments::default() }
    }

    #[test]
    fn a_database_is_a_name_or_stands_in_a_connection_string() {
        assert_eq!(typed(&["shop", "other"]).databases().unwrap(), ["shop", "other"]);
        let string = typed(&["host=db dbname=shop password=geheim"]);
        assert_eq!(string.databases().unwrap(), ["shop"]);
        assert!(string.names_server());
        assert_eq!(string.connect_options().unwrap().database.as_deref(), Some("shop"));
        assert!(typed(&["host=db"]).databases().unwrap().is_empty(), "no database is every database");
        assert!(typed(&["host=a", "host=b"]).connect_options().is_err());
        let told = typed(&["postgress://u:geheim@h/d"]).databases().unwrap_err().to_string();
        assert!(!told.contains("geheim"), "{told}");
    }

    #[test]
    fn a_command_is_told_without_its_user() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for typed in [
            "map -U ann --top 3",
            "map -Uann --top 3",
            "map --username ann --top 3",
            "map --username=ann --top 3",
            "map --as nobody --top 3",
            "map -U ann --as=nobody --top 3",
        ] {
            assert_eq!(without_user(&words(typed)), words("map --top 3"));
        }
        assert_eq!(without_user(&words("run -U ann -- psql -U bob")), words("run -- psql -U bob"));
    }

    #[test]
    fn words_without_an_option_mean_what_they_mean_to_psql() {
        let words = |database: &str, user: Option<&str>| PositionalArguments {
            database: Some(database.into()),
            user: user.map(str::to_owned),
        };
        let both = typed(&[]).with(words("shop", Some("app")));
        assert_eq!((both.databases, both.username.as_deref()), (vec!["shop".into()], Some("app")));
        let after_option = typed(&["shop"]).with(words("app", None));
        assert_eq!((after_option.databases, after_option.username.as_deref()), (vec!["shop".into()], Some("app")));
    }

    #[test]
    fn a_printed_command_leads_to_the_same_server_and_has_no_password() {
        let mut arguments = typed(&["shop", "$(reboot)"]);
        arguments.data_dir = Some("/srv/pg".into());
        let address = Address { host: Some("/tmp/a b".into()), port: Some(5433), user: None };
        let pasted = arguments.pasted_commands(&address, format!("psql{address}"));
        assert_eq!(pasted.options, " -h '/tmp/a b' -p 5433 -D /srv/pg -d shop -d '$(reboot)'");
        assert_eq!(pasted.psql, "psql -h '/tmp/a b' -p 5433");
        let alone = ConnectionArguments { data_dir: arguments.data_dir.clone(), ..typed(&[]) };
        assert_eq!(alone.told_address(address.clone()), Address::default());
        let both = ConnectionArguments { port: Some("5433".into()), ..alone };
        assert_eq!(both.told_address(address.clone()), address);
        let as_another = ConnectionArguments { system_user: Some("nobody".into()), ..typed(&[]) };
        let pasted = as_another.pasted_commands(&Address::default(), String::new());
        assert_eq!((&*pasted.options, &*pasted.options_without_user), (" --as nobody", ""));
        let string = typed(&["postgresql://app:geheim@db/shop?sslmode=require"]);
        let pasted = string.pasted_commands(&address, format!("psql{address}"));
        assert_eq!(pasted.options, " -h '/tmp/a b' -p 5433 -d 'dbname=shop host=db sslmode=require user=app'");
    }
}
