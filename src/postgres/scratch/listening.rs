//! A cluster that one role reaches from elsewhere, with a password.

use std::net::{IpAddr, TcpListener, ToSocketAddrs as _};

use super::{PORT, ScratchCluster};
use crate::postgres::{ConnectOptions, Error};

/// So many ports are tried: others may have servers too.
const PORTS: u16 = 100;

/// Where a server is reached from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// This host as others know it: a name or an address.
    pub host: String,
    address: IpAddr,
    port: u16,
    role: String,
}

impl Listening {
    /// A free port of this machine's `host`, for `role`.
    ///
    /// # Errors
    /// When it is no address of this machine, or all ports are taken.
    pub fn find(host: &str, role: &str) -> Result<Listening, Error> {
        let failed = |reason: String| Error::Listen { host: host.to_owned(), reason };
        let mut addresses = (host, 0).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
        let address = addresses.next().ok_or_else(|| failed("the name has no address".to_owned()))?.ip();
        let mut refused = String::new();
        for port in PORT..PORT + PORTS {
            match TcpListener::bind((address, port)) {
                Ok(_) => return Ok(Listening { host: host.to_owned(), address, port, role: role.to_owned() }),
                Err(error) => refused = error.to_string(),
            }
        }
        Err(failed(refused))
    }

    /// How the role connects.
    pub fn connect_options(&self, database: &str) -> ConnectOptions {
        ConnectOptions {
            host: Some(self.host.clone()),
            port: Some(self.port),
            user: Some(self.role.clone()),
            database: Some(database.to_owned()),
            ..ConnectOptions::default()
        }
    }
}

impl ScratchCluster {
    /// From the next start on the server listens there as well, and lets the role in alone, by its password (SCRAM). Who
    /// reaches its socket is let in as before.
    pub fn listen(&mut self, listening: &Listening) -> Result<(), Error> {
        self.port = listening.port;
        self.configure(&[("listen_addresses", &listening.address.to_string())])?;
        self.replace_file(
            "pg_hba.conf",
            &format!("local all all trust\nhost all {} all scram-sha-256\n", listening.role),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_machine_is_refused() {
        // Of a network that is for documents alone (RFC 5737).
        let error = Listening::find("192.0.2.1", "r").unwrap_err().to_string();
        assert!(error.contains("192.0.2.1"), "{error}");
    }

    #[test]
    fn a_port_that_is_taken_is_left_to_its_owner() {
        let first = Listening::find("127.0.0.1", "r").unwrap();
        let _taken = TcpListener::bind((first.address, first.port)).unwrap();
        let second = Listening::find("127.0.0.1", "r").unwrap();
        assert_ne!(first.port, second.port);
    }
}
