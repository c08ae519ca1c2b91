//! What has happened before a block of a guide, which its reader would not type.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;

use super::Reader;
use super::document::User;
use crate::servers::wait_until;

/// Programs in the background, which end with this value.
#[derive(Default)]
pub struct Clients(Vec<Child>);

impl Clients {
    fn end(&mut self) {
        for mut client in self.0.drain(..).rev() {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a client of the shop does.
const READ_AN_ORDER: &str = "\\set id random(1, 100000)\nBEGIN;\nSELECT total FROM orders WHERE id = :id;\n\
    SELECT product, quantity FROM order_lines WHERE order_id = :id;\nEND;\n";

impl Reader {
    pub fn bring_about(&mut self, situation: &str) {
        self.has_screen = false;
        match situation {
            "the machine reboots, and cron takes a snapshot of the cold server" => {
                // The map has a column for dirty pages.
                self.ok(User::Postgres, "vacuumdb --all --quiet");
                self.restart_cold();
                assert!(!self.regular.is_empty());
                self.regular.iter().for_each(|line| self.run_by_cron(line));
            }
            "four clients work on shop" => {
                self.psql("SELECT sum(length(o::text)) FROM orders o; SELECT sum(length(l::text)) FROM order_lines l");
                self.psql("SELECT pg_stat_reset()");
                self.start_pgbench("-c 4", READ_AN_ORDER);
                self.wait_for("application_name = 'pgbench'", 4);
                // Their statistics come within a second.
                thread::sleep(Duration::from_secs(2));
            }
            "the clients stop" => {
                self.end_clients();
                // Statistics of backends that have ended may come a second later.
                thread::sleep(Duration::from_secs(2));
            }
            "the server restarts with cold caches, and four clients work on shop" => {
                self.restart_cold();
                // So slow that the tables are not cached before anybody has looked.
                self.start_pgbench("-c 4 -R 150", READ_AN_ORDER);
                self.wait_for("application_name = 'pgbench'", 4);
            }
            "the clients stop, and the server restarts with cold caches" => self.restart_cold(),
            "the report's data is cold, the newest orders are in shared_buffers" => {
                self.cluster().control("restart");
                self.ok(User::Root, "pgthaw evict -q --yes -d shop --tier os");
                self.psql("SELECT pg_prewarm('orders', 'buffer', 'main', 1000, 1500)");
            }
            "a session idle in transaction has changed customer 42, three others wait for that row" => {
                self.end_clients();
                self.start_psql("BEGIN;\nUPDATE customers SET city = 'moved' WHERE id = 42;\n");
                self.wait_for("state = 'idle in transaction'", 1);
                self.start_pgbench("-c 3", "UPDATE customers SET name = 'new' WHERE id = 42;\n");
                self.wait_for("wait_event_type = 'Lock'", 3);
            }
            "the same, on a terminal of 100 columns" => self.has_screen = true,
            "clients pause for five seconds during the measurement" => {
                self.end_clients();
                let pay = "\\set id random(1, 100000)\nUPDATE orders SET note = 'paid' WHERE id = :id;\n";
                let pgbench = self.start_pgbench("-c 4 -R 200", pay);
                self.wait_for("query LIKE 'UPDATE orders%'", 4);
                // A measurement needs three seconds before it to know what is usual.
                let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgthaw'";
                let pause = format!(
                    "until [ \"$(psql -XAtd shop -c \"{ours}\")\" != 0 ]; do sleep 0.1; done; \
                     sleep 5; kill -STOP {0}; sleep 5; kill -CONT {0}",
                    pgbench.as_raw_nonzero()
                );
                let command = self.command(User::Postgres, &pause);
                self.start(command);
            }
            "a query sorts order_lines on disk" => {
                self.end_clients();
                let sort = "SELECT * FROM order_lines ORDER BY price, product OFFSET 599999;\n";
                self.start_psql(&sort.repeat(100));
                self.wait_for("query LIKE 'SELECT * FROM order_lines%'", 1);
            }
            "the checkpointer syncs customers, which takes seconds" => {
                self.end_clients();
                self.psql("UPDATE customers SET name = name WHERE id < 1000");
                let pid = self.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
                let file = self.cluster().data_directory().join(self.psql("SELECT pg_relation_filepath('customers')"));
                let mut strace = Command::new("strace");
                strace.args(["-qq", "-o", "/dev/null", "-p", &pid, "-P"]).arg(file);
                strace.args(["-e", "inject=fsync,fdatasync:delay_enter=30000000"]);
                self.start(strace);
                thread::sleep(Duration::from_secs(1));
                self.start_psql("CHECKPOINT;\n");
                self.wait_for("backend_type = 'checkpointer' AND wait_event LIKE '%Sync'", 1);
            }
            "a checkpoint writes buffers, spread over minutes" => {
                self.end_clients();
                self.psql("UPDATE orders SET note = 'sent' WHERE id < 30000");
                self.start_psql("SELECT pg_backup_start('guide');\n");
                self.wait_for("backend_type = 'checkpointer' AND wait_event = 'CheckpointWriteDelay'", 1);
            }
            "eight clients compute on two processors" => {
                self.end_clients();
                self.start_pgbench("-c 8", "SELECT count(*) FROM order_lines WHERE price * 1.19 > 20;\n");
                self.wait_for("state = 'active' AND query LIKE 'SELECT count%'", 8);
            }
            other => panic!("the guide's situation {other:?} is unknown"),
        }
    }

    fn psql(&self, sql: &str) -> String {
        self.cluster().psql_in("shop", sql)
    }

    fn ok(&self, user: User, line: &str) {
        let output = self.run(user, line);
        assert_eq!(output.status, 0, "{line}\n{}", output.stdout);
    }

    /// Waits until pg_stat_activity has so many rows like this.
    fn wait_for(&self, condition: &str, count: usize) {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {condition}");
        wait_until(condition, || self.psql(&sql).parse::<usize>().unwrap() >= count);
    }

    fn restart_cold(&mut self) {
        self.end_clients();
        self.cluster().control("stop");
        let directory = self.cluster().data_directory();
        self.ok(User::Root, &format!("pgthaw -q evict -D {} --all --yes", directory.display()));
        self.cluster().control("start");
    }

    fn start(&mut self, mut command: Command) -> Pid {
        let client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&client);
        self.clients.0.push(client);
        pid
    }

    fn start_pgbench(&mut self, options: &str, script: &str) -> Pid {
        std::fs::write(self.desk.path().join("script.sql"), script).unwrap();
        let line = format!("exec pgbench -n -T 600 {options} -f script.sql shop");
        let command = self.command(User::Postgres, &line);
        self.start(command)
    }

    /// A session that runs this, and stays.
    fn start_psql(&mut self, sql: &str) {
        let mut command = self.command(User::Postgres, "exec psql -X -d shop");
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        client.stdin.as_mut().unwrap().write_all(sql.as_bytes()).unwrap();
        self.clients.0.push(client);
    }

    fn end_clients(&mut self) {
        self.clients.end();
        let others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        self.psql(&format!("SELECT pg_terminate_backend(pid) {others}"));
        wait_until("the end of all sessions", || self.psql(&format!("SELECT count(*) {others}")) == "0");
    }
}
